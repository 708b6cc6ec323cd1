"""Make rows and child processes for the store's tests."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from treadle.contract.events import EventType
from treadle.store.runs import CheckRow, Cursor, Event, History, RunRow, StepRow

T = "2026-01-23T14:55:01.000000Z"
RUN = "20260123-145501-ab12cd"
HISTORY_KV = {"reason_code": "budget", "tokens": 12}


def only_sqlite(test):
    """Mark a test that looks into SQLite's file or speaks its own words."""
    test.only_sqlite = True
    return test


def run_row(run_id: str = RUN, **changes) -> RunRow:
    """Return a run that has just begun."""
    row = RunRow(run_id, T, "goal", "running", 1, 0, None, f".treadle/runs/{run_id}", claim_epoch=1)
    return row._replace(**changes)


def step_row(index: int = 1, run_id: str = RUN, **changes) -> StepRow:
    """Return a committed step."""
    folder = f".treadle/runs/{run_id}/steps/{index:03d}-do"
    row = StepRow(run_id, index, "do", 1, "ok", folder, T, T, "did it", digest=f"{index:064x}")
    return row._replace(**changes)


def event(seq: int, **data) -> Event:
    """Return one line of a timeline."""
    return Event(seq, T, EventType.STEP_COMMITTED, f"event {seq}", data or None)


def check_row(index: int = 1, **changes) -> CheckRow:
    """Return an observed check."""
    row = CheckRow(RUN, index, "AC1", "check", "pytest -q", "tree", True, 0, 1.5, "log.txt", None)
    return row._replace(**changes)


def cursor(index: int = 1, **changes) -> Cursor:
    """Return where a run stands after a step."""
    return Cursor("running", 1, index)._replace(**changes)


def commit(store, index: int = 1, run_id: str = RUN, epoch: int = 1) -> None:
    """Commit one plain step."""
    history = History((step_row(index, run_id),), (event(index + 1),))
    store.advance(run_id, history, cursor(index), epoch)


def child(script: str, *args: object, wrap: tuple[str, ...] = ()) -> subprocess.Popen:
    """Start a Python process that can import treadle and these rows."""
    root = Path(__file__).parents[2]
    env = os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"}
    argv = [*wrap, sys.executable, "-c", textwrap.dedent(script), *map(str, args)]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, env=env, text=True, stdin=pipe, stdout=pipe, stderr=pipe)


def output(process: subprocess.Popen) -> str:
    """Wait for a child and return what it printed; it must not fail."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out
