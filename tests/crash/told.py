"""Look whether the end of a run was told once: owner, lane, desk and letters."""

import re
import sqlite3
from pathlib import Path

_OWNED = "SELECT run_id, status FROM runs WHERE owner IS NOT NULL OR status = 'running'"
_ASKED = """
    SELECT questions.run_id, COUNT(*), runs.status FROM questions JOIN runs USING (run_id)
    WHERE answered_at IS NULL GROUP BY questions.run_id, runs.status
"""
_REPORT = re.compile(r"^message_id: (.+)-\d{3}-passed$", re.MULTILINE)


def untold(root: Path, task_id: str, wanted: str = "approved") -> list[str]:
    """Return one sentence for each thing that the passed run of a task left untold, or told twice.

    It is asked after recovery, when one run of the task has passed and none is at work; landing
    and undoing move its lane.
    """
    store = sqlite3.connect(root / ".treadle" / "treadle.db")
    lane = store.execute("SELECT lane, claim_id FROM tasks WHERE task_id = ?", (task_id,))
    query = "SELECT run_id, status FROM runs WHERE task_id = ?"
    runs = dict(store.execute(query, (task_id,)))
    passed = [run_id for run_id, status in runs.items() if status == "passed"]
    found = [f"{run_id} ({status}) still has an owner" for run_id, status in store.execute(_OWNED)]
    if (stands := lane.fetchall()) != [(wanted, None)]:
        found.append(f"task {task_id} is {stands}")
    for run_id, count, status in store.execute(_ASKED):
        if status == "passed" or count > 1:
            found.append(f"{count} questions wait for {run_id}, which has {status}")
    store.close()
    reported = sorted(
        run_id
        for path in (root / ".treadle" / "mail").rglob("*.md")
        for run_id in _REPORT.findall(path.read_text())
        if run_id in runs
    )
    return found if reported == passed else [*found, f"{passed} have passed, told was {reported}"]
