"""The file name of a letter: a label that sorts by time and splits one way only."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

_STAMP = "%Y%m%d_%H%M%S"


class Label(NamedTuple):
    """What a file name says; headers, where they are there, say it better."""

    created_at: datetime
    sender: str
    to: str
    intent: str
    task_id: str | None


def build(label: Label) -> Iterator[str]:
    """Yield the letter's name, then the same with `~002`, `~003`, … for when it is taken."""
    fields = [
        label.created_at.astimezone(UTC).strftime(_STAMP).zfill(15),  # a year may be short
        f"{_dotted(label.sender)}-{_dotted(label.to)}",
        label.intent.replace("_", "-"),
        *([label.task_id.replace("_", ".")] if label.task_id else []),
    ]
    return numbered("_".join(fields) + ".md")


def numbered(name: str) -> Iterator[str]:
    """Yield a name, then its further ones."""
    stem = name.removesuffix(".md").partition("~")[0]
    yield name
    for number in range(2, 1_000_000):
        if (further := f"{stem}~{number:03d}.md") != name:
            yield further


def split(name: str) -> Label | None:
    """Return what a name says, or None when it does not follow the pattern."""
    fields = name.removesuffix(".md").partition("~")[0].split("_")
    if not name.endswith(".md") or len(fields) not in (4, 5):
        return None
    sender, dash, to = fields[2].partition("-")
    moment = _moment("_".join(fields[:2]))
    if moment is None or not all((sender, dash, to, *fields[3:])) or "-" in to:
        return None
    task_id = fields[4] if len(fields) == 5 else None
    return Label(moment, sender.lower(), to.lower(), fields[3].replace("-", "_"), task_id)


def _moment(text: str) -> datetime | None:
    # Not strptime, which loads locales and calendars first.
    day, _, hour = text.partition("_")
    if len(day) != 8 or len(hour) != 6 or not (text.isascii() and (day + hour).isdigit()):
        return None
    parts = (day[:4], day[4:6], day[6:], hour[:2], hour[2:4], hour[4:])
    try:
        return datetime(*map(int, parts), tzinfo=UTC)  # type: ignore[misc,arg-type]  # six numbers
    except ValueError:
        return None


def _dotted(agent: str) -> str:
    return agent.replace("-", ".").replace("_", ".")
