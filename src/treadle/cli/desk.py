"""`treadle desk`: what waits for a human."""

from argparse import Namespace
from datetime import UTC, datetime

from treadle.cli import context, output
from treadle.store.questions import QuestionRow
from treadle.tasks import questions


def show_desk(args: Namespace) -> int:
    """List what is open, oldest first, each with its commands."""
    with context.fresh(context.find_project(), datetime.now(UTC)) as store:
        items = store.questions()
    return output.tell(args.json, questions.items_document(items), _print_desk, items)


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
        for command in questions.every_command(item):
            output.line(f"    {command}")
