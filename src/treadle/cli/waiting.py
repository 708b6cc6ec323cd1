"""`treadle desk`: what waits for a human.

Letters need nothing of runs, and a list nothing of what answering needs.
"""

from argparse import Namespace
from datetime import UTC, datetime

from treadle.cli import context, output
from treadle.engine.show import ends
from treadle.ids import age
from treadle.store.questions import QuestionRow
from treadle.tasks import questions


def show_desk(args: Namespace) -> int:
    """List what is open, oldest first, each with its commands."""
    found = context.find_project()
    context.follow_missions(found)
    with context.fresh(found, datetime.now(UTC)) as store:
        items, passed = store.desk(), ends.unlanded_document(store)
    told = questions.items_document(items) | {"unlanded": passed}
    return output.tell(args.json, told, _print_desk, items, passed)


def _print_desk(items: list[QuestionRow], passed: list[dict[str, object]]) -> None:
    if not items:
        output.line("nothing waits for you")
    for run in passed:
        about = f"{run['name']}: " if run["name"] else ""
        output.line(f"passed, not landed: {about}{run['goal']}")
        output.line(f"    {run['next']}")
    for item in items:
        about = "  ".join(word for word in (item.task_id, item.run_id) if word)
        ago = f"{age(item.created_at, datetime.now(UTC))} ago"
        head = f"{item.question_id}  {item.kind.replace('_', ' ')}  {ago}  {about}".rstrip()
        output.line(output.paint(head, "bold"))
        output.line(f"  {item.summary}")
        for number, action in enumerate(item.actions, 1):
            if action.verb == "answer":
                output.line(f"  {number}. {action.value}")
        for command in (*(item.look[:1] if item.kind == "held" else ()), *item.every_command):
            output.line(f"    {command}")
