"""Fill a store with many finished runs, faster than by running them."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from bench import wheel
from bench.lab import Lab
from treadle.layout import Layout
from treadle.store.store import Store

ROLES = ("plan", "do", "check", "act")
_NOW = "2026-01-01T00:00:00.000000Z"


def make_project(lab: Lab, folder: Path, runs: int) -> Path:
    """Make a project whose store knows so many runs of four steps and 20 events each."""
    root = wheel.make_project(lab, folder)
    fill(root, runs, owner=None, active=1)
    return root


def fill(root: Path, runs: int, *, owner: str | None, active: int) -> list[str]:
    """Insert runs and return their ids; the last `active` ones still run, owned by `owner`."""
    layout = Layout(root)
    layout.locks.mkdir(parents=True, exist_ok=True)
    Store.open(layout).close()
    ids = [_id(number) for number in range(runs)]
    status = ["passed"] * (runs - active) + ["running"] * active
    database = sqlite3.connect(layout.database, isolation_level=None)
    database.execute("BEGIN")
    for run_id, state in zip(ids, status, strict=True):
        _insert(database, run_id, state, owner)
    database.execute("COMMIT")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    return ids


def _insert(database: sqlite3.Connection, run_id: str, status: str, owner: str | None) -> None:
    database.execute(
        "INSERT INTO runs (run_id, created_at, goal, status, iteration, current_step_index,"
        " verdict, run_dir, owner, claim_epoch) VALUES (?, ?, ?, ?, 1, 4, 'PASS', ?, ?, 1)",
        (run_id, _NOW, f"Goal of {run_id}", status, f".treadle/runs/{run_id}", owner),
    )
    database.executemany(
        "INSERT INTO steps (run_id, step_index, role, iteration, status, step_dir, started_at,"
        " ended_at, summary, digest) VALUES (?, ?, ?, 1, 'ok', ?, ?, ?, 'Done.', ?)",
        _steps(run_id),
    )
    database.executemany(
        "INSERT INTO events VALUES (?, ?, ?, 'step_committed', 'step committed', '{}')",
        [(run_id, seq, _NOW) for seq in range(1, 21)],
    )


def _steps(run_id: str) -> Iterator[tuple[object, ...]]:
    for index, role in enumerate(ROLES, 1):
        folder = f".treadle/runs/{run_id}/steps/{index:03d}-{role}"
        yield run_id, index, role, folder, _NOW, _NOW, "0" * 64


def _id(number: int) -> str:
    return (
        f"20260101-{number // 3600 % 24:02d}{number // 60 % 60:02d}{number % 60:02d}-{number:06x}"
    )
