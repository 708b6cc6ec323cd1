"""`treadle answer`: answer what waits on the desk."""

import os
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime

from treadle.cli import output, place
from treadle.desk.answer import Answered, answer, document
from treadle.mail import sync
from treadle.project.root import refuse_inside_run
from treadle.store.store import Store


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("item", metavar="ITEM", help="Id of the item on the desk")
    parser.add_argument("text", nargs="?", metavar="TEXT", help="The answer in your words")
    parser.add_argument("--option", type=int, metavar="N", help="The answer by its number")


def run(args: Namespace) -> int:
    """Write the answer down, tell who asked, name the commands that are yours to start."""
    refuse_inside_run(os.environ)
    found, now = place.find(os.environ), datetime.now(UTC)
    with Store.open(found.layout) as store:
        sync.refresh(store, found.layout.mail, now)
        given = answer(store, args.item, args.text, args.option, now)
    return output.tell(args.json, document(given), _show, given)


def _show(given: Answered) -> None:
    output.line(f"{given.question.question_id} is answered: {given.question.answer}")
    if given.letter:
        output.line(f"  told in {given.letter}")
    if given.task:
        output.line(f"  {given.task.task_id} is {given.task.lane} again")
    for command in () if given.letter else given.question.fix:
        output.line(f"  {command}")
