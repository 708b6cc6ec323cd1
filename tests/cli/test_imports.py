"""Hot commands load what they need and nothing else."""

import ast
import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.builder import Project, make_home

# Third-party packages and slow parts of the standard library that no hot command may load.
HEAVY = {
    *("jinja2", "mcp", "msgspec", "obstore", "psycopg", "pydantic", "shtab", "starlette"),
    "yaml",
    *("ast", "asyncio", "concurrent.futures", "ctypes", "dataclasses", "email", "hashlib"),
    *(
        "inspect",
        "logging",
        "multiprocessing",
        "random",
        "secrets",
        "socket",
        "subprocess",
        "tempfile",
    ),
}
# What only `mcp`, `adopt` and a collector need, and what loads a dozen modules to read a file.
APART = {
    "importlib.resources",
    *("mcp", "mcp_types", "opentelemetry"),
    *("treadle.mcp", "treadle.moving", "treadle.engine.telemetry"),
}
HOT = [
    ("runs", "list", "--json"),
    ("runs", "show", "--json", "20260101-000000-000000"),
    ("runs", "events", "--json", "20260101-000000-000000"),
    ("task", "list", "--json"),
    ("task", "show", "--json", "T-1"),
    ("task", "add", "again"),
    ("mail", "list", "--json"),
    ("mail", "send", "--to", "b", "--intent", "inform"),
    ("mail", "claim", "--as", "a"),
    ("desk", "--json"),
    ("log", "20260101-000000-000000"),
    ("why", "20260101-000000-000000"),
    # What a host agent calls over and over, on a mission that is being implemented.
    ("next", "--json"),
    ("next", "--query"),
    ("next", "--result", "failed"),
    ("mission", "status", "--json"),
    ("mission", "list", "--json"),
    ("task", "move", "WP01", "--to", "blocked"),
]
# As the installed program starts; `-m` would load what finds modules.
START = "from treadle.cli.main import main; main()"


def loaded(root, *words):
    """Return the modules that a command loads, as the interpreter itself tells."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", START, *words],
        cwd=root,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


@pytest.fixture(scope="module")
def baseline(tmp_path_factory):
    done = subprocess.run(
        # Newer versions of Python load more for a bare parser of arguments.
        [sys.executable, "-X", "importtime", "-c", "import argparse; argparse.ArgumentParser()"],
        capture_output=True,
        text=True,
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


@pytest.fixture(scope="module")
def mission(tmp_path_factory):
    """Return a project with a task and a mission that has one too."""
    root = tmp_path_factory.mktemp("mission")
    folder = root / "missions" / "auth"
    (folder / "tasks").mkdir(parents=True)
    (folder / "spec.md").write_text("- FR-001: Users can log in\n")
    (folder / "plan.md").write_text(
        "## Technical Context\n- Language/Version: C11\n- Storage: files\n"
    )
    (folder / "tasks" / "WP01-a.md").write_text("---\ndependencies: []\n---\n# A\n")
    env = make_home(tmp_path_factory.mktemp("home")) | {"XDG_STATE_HOME": str(root / ".treadle")}
    project = Project.make(root, tmp_path_factory.mktemp("agents"), env=env)
    assert project.treadle("task", "add", "g").code == 0
    return root


@pytest.mark.parametrize("words", HOT, ids=lambda words: " ".join(words[:3]))
def test_a_hot_command_loads_nothing_heavy(mission, baseline, words):
    found = loaded(mission, *words) - baseline
    assert "treadle.cli.output" in found
    assert found & (HEAVY | APART) == set()


def test_a_pass_loads_nothing_of_what_stands_apart(mission):
    found = loaded(mission, "process")
    assert "treadle.engine.notices" in found
    assert found & APART == set()


def test_a_server_that_waits_loads_nothing_that_works_or_shows(mission):
    found = loaded(mission, "serve", "--no-web", "--no-work")  # refused once it is loaded
    assert "treadle.inbox.schedule" in found
    works = ("msgspec", "treadle.agents", "treadle.engine.session", "treadle.engine.wheel")
    shows = ("treadle.web.app", "jinja2", "starlette", "uvicorn")
    assert [name for name in found if name.startswith((*works, *shows))] == []


# `next` is what a host agent calls over and over; this says how much of treadle it may need.
MOST_FOR_NEXT = 30


def executes(module):
    """Tell whether a module of treadle is more than a sentence that says what it is for."""
    body = ast.parse(Path(find_spec(module).origin).read_text()).body
    return any(not isinstance(node, ast.Expr) for node in body)


def test_next_executes_few_modules(mission):
    found = loaded(mission, "next", "--json")
    ours = [name for name in found if name.partition(".")[0] == "treadle"]
    executed = sorted(filter(executes, ours))
    assert {"treadle.missions.next", "treadle.missions.prompt"} <= set(executed)
    assert len(executed) <= MOST_FOR_NEXT, executed


@pytest.mark.parametrize("words", [(), ("--agent", "ada"), ("--query",)], ids=" ".join)
def test_next_asks_git_once(mission, tmp_path, words):
    calls, real = tmp_path / "calls", shutil.which("git")
    (tmp_path / "git").write_text(f'#!/bin/sh\necho "$@" >> {calls}\nexec {real} "$@"\n')
    (tmp_path / "git").chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    argv = [sys.executable, "-c", START, "next", "--json", *words]
    done = subprocess.run(argv, cwd=mission, env=env, capture_output=True, check=True)
    assert json.loads(done.stdout)["phase"] == "implement"
    assert len(calls.read_text().splitlines()) == 1
