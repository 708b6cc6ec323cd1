"""`treadle task list`, without the parts of the store that only changes need."""

from argparse import Namespace

from treadle.cli import output
from treadle.cli.place import Place
from treadle.ids import utc
from treadle.store.store import Reader
from treadle.tasks import document, lanes


def run(args: Namespace, found: Place) -> int:
    """List tasks in order."""
    with Reader.open(found.layout) as store:
        if args.ready:
            rows = store.ready_tasks(utc(store.now()))
        else:
            rows = store.tasks(lanes.parse(args.lane) if args.lane else None)
    table = [(row.task_id, row.lane, row.owner, row.goal) for row in rows]
    nothing = 'no tasks; add one with: treadle task add "GOAL" --verify "AC1=COMMAND"'
    heads = ["task", "lane", "owner", "goal"]
    return output.table(args.json, document.listed(rows), heads, table, nothing)
