"""`treadle desk` and `treadle answer`: what waits for a human, and what the human says to it."""

import os
from argparse import Namespace
from datetime import UTC, datetime

from treadle.cli import context, output, place
from treadle.desk import desk
from treadle.desk.answer import Answered, answer, document
from treadle.mail import effect
from treadle.project.root import refuse_inside_run
from treadle.store.questions import QuestionRow
from treadle.store.store import Store
from treadle.tasks import questions


def show_desk(args: Namespace) -> int:
    """List what is open, oldest first, each with its commands."""
    with context.fresh(place.find(os.environ), datetime.now(UTC)) as store:
        items = desk.items(store)
    return output.tell(args.json, desk.document(items), _print_desk, items)


def _print_desk(items: list[QuestionRow]) -> None:
    if not items:
        output.line("nothing waits for you")
    for item in items:
        about = "  ".join(word for word in (item.task_id, item.run_id) if word)
        head = f"{item.question_id}  {item.kind}  {item.created_at[:19]}Z  {about}"
        output.line(output.paint(head, "bold"))
        output.line(f"  {item.summary}")
        for number, option in enumerate(questions.labels(item), 1):
            output.line(f"  {number}. {option}")
        for command in desk.commands(item):
            output.line(f"    {command}")


def answer_question(args: Namespace) -> int:
    """Write the answer down, tell who asked, name the commands that are yours to start."""
    refuse_inside_run(os.environ)
    found, now = place.find(os.environ), datetime.now(UTC)
    with Store.open(found.layout) as store:
        effect.refresh(store, found.layout.mail, now)
        given = answer(store, args.item, args.text, args.option, now)
    return output.tell(args.json, document(given), _print_answer, given)


def _print_answer(given: Answered) -> None:
    output.line(f"{given.question.question_id} is answered: {given.question.answer}")
    if given.letter:
        output.line(f"  told in {given.letter}")
    if given.task:
        output.line(f"  {given.task.task_id} is {given.task.lane} again")
    for command in () if given.letter else questions.commands(given.question):
        output.line(f"  {command}")
