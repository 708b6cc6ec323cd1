"""A letter: headers, a blank line, markdown."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from treadle.errors import FormatError, UsageError
from treadle.ids import is_task_id
from treadle.mail import address, intent
from treadle.mail.name import Label

FIRST_LINE = "# MESSAGE"
MAX_BYTES = 1 << 20

_REQUIRED = ("from", "to", "intent", "status", "created_at")
_KNOWN = ("from", "to", "intent", "task_id", "status", "created_at")


class Letter(NamedTuple):
    """One letter; `extra` holds every further header in the order in which it was written."""

    sender: str
    to: str
    intent: str
    status: str
    created_at: str
    task_id: str | None = None
    extra: tuple[tuple[str, str], ...] = ()
    body: str = ""

    def header(self, name: str) -> str | None:
        """Return a further header, or None."""
        return next((value for key, value in self.extra if key == name), None)

    @property
    def message_id(self) -> str | None:
        """Return the id that other letters refer to, if it has one."""
        return self.header("message_id")


def write(letter: Letter) -> str:
    """Return the letter as a file's text."""
    sender, to, word, status, created_at, task_id, extra, body = letter
    known = (sender, to, word, task_id, status, created_at)
    pairs = [*zip(_KNOWN, known, strict=True), *extra]
    lines = [f"{key}: {_line(key, value)}" for key, value in pairs if value is not None]
    return "\n".join([FIRST_LINE, *lines, "", body])


def parse(text: str, label: Label | None = None) -> Letter:
    """Read a letter; headers it lacks come from its file name."""
    head, body = _split(text)
    headers = _headers(head) if head is not None else {}
    found = _from_label(label) | headers
    if missing := [name for name in _REQUIRED if not found.get(name)]:
        raise FormatError(f"no header {', '.join(missing)}, and the file name does not tell")
    try:
        return _checked(found, body)
    except UsageError as error:
        raise FormatError(error.message) from error


def time(moment: datetime) -> str:
    """Write a moment as letters do: in UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> datetime:
    """Read a moment with any offset or fraction; without an offset it is UTC."""
    try:
        found = datetime.fromisoformat(text.strip())
        return found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{text[:40]!r} is no time; write it like 2026-01-31T14:00:00Z") from error


def _line(key: str, value: str) -> str:
    if value != value.strip() or not value or len(value.splitlines()) != 1:
        raise UsageError(f"header {key}: {value[:40]!r} must be one line that says something")
    return value


def _split(text: str) -> tuple[list[str] | None, str]:
    """Return the header lines, or None without any, and the body as it is."""
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[0].rstrip() != FIRST_LINE:
        return None, text
    for number, line in enumerate(lines):
        if not line.strip():
            return lines[1:number], "\n".join(lines[number + 1 :])
    return lines[1:], ""


def _headers(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in map(_pair, lines):
        if key in found:
            raise FormatError(f"header {key} is there twice")
        found[key] = value
    return found


def _pair(line: str) -> tuple[str, str]:
    key, colon, value = line.partition(":")
    key = key.strip()
    if not colon or not key or not key.replace("_", "").replace("-", "").isalnum():
        raise FormatError(f"{line.strip()[:60]!r} is no header; write it as key: value")
    return key, value.strip()


def _from_label(label: Label | None) -> dict[str, str]:
    if label is None:
        return {}
    found = {
        "from": label.sender,
        "to": label.to,
        "intent": label.intent,
        "status": "new",
        "created_at": time(label.created_at),
    }
    return found | ({"task_id": label.task_id} if label.task_id else {})


def _checked(found: Mapping[str, str], body: str) -> Letter:
    task_id = found.get("task_id") or None
    if task_id is not None:
        check_task_id(task_id)
    return Letter(
        sender=address.sender(found["from"]),
        to=address.parse(found["to"]),
        intent=found["intent"].lower().replace("-", "_"),
        status=intent.status(found["status"]),
        created_at=time(parse_time(found["created_at"])),
        task_id=task_id,
        # What treadle has no field for; an empty header says nothing.
        extra=tuple((key, said) for key, said in found.items() if key not in _KNOWN and said),
        body=body,
    )


def check_task_id(text: str) -> None:
    """Refuse what cannot name a task, and so a file."""
    if not is_task_id(text):
        raise UsageError(f"task_id {text[:64]!r} is no task id", code="task_id_invalid")
