"""Word the commits that treadle makes on the user's branches."""

from treadle.engine.order import Order
from treadle.store.runs import StepRow
from treadle.text import line

_SUBJECT = 72


def landing(order: Order, run_id: str) -> str:
    """Return the message of a landing: the goal, and where it came from."""
    return _message(_line(order.goal), order, run_id)


def step(order: Order, run_id: str, row: StepRow) -> str:
    """Return the message of one step that is brought in by itself."""
    return _message(f"{row.role} {row.iteration}: {_line(order.goal)}", order, run_id)


def undoing(order: Order, run_id: str, commit: str) -> str:
    """Return the message of the commit that takes a landing back."""
    text = f"Undo: {_line(order.goal)}"
    return _message(text, order, run_id, f"This takes back {commit}.")


def _message(text: str, order: Order, run_id: str, body: str = "") -> str:
    short = text if len(text) <= _SUBJECT else f"{text[: _SUBJECT - 1].rstrip()}…"
    parts = [short, text if short != text else "", body, _trailers(order, run_id)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _trailers(order: Order, run_id: str) -> str:
    lines = [f"Treadle-Run: {run_id}"]
    if order.task_id:
        lines.append(f"Treadle-Task: {order.task_id}")
    if order.message and order.message.spec:
        lines.append(f"Treadle-Spec: {order.message.spec}")
    return "\n".join(lines)


def _line(goal: str) -> str:
    return " ".join(line(goal).split())
