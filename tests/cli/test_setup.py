"""init, uninstall, trust: what they print."""

import re
import shlex

import pytest

from tests.builder import git
from treadle.engine import lock
from treadle.layout import Layout


def test_init_names_every_file(call):
    said = call("init")
    assert said.code == 0
    assert "wrote .treadle/config.toml\n" in said.out
    assert "wrote specs/\n" in said.out
    assert "kept .treadle/config.toml\n" in call("init").out


def test_what_init_proposes_can_be_typed_as_it_stands(call):
    said = call("init").out
    assert "next: ${EDITOR:-vi} .treadle/config.toml\n" in said  # no tool was found
    add, run = re.findall(r"(?m)^next: treadle (.+)$", said)
    assert call(*shlex.split(add)).code == 0
    assert run == "run"


def test_init_as_a_document(call, repo):
    found = call("init", "--commit", "--json").document
    assert found["root"] == str(repo)
    assert found["wrote"][0] == ".treadle/config.toml"
    assert found["commit"] == git(repo, "rev-parse", "HEAD").strip()


def test_dry_run_says_would(call):
    assert "would write .treadle/config.toml\n" in call("init", "--dry-run").out
    assert call("init", "--dry-run", "--json").document["dry_run"] is True


@pytest.mark.parametrize("words", [["init"], ["config", "show"], ["trust"], ["uninstall"]])
def test_folder_without_git_is_told(call, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    said = call(*words)
    assert said.code == 1
    assert "is not inside a git repository\n  try: git init\n" in said.err


def test_uninstall_names_what_goes_and_stays(call, repo):
    call("init")
    (repo / ".treadle" / "config.toml").write_text("")
    said = call("uninstall")
    assert "removed .treadle/.gitignore\n" in said.out
    assert "kept .treadle/config.toml (changed since init wrote it)\n" in said.out


def test_uninstall_as_a_document(call, repo):
    call("init")
    found = call("uninstall", "--json").document
    assert ".treadle/config.toml" in found["removed"]
    assert found["kept"] == []
    assert git(repo, "status", "--porcelain") == ""
    assert not (repo / ".treadle").exists()


def test_uninstall_of_nothing_leaves_nothing(call, repo):
    assert call("uninstall").out == "nothing to remove\n"
    assert not (repo / ".treadle").exists()


def test_uninstall_while_a_run_works_is_refused(call, repo):
    call("init")
    with lock.hold(Layout(repo)):
        assert call("uninstall").code == 75
    assert (repo / ".treadle" / "config.toml").exists()


def test_trust_shows_what_may_run_now(call, repo):
    call("init")
    (repo / ".treadle" / "config.toml").write_text('[workspace]\nsetup = ["make"]\n')
    said = call("trust")
    assert said.out == f"{repo} is trusted\n  workspace.setup: make\n"
    assert call("trust", "--json").document["commands"][0]["command"] == "make"


def test_trust_can_be_taken_back(call, repo):
    call("init")
    assert call("trust", "--revoke").out == f"{repo} is no longer trusted\n"
    assert call("trust", "--revoke", "--json").document["trusted"] is False


@pytest.mark.parametrize("words", [["init"], ["uninstall"], ["trust"]])
def test_writing_inside_a_run_is_refused(call, monkeypatch, words):
    monkeypatch.setenv("TREADLE_RUN", "r1")
    said = call(*words, "--json")
    assert (said.code, said.document["error"]["code"]) == (3, "inside_run")
