"""The least that a durable step needs: files, parallel fsync, rename, fsync, one commit."""

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

RESPONSE = (
    '{"version": 1, "status": "ok", "summary": "Looked at the code and wrote down what to do.",'
    ' "files": [], "next_actions": ["Read the failing test", "Change the parser"], "errors": []}\n'
)
REQUEST = b'{"version": 1, "run_id": "20260101-000000-abcdef", "goal": "' + b"x" * 1100 + b'"}\n'
MANIFEST = b'{"version": 1, "row": {}, "events": [], "files": {"' + b"x" * 1700 + b'": ""}}\n'

_SCHEMA = """
CREATE TABLE runs (run_id TEXT PRIMARY KEY, status TEXT, iteration INTEGER, step INTEGER);
CREATE TABLE steps (run_id TEXT, step_index INTEGER, role TEXT, status TEXT, step_dir TEXT,
    started_at TEXT, ended_at TEXT, summary TEXT, PRIMARY KEY (run_id, step_index));
CREATE TABLE events (run_id TEXT, seq INTEGER, ts TEXT, type TEXT, message TEXT, data_json TEXT,
    PRIMARY KEY (run_id, seq)) WITHOUT ROWID;
"""
Action = tuple[int, int, str, int, int]
_NOW = "2026-01-01T00:00:00.000000Z"


class Bare:
    """A step committed by hand, and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.steps = folder / "steps"
        self.steps.mkdir(parents=True)
        self.response = folder / "response.json"
        self.response.write_text(RESPONSE)
        self.store = open_store(folder / "store.db")
        self.pool = ThreadPoolExecutor(16)

    def step(self, number: int, repository: Path) -> None:
        """Ask an agent, look at the repository once, keep everything, commit."""
        staged = self.steps / f"{number:03d}-plan.tmp"
        logs = staged / "logs"
        staged.mkdir()
        logs.mkdir()
        _write(staged / "input.json", REQUEST)
        _agent(self.response, staged / "input.json", logs)
        _look(repository)
        _write(staged / "output.json", (logs / "stdout.txt").read_bytes())
        _write(staged / "step.json", MANIFEST)
        names = ("input.json", "output.json", "step.json", "logs/stdout.txt", "logs/stderr.txt")
        list(self.pool.map(sync, [*(staged / name for name in names), logs, staged]))
        staged.rename(staged.with_suffix(""))
        sync(self.steps)
        commit(self.store, "run", number)


def open_store(database: Path) -> sqlite3.Connection:
    """Make a store like treadle's, one run in it."""
    store = sqlite3.connect(database, isolation_level=None)
    store.execute("PRAGMA journal_mode=WAL")
    store.execute("PRAGMA synchronous=FULL")
    store.executescript(_SCHEMA)
    store.execute("INSERT INTO runs VALUES ('run', 'running', 1, 0)")
    return store


def commit(store: sqlite3.Connection, run_id: str, number: int) -> None:
    """Commit one step: its row, two events, the run's cursor."""
    store.execute("BEGIN IMMEDIATE")
    row = (run_id, number, "plan", "ok", f"steps/{number:03d}-plan", _NOW, _NOW, "Looked at it.")
    store.execute("INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    for seq in (2 * number, 2 * number + 1):
        event = (run_id, seq, _NOW, "step_committed", "step committed", '{"role": "plan"}')
        store.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", event)
    store.execute("UPDATE runs SET step = ? WHERE run_id = ?", (number, run_id))
    store.execute("COMMIT")


def sync(path: Path) -> None:
    """Flush one file or folder."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def spawn(argv: list[str], actions: list[Action]) -> int:
    """Start a program the cheapest way."""
    return os.posix_spawnp(argv[0], argv, os.environ, file_actions=actions)


def _agent(response: Path, request: Path, logs: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, str(request), os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(logs / "stdout.txt"), flags, 0o644),
        (os.POSIX_SPAWN_OPEN, 2, str(logs / "stderr.txt"), flags, 0o644),
    ]
    os.waitpid(spawn(["cat", str(response)], actions), 0)


def _look(repository: Path) -> None:
    actions = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    os.waitpid(spawn(["git", "-C", str(repository), "status", "--porcelain"], actions), 0)


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    os.write(descriptor, data)
    os.close(descriptor)
