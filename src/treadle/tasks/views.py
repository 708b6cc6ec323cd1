"""Write the files that show people and other programs how a task stands."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from treadle.files import deliver
from treadle.layout import MailLayout
from treadle.store.store import NO_MAIL, Reader
from treadle.store.tasks import MoveRow, TaskRow
from treadle.tasks import checks, lanes

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def write(store: Reader, mail: MailLayout, task_id: str) -> None:
    """Bring a task's files up to date.

    Each is dated with the change it shows, so that a file that lags behind can be told from
    one that somebody edited. Two writers may overtake each other: look again afterwards.
    A worker on another machine has none of them.
    """
    written = None
    while mail is not NO_MAIL and (task := store.task(task_id)) is not None and task != written:
        mail.tasks.mkdir(parents=True, exist_ok=True)
        for ending, text in texts(store, task).items():
            _put(mail.task(task_id, ending), text, stamp(task))
        written = task


def texts(store: Reader, task: TaskRow) -> dict[str, str | None]:
    """Return what the files should say; None for one that should not be there."""
    moves = store.task_moves(task.task_id)
    standing = checks.standing(store, task)._asdict()
    return {
        "status": _status(task, moves),
        "owner": _owner(task, moves),
        "checks": _lines({name: str(value).lower() for name, value in standing.items()}),
    }


def define(mail: MailLayout, task: TaskRow) -> None:
    """Write what a task is, once; what people make of the file later stays."""
    mail.tasks.mkdir(parents=True, exist_ok=True)
    path = mail.task(task.task_id, "md")
    if not path.exists():
        _put(path, definition(task), stamp(task))


def definition(task: TaskRow) -> str:
    """Return a task as markdown from which it can be read again."""
    items = [_item(f"{item.id}: {item.text}", item.verify) for item in task.criteria]
    text = f"\n{task.text.strip()}\n" if task.text else ""
    body = "\n".join(items)
    return f"# {task.goal}\n{text}\n## Acceptance Criteria\n{body}\n"


def stamp(task: TaskRow) -> int:
    """Return the moment of a task's last change, in nanoseconds."""
    moment = datetime.fromisoformat(task.updated_at)
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000


def _item(text: str, verify: str | None) -> str:
    return f"- {text}: `$ {verify}`" if verify else f"- {text}"


def _put(path: Path, text: str | None, mtime_ns: int) -> None:
    if text is None:
        path.unlink(missing_ok=True)
    else:
        deliver.replace(path, text.encode(), mtime_ns)


def _status(task: TaskRow, moves: Sequence[MoveRow]) -> str:
    started = next((item.at for item in moves if item.to_lane in lanes.HELD), None)
    return _lines(
        {
            "task_id": task.task_id,
            "status": lanes.status(task.lane),
            "owner": task.owner,
            "started_at": _second(started),
            "updated_at": _second(task.updated_at),
        }
    )


def _owner(task: TaskRow, moves: Sequence[MoveRow]) -> str | None:
    if task.owner is None:
        return None
    claimed = [item.at for item in moves if item.to_lane in lanes.HELD]
    return _lines(
        {"owner": task.owner, "claimed_at": _second(claimed[-1] if claimed else task.updated_at)}
    )


def _lines(values: dict[str, str | None]) -> str:
    return "".join(f"{key}: {value}\n" for key, value in values.items() if value is not None)


def _second(moment: str | None) -> str | None:
    return f"{moment[:19]}Z" if moment else None
