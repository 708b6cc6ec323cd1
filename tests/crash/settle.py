"""Recover a project and nothing else, note what stands then; or finish what was begun."""

import json
import os
import sys
from pathlib import Path

from treadle.cli.main import main as treadle
from treadle.engine import session
from treadle.project.context import open_context

TASK = ["task", "add", "Make done.txt", "--ac", "done.txt is there"]
RUN = ["run", "T-1"]
# A run that its budget has stopped goes on with a larger one.
_RESUME = ["run", "--budget", "max_iterations=5", "--resume"]


def settle(root: Path, note: Path) -> int:
    """Open the project as every working command does, and write down what it holds."""
    project = open_context(root, os.environ)
    with session.opened(project, watch=lambda _: None) as tools:
        runs = tools.store.runs(1000)
        rows = {
            "runs": [
                run._asdict() | {"reason_code": tools.store.kv_value(run.run_id, "reason_code")}
                for run in runs
            ],
            "steps": [step._asdict() for run in runs for step in tools.store.steps(run.run_id)],
            "tasks": [task._asdict() for task in tools.store.tasks()],
            "questions": [question._asdict() for question in tools.store.questions()],
            "letters": [path.read_text() for path in tools.layout.mail.root.rglob("*-human_*.md")],
        }
    note.write_text(json.dumps(rows))
    return 0


def finish(note: Path) -> int:
    """Resume what has not failed; ask again if nothing can pass any more."""
    runs = json.loads(note.read_text())["runs"]
    if any(run["status"] == "passed" for run in runs):
        return 0
    for run in runs:
        if run["status"] != "failed" and treadle([*_RESUME, run["run_id"]]) == 0:
            return 0
    return int(treadle(RUN))


if __name__ == "__main__":
    found = Path(sys.argv[3])
    sys.exit(settle(Path(sys.argv[2]), found) if sys.argv[1] == "settle" else finish(found))
