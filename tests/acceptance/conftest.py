"""A project set up through the real command, with agents scripted in a few lines of Python."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance import messages
from tests.acceptance.mission import Mission
from tests.conftest import GIT_IDENTITY, git

PRELUDE = """
import json, os, pathlib, sys, time
request = json.load(sys.stdin)
step = pathlib.Path(request["paths"]["step_dir"])
repo = pathlib.Path(request["paths"]["repo_root"])
role, iteration = request["step"]["role"], request["step"]["iteration"]

def ok(summary="done", **extra):
    print(json.dumps({"version": 1, "status": "ok", "summary": summary, **extra}))

def write(name, text):
    (step / name).parent.mkdir(parents=True, exist_ok=True)
    (step / name).write_text(text)

def verdict(word, **passes):
    criteria = [{"id": id_, "pass": value} for id_, value in passes.items()]
    write("verdict.json", json.dumps({"version": 1, "verdict": word, "criteria": criteria}))
    write("scorecard.md", "# " + word)

"""

# A patch that makes the criterion `test -f done.txt` true.
ADD_DONE = """diff --git a/done.txt b/done.txt
new file mode 100644
--- /dev/null
+++ b/done.txt
@@ -0,0 +1 @@
+done
"""


@dataclass(frozen=True)
class Result:
    """How a real command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


class Project:
    """A repository with treadle in it."""

    def __init__(self, root: Path, folder: Path):
        self.root = root
        self.folder = folder
        self.config: dict[str, str] = {}
        self.extra = ""

    def treadle(self, *args: str, env=None, timeout=120, cwd=None) -> Result:
        done = subprocess.run(
            [sys.executable, "-m", "treadle", *args],
            cwd=cwd or self.root,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Result(done.returncode, done.stdout, done.stderr)

    def start(self, *args: str, env=None) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-m", "treadle", *args],
            cwd=self.root,
            env={**os.environ, **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def agent(self, role: str, code: str, **settings: object) -> None:
        """Let a scripted program play `role`."""
        path = self.folder / f"{role}.py"
        path.write_text(PRELUDE + code)
        self.command(role, [sys.executable, "-S", "-E", str(path)], **settings)

    def command(self, role: str, cmd: Sequence[str], **settings: object) -> None:
        lines = ['type = "exec"', f"cmd = {json.dumps(list(cmd))}"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        self.config[role] = "\n".join(lines)
        self.save()

    def save(self) -> None:
        tables = [f"[agents.{name}]\n{text}\n" for name, text in self.config.items()]
        text = self.extra + "\n" + "\n".join(tables)
        (self.root / ".treadle" / "config.toml").write_text(text)

    def settings(self, text: str) -> None:
        self.extra = text
        self.save()

    def good_agents(self) -> None:
        """Agents that pass in the second iteration, after a patch."""
        self.agent("plan", 'write("plan.md", "1. look"); ok(files=["plan.md"])')
        self.agent("do", 'write("files/run.log", "ran"); ok(files=["files/run.log"])')
        self.agent(
            "check",
            'done = (repo / "done.txt").exists()\n'
            'verdict("PASS" if done else "FAIL", AC1=done); ok()',
        )
        self.agent("act", f'write("patch.diff", {ADD_DONE!r}); ok(files=["patch.diff"])')

    def run(self, *extra: str, **kwargs) -> Result:
        """Run the usual goal: a file done.txt must come to be."""
        return self.treadle(
            "run", "--goal", "Make done.txt", "--ac", "done.txt is there", *extra, **kwargs
        )

    def run_json(self, *extra: str, **kwargs) -> dict:
        result = self.run("--json", *extra, **kwargs)
        return result.json | {"code": result.code}

    def run_dir(self, run_id: str) -> Path:
        return self.root / ".treadle" / "runs" / run_id

    def step_dir(self, run_id: str, name: str) -> Path:
        return self.run_dir(run_id) / "steps" / name

    def events(self, run_id: str) -> list[dict]:
        return self.treadle("runs", "events", run_id, "--json").json["events"]

    def event_types(self, run_id: str) -> list[str]:
        return [event["type"] for event in self.events(run_id)]

    def event(self, run_id: str, type_: str) -> dict:
        return next(event for event in self.events(run_id) if event["type"] == type_)

    def show(self, run_id: str) -> dict:
        return self.treadle("runs", "show", run_id, "--json").json

    def only_run(self) -> dict:
        (row,) = self.treadle("runs", "list", "--json").json["runs"]
        return row

    def git(self, *args: str, check: bool = True) -> str:
        return git(self.root, *args, check=check)


@pytest.fixture(scope="session")
def mission_template(tmp_path_factory):
    """Return a function that copies a project with a new mission, or with one that has tasks."""
    folder = tmp_path_factory.mktemp("template")
    (folder / "new").mkdir()
    (folder / ".gitconfig").write_text(GIT_IDENTITY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TREADLE_RUN"):
            patch.delenv(name, raising=False)
        made = Project(folder / "new", folder)
        made.git("init", "-q")
        (made.root / "README.md").write_text("# Project\n")
        made.git("add", ".")
        made.git("commit", "-q", "-m", "Begin")
        assert made.treadle("init", "--commit").code == 0
        Mission(made).create()
        shutil.copytree(made.root, folder / "tasked")
        tasked = Project(folder / "tasked", folder)
        Mission(tasked).with_tasks("", "dependencies: [WP01]\n")

    def copy(name: str, target: Path) -> Path:
        return Path(shutil.copytree(folder / name, target))

    return copy


@pytest.fixture
def mission(mission_template, tmp_path) -> Mission:
    """Return a mission that has just been created, in a project set up by the real command."""
    (tmp_path / "agents").mkdir()
    root = mission_template("new", tmp_path / "project")
    return Mission(Project(root, tmp_path / "agents"))


@pytest.fixture
def tasked(mission_template, tmp_path) -> Mission:
    """Return a mission with two tasks, the second of which waits for the first."""
    (tmp_path / "agents").mkdir()
    root = mission_template("tasked", tmp_path / "project")
    return Mission(Project(root, tmp_path / "agents"))


@pytest.fixture
def project(repo, tmp_path) -> Project:
    folder = tmp_path / "agents"
    folder.mkdir()
    found = Project(repo, folder)
    assert found.treadle("init", "--commit").code == 0
    return found


@pytest.fixture
def inbox(project):
    """A project whose default routine writes every message down."""
    messages.routine(project, "log", messages.LOG)
    project.settings('default_routine = "log"\n')
    return project


def wait_for(condition, timeout: float = 120.0):
    """Poll until `condition()` is true and return what it gave."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        # A step's folder may get its final name while somebody looks into it.
        with contextlib.suppress(FileNotFoundError):
            if found := condition():
                return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


def alive(pid: int) -> bool:
    """Tell whether a process works; it may be gone while it is looked at."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


SIGNALS = {"SIGINT": (signal.SIGINT, 130), "SIGTERM": (signal.SIGTERM, 143)}
