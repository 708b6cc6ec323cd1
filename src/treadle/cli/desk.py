"""`treadle desk`: list everything that waits for a human."""

import os
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime

from treadle.cli import opened, output, place
from treadle.desk import desk
from treadle.store.questions import QuestionRow


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line, which has no options of its own."""


def run(args: Namespace) -> int:
    """List what is open, oldest first, each with its commands."""
    with opened.fresh(place.find(os.environ), datetime.now(UTC)) as store:
        items = desk.items(store)
    return output.tell(args.json, desk.document(items), _show, items)


def _show(items: list[QuestionRow]) -> None:
    if not items:
        output.line("nothing waits for you")
    for item in items:
        _show_one(item)


def _show_one(item: QuestionRow) -> None:
    about = "  ".join(word for word in (item.task_id, item.run_id) if word)
    output.line(
        output.paint(f"{item.question_id}  {item.kind}  {item.created_at[:19]}Z  {about}", "bold")
    )
    output.line(f"  {item.summary}")
    for number, option in enumerate(item.options, 1):
        output.line(f"  {number}. {option}")
    for command in item.fix:
        output.line(f"    {command}")
