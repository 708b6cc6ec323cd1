"""`treadle task list`, without the parts of the store that only changes need."""

from argparse import Namespace

from treadle.cli import output
from treadle.cli.place import Place
from treadle.errors import ExitCode
from treadle.ids import utc
from treadle.store.task_reader import TaskReader
from treadle.tasks import document, lanes


def run(args: Namespace, found: Place) -> int:
    """List tasks in order."""
    with TaskReader.open(found.layout) as store:
        if args.ready:
            rows = store.ready_tasks(utc(store.now()))
        else:
            rows = store.tasks(lanes.parse(args.lane) if args.lane else None)
    if args.json:
        output.print_json(document.listed(rows))
    elif not rows:
        print('no tasks; add one with: treadle task add "GOAL" --verify "AC1=COMMAND"')
    else:
        table = [(row.task_id, row.lane, row.owner, row.goal) for row in rows]
        output.print_table(["task", "lane", "owner", "goal"], table)
    return ExitCode.DONE
