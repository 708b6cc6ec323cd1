"""`treadle report --html`: write a run as one page that needs nothing else."""

import os
from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path

from treadle.cli import output
from treadle.engine.find import find
from treadle.errors import UsageError
from treadle.files import atomic
from treadle.project.project import open_project
from treadle.project.root import here
from treadle.store.store import Reader
from treadle.web import report


def run(args: Namespace) -> int:
    """Read, draw, write."""
    if args.markdown:
        raise UsageError("--html and --markdown are two reports; ask for one of them")
    path = Path(args.html)
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(f"--html {args.html}: give a file in a folder that exists")
    project = open_project(here(), os.environ)
    with Reader.open(project.layout) as store:
        row = find(store, args.run)
        text = report.html(project, store, row, datetime.now(UTC))
    atomic.write(path, text.encode(errors="backslashreplace"))
    return output.say(args.json, {"run_id": row.run_id, "file": str(path)}, f"wrote {path}")
