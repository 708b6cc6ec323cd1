"""`treadle report`: a run as markdown, or as one page that needs nothing else."""

import os
from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path

from treadle.cli import output
from treadle.engine.show import report
from treadle.engine.show.find_run import find_run
from treadle.errors import UsageError
from treadle.files import atomic
from treadle.project.context import open_context
from treadle.project.root import here
from treadle.store.store import Reader
from treadle.web import report as page


def print_report(args: Namespace) -> int:
    path = Path(args.html) if args.html else None
    if path and (path.is_dir() or not path.parent.is_dir()):
        raise UsageError(f"--html {args.html}: give a file in a folder that exists")
    project = open_context(here(), os.environ)
    with Reader.open(project.layout) as store:
        row = find_run(store, args.run)
        if path is None:
            text = report.markdown(project, store, row)
            told = {"run_id": row.run_id, "markdown": text}
            return output.tell(args.json, told, output.block, text)
        text = page.html(project, store, row, datetime.now(UTC))
    atomic.write(path, text.encode(errors="backslashreplace"))
    return output.say(args.json, {"run_id": row.run_id, "file": str(path)}, f"wrote {path}")
