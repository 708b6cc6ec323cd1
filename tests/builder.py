"""Build repositories with treadle in them and drive them by the real command, for every suite."""

import atexit
import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests import warm
from treadle.config import identity
from treadle.config.trust import TrustRecord, trust_records
from treadle.project import setup

GIT_IDENTITY = """[user]
\tname = Test
\temail = test@example.invalid
[init]
\tdefaultBranch = main
"""
README = {"README.md": "# Project\n"}
# What is true of the whole test run, and the variables of every test that change no repository.
PATH = os.environ["PATH"]
PLAIN = {"GIT_CONFIG_NOSYSTEM", "TREADLE_RETRY_WAIT"}

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


def git(root: Path, *args: str, check: bool = True, env: Mapping[str, str] | None = None) -> str:
    """Run the real git in `root` and return what it printed."""
    done = subprocess.run(
        ["git", *args], cwd=root, env=env, capture_output=True, text=True, check=False
    )
    if check and done.returncode:
        raise AssertionError(f"git {' '.join(args)}: {done.stderr}")
    return done.stdout


def write_files(root: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files and the folders above them."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def make_repository(
    root: Path,
    files: Mapping[str, str | bytes] = README,
    *options: str,
    env: Mapping[str, str] | None = None,
) -> Path:
    """Make a repository with one commit of these files."""
    if files is README and not options and env is None and not root.exists():
        return copy_tree(_models() / "bare", root)
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "-q", *options, env=env)
    write_files(root, files)
    git(root, "add", "-f", ".", env=env)
    git(root, "commit", "-q", "--allow-empty", "-m", "Begin", env=env)
    return root


def make_home(folder: Path) -> dict[str, str]:
    """Make a user's home and return the variables that point to it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitconfig").write_text(GIT_IDENTITY)
    ours = {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("CACHE", "STATE", "CONFIG")}
    return {"HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", **ours}


def copy_tree(model: Path, root: Path) -> Path:
    """Copy a prepared repository, so that git finds it as it was left."""
    shutil.copytree(model, root, symlinks=True)
    git(root, "update-index", "-q", "--refresh")
    return root


@functools.cache
def _models() -> Path:
    """Prepare what most tests begin with, once in a process: a repository, and one set up."""
    folder = Path(tempfile.mkdtemp(prefix="treadle-models-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    env = {"PATH": PATH, **make_home(folder / "home")}
    bare = make_repository(folder / "bare", dict(README), env=env)
    shutil.rmtree(bare / ".git" / "hooks")
    (bare / ".git" / "hooks").mkdir()
    setup.init(copy_tree(bare, folder / "ready"), env, commit=True)
    return folder


@functools.cache
def _trusted() -> TrustRecord:
    """Return what is on record of the repository that was set up."""
    with trust_records(make_home(_models() / "home")) as book:
        (found,) = book.values()
    return found


def _is_plain(root: Path, env: Mapping[str, str]) -> bool:
    """Tell whether setting up this repository would give just what the prepared one has."""
    head, bare = Path(".git", "logs", "HEAD"), _models() / "bare"
    return (
        sorted(os.listdir(root)) == [".git", *README]
        and (root / head).is_file()
        and (root / head).read_bytes() == (bare / head).read_bytes()
        and (root / ".git" / "config").read_bytes() == (bare / ".git" / "config").read_bytes()
        and not os.listdir(root / ".git" / "hooks")
        and env.get("PATH") == PATH
        and not any(name.startswith(("TREADLE_", "GIT_")) for name in env.keys() - PLAIN)
        and not Path(env["XDG_CONFIG_HOME"]).exists()
        and Path(env["HOME"], ".gitconfig").read_text() == GIT_IDENTITY
    )


def _copy_set_up(root: Path, env: Mapping[str, str]) -> None:
    """Do to a plain repository what setting it up would do."""
    shutil.rmtree(root)
    copy_tree(_models() / "ready", root)
    place = str(root.resolve())
    with trust_records(env) as book:
        book[place] = _trusted()._replace(root=place, identity=identity(root / ".git"))


def run_treadle(args: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float = 600):
    """Run a real command, in a process that need not load what an earlier one has loaded."""
    if warm.can_start(env):
        return warm.run((*args,), cwd, env, timeout)
    return subprocess.run(
        [sys.executable, "-m", "treadle", *args],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=timeout,
    )


class Project:
    """A repository with treadle in it."""

    def __init__(self, root: Path, folder: Path, env: Mapping[str, str] | None = None):
        self.root = root
        self.folder = folder
        self.env = dict(env or {})
        self.config: dict[str, str] = {}
        self.extra = ""

    @classmethod
    def make(
        cls,
        root: Path,
        folder: Path,
        files: Mapping[str, str | bytes] = README,
        env: Mapping[str, str] | None = None,
    ) -> "Project":
        """Make a repository and set it up; scripted agents lie in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        make_repository(root, files, env={**os.environ, **(env or {})})
        return cls(root, folder, env).set_up()

    def set_up(self) -> "Project":
        """Do what `treadle init --commit` does, without a process for each test."""
        if _is_plain(self.root, env := self.environment()):
            _copy_set_up(self.root, env)
        else:
            setup.init(self.root, env, commit=True)
        return self

    def treadle(self, *args: str, env=None, timeout=120, cwd=None) -> Result:
        done = run_treadle(args, cwd or self.root, self.environment(env), timeout)
        assert "Traceback" not in done.stderr, done.stderr
        return Result(done.returncode, done.stdout, done.stderr)

    def start(self, *args: str, env=None) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-m", "treadle", *args],
            cwd=self.root,
            env=self.environment(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the variables that a command of this project gets."""
        return {**os.environ, **self.env, **(more or {})}

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
        return git(self.root, *args, check=check, env=self.environment())


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
