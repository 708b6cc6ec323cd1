"""Hot commands load what they need and nothing else."""

import os
import subprocess
import sys

import pytest

from tests.conftest import git

# Third-party packages and slow parts of the standard library that no hot command may load.
HEAVY = {
    "ast",
    "asyncio",
    "concurrent.futures",
    "ctypes",
    "dataclasses",
    "dbos",
    "email",
    "gettext",
    "hashlib",
    "inspect",
    "ipaddress",
    "logging",
    "msgspec",
    "multiprocessing",
    "obstore",
    "psycopg",
    "random",
    "secrets",
    "shtab",
    "shutil",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "tomllib",
    "typing",
    "urllib.parse",
    "yaml",
}
COLD = ("treadle.agents", "treadle.config", "treadle.files", "treadle.git", "treadle.proc")
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
]
# How letters, task files and prompts are put in place, and how git is asked in a hurry; the rest
# of these packages is heavy.
LIGHT = {
    *("treadle.files", "treadle.files.deliver", "treadle.files.quick"),
    *("treadle.git", "treadle.git.guards", "treadle.git.light"),
    *("treadle.proc", "treadle.proc.captured", "treadle.proc.halt", "treadle.proc.spawn"),
}
# What a host agent calls over and over, on a mission that is being implemented.
NEXT = [
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
        [sys.executable, "-X", "importtime", "-c", "pass"], capture_output=True, text=True
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


@pytest.mark.parametrize("words", HOT, ids=lambda words: " ".join(words[:2]))
def test_a_hot_command_loads_nothing_heavy(mission, baseline, words):
    found = loaded(mission, *words) - baseline
    assert found & HEAVY == set()
    assert [name for name in sorted(found - LIGHT) if name.startswith(COLD)] == []


def test_sending_a_letter_does_not_open_the_store(mission, baseline):
    found = loaded(mission, "mail", "send", "--to", "b", "--intent", "inform") - baseline
    assert {name for name in found if name.startswith(("treadle.store", "sqlite3"))} == set()


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
    git(root, "init", "-q")
    env = {**os.environ, "HOME": str(root), "XDG_STATE_HOME": str(root / ".treadle")}
    subprocess.run([sys.executable, "-m", "treadle", "init"], cwd=root, check=True, env=env)
    who = ("-c", "user.name=T", "-c", "user.email=t@example.invalid")
    git(root, "add", ".")
    git(root, *who, "commit", "-q", "-m", "Begin")
    subprocess.run(
        [sys.executable, "-m", "treadle", "task", "add", "g"], cwd=root, check=True, env=env
    )
    return root


@pytest.mark.parametrize("words", NEXT, ids=" ".join)
def test_what_a_host_agent_calls_loads_nothing_heavy(mission, baseline, words):
    found = loaded(mission, *words) - baseline
    assert "treadle.missions.taskfile" in found
    assert found & HEAVY == set()
    assert [name for name in sorted(found - LIGHT) if name.startswith(COLD)] == []
