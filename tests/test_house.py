"""The rules of the house are held by `scripts/house`, and its page tells the truth."""

import ast
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "treadle"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
HOUSE = SimpleNamespace(**runpy.run_path(str(ROOT / "scripts" / "house")))
SIZE = SimpleNamespace(**runpy.run_path(str(ROOT / "scripts" / "size")))
LAYOUT = 'RUN_JSON = "run.json"'


def broken(rule, **modules):
    texts = {"layout.py": LAYOUT} | {f"{name}.py": text for name, text in modules.items()}
    return list(rule({name: ast.parse(text) for name, text in texts.items()}))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("late", "import importlib\nimportlib.import_module('x')"),
        ("late", "main.load('page')"),
        ("sql", "query = 'SELECT * FROM runs'"),
        ("paths", "name = 'run.json'"),
        ("paths", "path = f'{folder}/run.json'"),
    ],
)
def test_what_breaks_a_rule_is_named(rule, text):
    (said,) = broken(getattr(HOUSE, rule), other=text)
    assert said.startswith("other.py:")


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("T201", "print(1)"),
        ("TID251", "import subprocess"),
        ("TID251", "import os; os.system('x')"),
        ("TID251", "import os; os.posix_spawn('x', (), {})"),
        ("TID251", "import sqlite3"),
        ("TID251", "from psycopg import connect"),
        ("TID251", "import sys; sys.executable"),
        ("PLC0415", "def f(): import json"),
    ],
)
def test_what_the_linter_holds_is_named(rule, text):
    words = ["check", "--no-cache", "--output-format=concise", "--stdin-filename"]
    place = PACKAGE / "tasks" / "other.py"
    ruff = Path(sys.executable).with_name("ruff")
    done = subprocess.run(
        [ruff, *words, place, "-"], input=text, cwd=ROOT, capture_output=True, text=True
    )
    assert f": {rule} " in done.stdout


def test_the_page_shows_the_layers_that_are_held():
    held = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    drawn = re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)[:2]
    for contract, block in zip(held["contracts"], drawn, strict=True):
        shown = [re.split(r" {2,}", line)[0] for line in block.strip().splitlines()]
        assert shown == contract["layers"]


def test_two_classes_of_one_name_are_named():
    assert broken(HOUSE.twice, a="class Entry: ...", b="class Entry: ...")
    assert not broken(HOUSE.twice, a="class Entry: ...", b="class Field: ...")


def test_sentences_may_speak_of_files():
    assert not broken(HOUSE.paths, other="raise Error('run.json cannot be read')")


def test_sizes_are_held(monkeypatch):
    own, modules = HOUSE.too_large.__globals__, sorted((PACKAGE / "files").rglob("*.py"))
    monkeypatch.setitem(own, "_modules", lambda: modules)  # a few: scripts/check looks at all
    assert list(HOUSE.too_large()) == []
    monkeypatch.setitem(own, "MAX_FILES", 1)
    (said,) = HOUSE.too_large()
    assert said.endswith("at most 1 are allowed: scripts/size shows where they are")


def test_the_page_lists_the_core_path():
    sizes = {path: 0 for path in PACKAGE.rglob("*.py") if path.read_text().strip()}
    core = {path.relative_to(PACKAGE).as_posix() for path in SIZE.core(sizes)}
    section = PAGE.split("## The core path")[1].split("\n## ")[0]
    listed = re.findall(r"`([a-z_/]+\.py)`", section)
    assert sorted(listed) == sorted(core)


def test_the_page_names_modules_that_are_there():
    packages = {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    named = re.findall(r"`([a-z]+(?:/[a-z_]+)+)(?:\.(py|toml))?`", PAGE)
    ours = [(name, end or "py") for name, end in named if name.split("/")[0] in packages]
    assert len(ours) > 40
    assert [name for name, end in ours if not (PACKAGE / f"{name}.{end}").exists()] == []
