"""What agents call over and over costs a few bare starts of Python, counted in instructions."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import treadle

# `bare` starts each: what was reached, and a little for other builds of Python and SQLite.
LIMITS = {
    **{"next": 3.7, "tasks": 3.3, "move": 4.9},
    **{"list": 3.5, "send": 3.0, "claim": 4.0, "take in": 4.2},
}
SCRIPT = "import sys\nfrom treadle.cli.main import main\nsys.exit(main())\n"
CACHEGRIND = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
PLAN = "## Technical Context\n- Language/Version: C11\n- Storage: files\n"
pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed"),
]


class Counted:
    """An environment with nothing but treadle in it, and a project to count in."""

    def __init__(self, folder):
        self.root = folder / "project"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
        self.python = folder / "env" / "bin" / "python"
        site = next((folder / "env" / "lib").glob("python*/site-packages"))
        skipped = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(treadle.__file__).parent, site / "treadle", ignore=skipped)
        self.script = folder / "treadle"
        self.script.write_text(SCRIPT)
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
        self.run(self.python, "-m", "compileall", "-q", str(site / "treadle"), cwd=folder)
        make_project(self)
        self.bare = self.count(self.python, "-c", "pass")

    def run(self, *words, cwd=None):
        subprocess.run(words, cwd=cwd or self.root, env=self.env, check=True, capture_output=True)

    def treadle(self, *words):
        self.run(sys.executable, "-m", "treadle", *words)

    def count(self, *words):
        """Return how many instructions a command takes, without those of programs it starts."""
        done = subprocess.run(
            [*CACHEGRIND, *words],
            cwd=self.root,
            env={**self.env, "PYTHONHASHSEED": "0"},
            check=True,
            capture_output=True,
            text=True,
        )
        return int(re.search(r"I +refs: +([\d,]+)", done.stderr)[1].replace(",", ""))

    def ratio(self, *words):
        return self.count(self.python, self.script, *words) / self.bare


def make_project(counted):
    """Make a mission that is being implemented, and letters to claim."""
    folder = counted.root / "missions" / "auth"
    (folder / "tasks").mkdir(parents=True)
    (folder / "spec.md").write_text("- FR-001: Users can log in\n")
    (folder / "plan.md").write_text(PLAN)
    (folder / "tasks" / "WP01-a.md").write_text("---\ndependencies: []\n---\n# A\n")
    counted.run("git", "init", "-q")
    counted.treadle("init")
    who = ("-c", "user.name=T", "-c", "user.email=t@example.invalid")
    counted.run("git", "add", ".")
    counted.run("git", *who, "commit", "-q", "-m", "Begin")
    for name in ("b", "c"):
        counted.treadle(*send(name))
    counted.treadle("mail", "list", "--as", "b")


def send(to):
    return ("mail", "send", "--from", "a", "--to", to, "--intent", "inform", "--summary", "s")


def settle(counted):
    """Let the index catch up: a folder that has just changed is read again."""
    time.sleep(0.2)
    counted.treadle("mail", "list", "--as", "b")


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    return Counted(tmp_path_factory.mktemp("counted"))


def test_what_is_called_over_and_over_costs_few_bare_starts(counted):
    found = {
        "next": counted.ratio("next", "--json"),
        "tasks": counted.ratio("task", "list", "--json"),
        "move": counted.ratio("task", "move", "WP01", "--to", "blocked"),
    }
    settle(counted)
    found["list"] = counted.ratio("mail", "list", "--json")
    found["send"] = counted.ratio(*send("c"), "--json")
    settle(counted)
    found["claim"] = counted.ratio("mail", "claim", "--as", "b", "--json")
    counted.treadle(*send("b"))
    # The dearest: a letter has come, is taken into the index and claimed.
    found["take in"] = counted.ratio("mail", "claim", "--as", "b", "--json")
    print({name: round(value, 2) for name, value in found.items()})
    assert {name: value for name, value in found.items() if value > LIMITS[name]} == {}
