"""`treadle answer`: what a human says to what waits on the desk; it loads what `desk` need not."""

import os
from argparse import Namespace
from datetime import UTC, datetime

from treadle.cli import context, output
from treadle.desk import Answered, answer, answer_document
from treadle.mail import effect
from treadle.project import refuse_inside_run
from treadle.store.store import Store


def answer_question(args: Namespace) -> int:
    """Write the answer down, tell who asked, name the commands that are yours to start."""
    refuse_inside_run(os.environ)
    found, now = context.find_project(), datetime.now(UTC)
    with Store.open(found.layout) as store:
        effect.refresh(store, found.layout.mail, now)
        given = answer(found.layout, store, args.item, args.text, args.option, now)
    return output.tell(args.json, answer_document(given), _print_answer, given)


def _print_answer(given: Answered) -> None:
    output.line(f"{given.question.question_id} is answered: {given.question.answer}")
    if given.letter:
        output.line(f"  told in {given.letter}")
    if given.task:
        output.line(f"  {given.task.task_id} is {given.task.lane} again")
    for command in given.fix:
        output.line(f"  {command}")
