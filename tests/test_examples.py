"""Run what the documentation shows: its examples, its documents, its demo."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.forges import ToyForge
from tests.builder import git
from tests.test_docs import CODE, HOWTO, LINK, REFERENCE, ROOT, blocks, commands, sections

# In this order in one project; RUN is the run that the third makes.
DOCUMENTS = [
    "init",
    "trust",
    "run --goal g --verify AC1=true --agent do=busy",
    "status",
    "runs list",
    "runs show RUN",
    "runs events RUN",
    "runs prune",
    "land RUN",
    "report RUN",
    "why RUN",
    "task add g --verify AC1=true",
    "task list",
    "task show T-1",
    "task link T-1 --depends-on T-2",
    "task claim T-2",
    "task release T-2",
    "task move T-2 --to claimed",
    "task done T-2",
    "config show",
    "doctor",
    "completion bash",
    "uninstall --dry-run",
]


def test_json_documents_have_the_keys_that_the_reference_names(repo):
    found = sections(REFERENCE / "cli.md")
    (repo / ".treadle").mkdir()
    (repo / ".treadle" / "config.toml").write_text('[agents.busy]\ntype="builtin"\nrun=["true"]')
    run_id = ""
    for line in DOCUMENTS:
        if line.startswith("task add"):
            _answer(repo, line)  # a second task, so that one can wait for the other
        answer = _answer(repo, line.replace("RUN", run_id))
        run_id = answer.get("run_id", run_id)
        name = next(name for name in commands() if f"treadle {line} ".startswith(f"{name} "))
        known, is_part = _documented_keys(found[name])
        assert known <= set(answer) if is_part else known == set(answer), (name, answer)


def _answer(repo, line):
    words = [sys.executable, "-m", "treadle", *line.split(), "--json"]
    return json.loads(subprocess.run(words, cwd=repo, capture_output=True, check=False).stdout)


def _documented_keys(section):
    """Return the keys of the JSON paragraph, and whether it refers to a row or task for more."""
    text = section.partition("\nJSON: ")[2].split("\n\n")[0].partition(";")[0]
    codes = CODE.findall(re.sub(r"\([^()]*\)", "", LINK.sub("]", text)))
    names = {re.search(r"\w+", code)[0] for code in codes}
    return names, text.startswith("the ")


@pytest.mark.parametrize(
    ("page", "titles"),
    [
        (ROOT / "README.md", ["A first run of your own"]),
        (ROOT / "docs" / "quickstart.md", None),
        (HOWTO, ["An agent in sh"]),
        (HOWTO, ["Any other tool"]),
        (HOWTO, ["An agent in Python that plays every role", "Try an agent by hand"]),
    ],
    ids=["readme", "quickstart", "howto-sh", "howto-tool", "howto-python"],
)
def test_examples_work_as_they_stand(page, titles, tmp_path):
    found = sections(page)
    text = "\n".join(found[title] for title in titles or found)
    script = [_line(block, tmp_path / "files", n) for n, block in enumerate(blocks(text))]
    folder = tmp_path / "empty"
    folder.mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-eux", "-c", "\n".join(script)],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def _line(block, files, number):
    """Return what a reader does with a block: save it, type it, or only read it."""
    if not block.name:
        return block.text if block.language == "sh" else ""
    files.mkdir(exist_ok=True)
    kept = files / str(number)
    kept.write_text(block.text)
    kept.chmod(0o755 if block.text.startswith("#!") else 0o644)
    return f"mkdir -p {Path(block.name).parent}\ncp {kept} {block.name}"


RECIPES = ROOT / "docs" / "recipes.md"


@pytest.mark.real
@pytest.mark.parametrize(
    "title", [it for it in sections(RECIPES) if it not in ("Recipes", "Begin")]
)
def test_recipes_work_as_they_stand(title, tmp_path, monkeypatch):
    toy = ToyForge(tmp_path / "forge", "gh")
    mine = f"url.{toy.hub}.pushInsteadOf"
    git(tmp_path, "config", "--global", mine, "https://github.com/you/shop.git")
    git(tmp_path, "config", "--global", "init.defaultBranch", "trunk")  # whatever it is called
    monkeypatch.setenv("PATH", f"{toy.bin}{os.pathsep}{os.environ['PATH']}")
    test_examples_work_as_they_stand(RECIPES, ["Begin", title], tmp_path)
    pulls = [pull["head"] for pull in toy.known["pulls"]]
    assert pulls == (["treadle/there-is-a-note"] if "pull request" in title else [])


@pytest.mark.real
def test_the_picture_shows_what_the_demo_prints():
    script = {"__name__": "picture", "__file__": str(ROOT / "scripts" / "picture")}
    exec((ROOT / "scripts" / "picture").read_text(), script)
    assert script["draw"](script["record"]()) == (ROOT / "docs" / "demo.svg").read_text()


def test_demo_script_works_from_anywhere_and_with_spaces(tmp_path):
    checkout = tmp_path / "a check out"
    for name, text in {
        "scripts/demo": (ROOT / "scripts" / "demo").read_text(),
        "scripts/environment": '#!/bin/sh\ntest "$1" = run\n',
        ".venv/bin/python": '#!/bin/sh\nprintf "%s|" "$@"\n',
    }.items():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text(text)
        (checkout / name).chmod(0o755)
    words = [checkout / "scripts" / "demo", "--keep", "--crash"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "-m|treadle|demo|--keep|--crash|"
    assert done.stderr == "scripts/demo: a few seconds\n"
