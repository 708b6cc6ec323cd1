"""`treadle comment`: say something about a step's change; the next act step is told."""

import os
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime

from treadle.cli import output
from treadle.engine import comments
from treadle.engine.comments import Comment
from treadle.engine.find import find
from treadle.errors import UsageError
from treadle.ids import utc
from treadle.layout import Layout
from treadle.project.root import find_root, here, refuse_inside_run
from treadle.store.store import Store


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("run", metavar="RUN", help="Id of the run, or its beginning")
    parser.add_argument("text", metavar="TEXT", help="What to say")
    parser.add_argument("--step", type=int, required=True, metavar="N", help="About which step")
    parser.add_argument("--file", metavar="PATH", help="About which file of its change")
    parser.add_argument("--line", type=int, metavar="N", help="About which line of the file")


def run(args: Namespace) -> int:
    """Leave the comment where the run finds it."""
    refuse_inside_run(os.environ)
    if not args.text.strip():
        raise UsageError("a comment must say something")
    said = Comment(utc(datetime.now(UTC)), args.step, args.text, args.file, args.line)
    with Store.open(Layout(find_root(here(), os.environ))) as store:
        row = find(store, args.run)
        comments.add(store, row, said)
    told = f"the next act step of {row.run_id} is told, on {said.place}"
    return output.say(args.json, {"run_id": row.run_id} | said._asdict(), told)
