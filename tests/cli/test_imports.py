"""Hot commands load what they need and nothing else."""

import os
import subprocess
import sys

import pytest

# Third-party packages and slow parts of the standard library that no hot command may load.
HEAVY = {
    "ast",
    "asyncio",
    "concurrent.futures",
    "ctypes",
    "dataclasses",
    "email",
    "hashlib",
    "inspect",
    "logging",
    "msgspec",
    "multiprocessing",
    "random",
    "secrets",
    "shtab",
    "shutil",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "tomllib",
    "urllib.request",
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
# The locks that let threads share a store come with the part that writes.
WRITING = {"threading"}
WRITERS = ("task", "mail", "desk")
# How letters and task files are put in place; the rest of its package is heavy.
LIGHT = {"treadle.files", "treadle.files.deliver"}


def loaded(root, *words):
    """Return the modules that a command loads, as the interpreter itself tells."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "treadle", *words],
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


@pytest.fixture
def project(repo):
    subprocess.run([sys.executable, "-m", "treadle", "init"], cwd=repo, check=True)
    subprocess.run([sys.executable, "-m", "treadle", "task", "add", "g"], cwd=repo, check=True)
    return repo


@pytest.mark.parametrize("words", HOT, ids=lambda words: " ".join(words[:2]))
def test_a_hot_command_loads_nothing_heavy(project, baseline, words):
    found = loaded(project, *words) - baseline
    assert found & (HEAVY - WRITING if words[0] in WRITERS else HEAVY) == set()
    assert [name for name in sorted(found - LIGHT) if name.startswith(COLD)] == []
