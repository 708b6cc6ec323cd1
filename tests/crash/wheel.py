"""The real command: a run of seven steps, with a patch, disturbed in every way."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.builder import Project, make_home
from tests.crash import settle
from tests.crash.scenario import Outcome
from tests.crash.supervise import Command
from treadle.engine.run import run_files
from treadle.errors import FormatError

_HERE = Path(__file__).parent
_TOLD = re.compile(
    r"^  (?:\S+  )?(plan|do|check|act) +(\d+)/\d+ .* criteria \d+/\d+  (\w+)", re.MULTILINE
)
_RUNS = """
    SELECT runs.*, kv_run.value_json AS reason FROM runs
    LEFT JOIN kv_run ON kv_run.run_id = runs.run_id AND kv_run.key = 'reason'
    ORDER BY runs.run_id
"""
_STEPS = ("plan", "do", "check", "act", "plan", "do", "check")


class Wheel:
    """What was told is there, what is there is whole, the patch is in once.

    Whoever asked hears of each end: the task's lane and owner, the desk and the letters agree.
    """

    options: tuple[str, ...] = ()

    def prepare(self, world: Path) -> None:
        """Make a repository with treadle and one agent for all roles.

        The agents stand in the user's configuration: a copied repository is not trusted.
        """
        settings = world / "home" / "config" / "treadle"
        settings.mkdir(parents=True)
        shutil.copy(_HERE / "agent.sh", world / "agent.sh")
        cmd = json.dumps(["sh", str(world / "agent.sh")])
        roles = [f'[agents.{role}]\ntype = "exec"\ncmd = {cmd}\n' for role in set(_STEPS)]
        # The instruments follow processes by number, and tier A numbers them anew.
        tier = '[sandbox]\ntier = "B"\n'
        (settings / "config.toml").write_text("\n".join([tier, *sorted(roles)]))
        project = Project.make(world / "project", world, env=self._env(world))
        assert project.treadle(*settle.TASK).code == 0

    def command(self, world: Path) -> Command:
        """Run a task that passes in its second iteration."""
        return self._treadle(world, *settle.RUN, *self.options)

    def recovery(self, world: Path) -> list[Command]:
        """Recover only, then finish the work."""
        script = [sys.executable, str(_HERE / "settle.py")]
        note = str(world / "note.json")
        root, env = world / "project", self._env(world)
        return [
            Command([*script, "settle", str(root), note], root, env),
            Command([*script, "finish", str(root), note], root, env),
        ]

    def verify(self, world: Path, seen: Outcome) -> list[str]:
        """Compare what was told with what recovery found, and the end with itself."""
        if not (world / "note.json").exists():
            return ["recovery has noted nothing"]
        note = json.loads((world / "note.json").read_text())
        runs, steps = self._rows(world)
        return [
            *_told(seen, note),
            *_runs(world / "project", runs, may_fail=seen.code is not None),
            *self._folders(world, steps),
            *_timelines(world, runs),
            *_ends(note),
            *self._end(world, runs),
            *self._branches(world, runs),
            *self._surroundings(world),
        ]

    def _folders(self, world: Path, steps: list[dict[str, Any]]) -> list[str]:
        """Each row has a whole folder that says the same; each folder has a row."""
        root = world / "project"
        found = []
        for row in steps:
            try:
                intent, digest = run_files.read_step(root / row["step_dir"])
            except FormatError as error:
                if row["digest"] is not None:
                    found.append(f"{row['step_dir']} is not whole: {error}")
                continue
            if intent.row.status != row["status"] or digest != row["digest"]:
                found.append(f"{row['step_dir']} was changed to {row['status']}")
        known = {row["step_dir"] for row in steps}
        for path in (root / ".treadle" / "runs").glob("*/steps/*"):
            if str(path.relative_to(root)) not in known:
                found.append(f"{path.name} is no step")
        return found

    def _branches(self, world: Path, runs: list[dict[str, Any]]) -> list[str]:
        """A passed run has the patch once; another one once or not at all."""
        if not any(run["status"] == "passed" for run in runs):
            return ["no run has passed in the end"]
        found = []
        for run in runs:
            span = f"{run['base_commit']}..{run['branch']}"
            done = self._git(world, "rev-list", "--count", span, check=False)
            commits = done.stdout.strip() if run["current_step_index"] else "0"
            if commits not in ("0", "1") or (run["status"] == "passed" and commits != "1"):
                found.append(f"{run['run_id']} ({run['status']}) has the patch {commits} times")
        return found

    def _end(self, world: Path, runs: list[dict[str, Any]]) -> list[str]:
        """The task has passed and is free, nothing waits on the desk, and one letter says so."""
        store = sqlite3.connect(world / "project" / ".treadle" / "treadle.db")
        found = [
            f"the task is {lane}, of {owner}, claimed by {claim}"
            for lane, owner, claim in store.execute("SELECT lane, owner, claim_id FROM tasks")
            if (lane, owner, claim) != ("approved", "human", None)
        ]
        waiting = "SELECT summary FROM questions WHERE answered_at IS NULL"
        found += [f"the desk still asks: {summary}" for (summary,) in store.execute(waiting)]
        store.close()
        letters = [
            path.read_text()
            for path in (world / "project" / ".treadle" / "mail").rglob("*-human_*.md")
        ]
        for run in runs:
            told = sum("completed" in text and run["run_id"] in text for text in letters)
            if run["status"] == "passed" and told != 1:
                found.append(f"{told} letters say that {run['run_id']} has passed")
        return found

    def _surroundings(self, world: Path) -> list[str]:
        """The repository is sound and the user's tree as it was."""
        found = []
        sound = self._git(world, "fsck", "--strict", "--no-dangling", check=False)
        if sound.returncode:
            found.append(f"git fsck: {sound.stderr.strip()}")
        changed = self._git(world, "status", "--porcelain", check=False)
        if changed.stdout or changed.returncode:
            found.append(f"git status: {changed.stdout}{changed.stderr}")
        return found

    def _rows(self, world: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        store = sqlite3.connect(world / "project" / ".treadle" / "treadle.db")
        store.row_factory = sqlite3.Row
        runs = [dict(row) for row in store.execute(_RUNS)]
        steps = [dict(row) for row in store.execute("SELECT * FROM steps ORDER BY run_id")]
        store.close()
        return runs, steps

    def _treadle(self, world: Path, *args: str) -> Command:
        argv = [sys.executable, "-m", "treadle", *args]
        return Command(argv, world / "project", self._env(world))

    def _git(self, world: Path, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", *args],
            cwd=world / "project",
            env=self._env(world),
            check=check,
            capture_output=True,
            text=True,
        )

    def _env(self, world: Path) -> dict[str, str]:
        return {
            **make_home(world / "home"),
            "PATH": os.environ["PATH"],
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        }


def _told(seen: Outcome, note: dict[str, list[dict[str, Any]]]) -> list[str]:
    """What the user saw committed must have been there right after recovery."""
    told = [(role, int(turn), word) for role, turn, word in _TOLD.findall(seen.printed)]
    if seen.code == 0 and [role for role, _, _ in told] != list(_STEPS):
        return [f"it said that all is well, after {told}"]
    rows = {step["step_index"]: step for step in note["steps"]}
    found = [
        f"{run['run_id']} still claims to run after recovery"
        for run in note["runs"]
        if run["status"] == "running"
    ]
    for index, (role, turn, word) in enumerate(told, 1):
        status = "fail" if word == "FAILED" else "ok"
        row = rows.get(index, {})
        if (row.get("role"), row.get("iteration"), row.get("status")) != (role, turn, status):
            found.append(f"step {index} was told as {role} {turn} {status}, but is {row}")
    return found


def _ends(note: dict[str, list[Any]]) -> list[str]:
    """After recovery everyone has heard of each run that ended by itself, once."""
    found = []
    for run in note["runs"]:
        told = sum(run["run_id"] in text for text in note["letters"])
        asked = sum(question["run_id"] == run["run_id"] for question in note["questions"])
        if run["ended_at"] and run["reason_code"] != "interrupted":
            if told != 1:
                found.append(f"{told} letters tell of {run['run_id']}, which {run['status']}")
            if asked != (run["status"] != "passed"):
                found.append(f"{asked} questions about {run['run_id']}, which {run['status']}")
    owners = {task["claim_id"] for task in note["tasks"]}
    going = {run["run_id"] for run in note["runs"] if run["status"] == "stopped"}
    return [
        *found,
        *(f"{claim} keeps a task it does not work on" for claim in owners - going if claim),
    ]


def _runs(root: Path, runs: list[dict[str, Any]], *, may_fail: bool) -> list[str]:
    """A crash fails no run, and every run can be read by people and by recovery."""
    found = []
    for run in runs:
        if run["status"] == "failed" and not may_fail:
            found.append(f"{run['run_id']} has failed: {run['reason']}")
        for name in ("run.json", "spec.md", "treadle.md"):
            path = root / run["run_dir"] / name
            if not path.is_file() or "Make done.txt" not in path.read_text():
                found.append(f"{run['run_id']} has lost its {name}")
    return found


def _timelines(world: Path, runs: list[dict[str, Any]]) -> list[str]:
    """The events of each run are numbered without a gap."""
    store = sqlite3.connect(world / "project" / ".treadle" / "treadle.db")
    found = []
    for run in runs:
        query = "SELECT seq FROM events WHERE run_id = ? ORDER BY seq"
        numbers = [seq for (seq,) in store.execute(query, (run["run_id"],))]
        if numbers != list(range(1, len(numbers) + 1)):
            found.append(f"{run['run_id']} has events {numbers}")
    store.close()
    return found


class Stopped(Wheel):
    """A run that its budget stops after its first check, and that then goes on."""

    options = ("--budget", "max_iterations=1")
