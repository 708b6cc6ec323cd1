"""Whatever is wrong with a command line or a folder: one sentence, what helps, an exit code."""

import json
import re

import pytest

from treadle.cli import describe, main

WORDS = {"LANE": "done", "N": "1", "URL": "sqlite:other.db"}
# What answers everywhere.
ANYWHERE = {"describe", "completion", "demo", "doctor", "fleet key", "instructions", "mcp"}
READS_CONFIG = [
    "config show",
    "run",
    "trust",
    "routine list",
    "process",
    "land 2026",
    "agent show a",
]


def lines():
    """Yield every command with arguments that it takes."""
    for name, usage in describe.commands().items():
        needed = re.sub(r"\[[^]]*\]", "", usage).split()
        yield [
            *name.split(),
            *(WORDS.get(word, word.rstrip(".").lower().partition("|")[0]) for word in needed),
        ]


def told(capsys, *words):
    """Return the exit code and the error of the one document on stdout."""
    code = main.main([*words, "--json"])
    error = json.loads(capsys.readouterr().out)["error"]
    return code, error


def test_an_option_that_nobody_knows_is_named(capsys):
    for words in lines():
        code, error = told(capsys, *words, "--bogus-option")
        assert (code, error["code"]) == (2, "usage"), words
        assert "--bogus-option" in error["message"], words
        assert error["fix"][0].startswith("treadle "), words


def test_a_folder_without_a_project_says_what_to_do(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in lines():
        if ANYWHERE.isdisjoint((words[0], " ".join(words))):
            code, error = told(capsys, *words)
            assert code in (1, 2), words
            assert error["message"], words
            assert error["fix"], words


@pytest.mark.parametrize("line", READS_CONFIG)
def test_a_broken_configuration_is_named_with_what_opens_it(capsys, repo, monkeypatch, line):
    monkeypatch.chdir(repo)
    main.main(["init"])
    (repo / ".treadle" / "config.toml").write_text("x = [\n")
    capsys.readouterr()
    code, error = told(capsys, *line.split())
    assert (code, error["code"]) == (1, "config_invalid")
    assert error["fix"] == ["${EDITOR:-vi} .treadle/config.toml"]


def test_the_store_in_use_is_no_place_to_copy_to(capsys, repo, monkeypatch):
    monkeypatch.chdir(repo)
    main.main(["init"])
    capsys.readouterr()
    code, error = told(capsys, "store", "copy", "--to", "sqlite:.treadle/treadle.db")
    assert (code, error["fix"]) == (1, ["treadle store copy --help"])
    assert error["message"].endswith("treadle.db is the store in use; name another one")
