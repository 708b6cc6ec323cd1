"""A letter: its intent, file name, headers and markdown, and how it is written and delivered."""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from treadle.errors import FormatError, UsageError
from treadle.files import atomic, walk
from treadle.ids import (
    EVERYBODY,
    HUMAN,
    acting_agent,
    agent_name,
    hint,
    is_agent_id,
    is_task_id,
    nearest,
)
from treadle.layout import LOGS, NEW_MESSAGES, MailLayout, inbox_name, workspace_name
from treadle.store.letters import NORMAL
from treadle.store.letters import WORK as WORK

INTENTS = (
    *WORK,
    "status_update",
    "request_help",
    "claim_task",
    "release_task",
    "coordinate",
    "question",
    "answer",
    "escalate",
    "inform",
    "test_results",
    "audit_report",
    "approval_request",
)
NEED_TASK = frozenset((*WORK, "claim_task", "release_task", "test_results", "approval_request"))
# What a person is asked with; addressed to `human` they reach the desk.
ASKING = frozenset(("question", "request_help", "escalate", "approval_request"))
STATUSES = ("new", "in_progress", "completed", "blocked", "failed")

_REPLIES = {"test": "test_results", "audit": "audit_report"} | dict.fromkeys(
    ("question", "request_help", "review_code", "approval_request", "escalate"), "answer"
)


def known_intent(text: str, extra: Sequence[str] = ()) -> str:
    """Return an intent as headers spell it, or raise UsageError with the nearest one."""
    word = text.strip().lower().replace("-", "_")
    intents = every_intent(extra)
    if word in intents:
        return word
    raise UsageError(
        f"there is no intent {text[:64]!r}{hint(word[:64], intents, or_all=True)}",
        code="intent_unknown",
        fix=["treadle mail send --help", "treadle config show"],
    )


def every_intent(extra: Sequence[str]) -> tuple[str, ...]:
    """Return the standard intents and those that the configuration adds."""
    return (*INTENTS, *(item.replace("-", "_") for item in extra))


def parse_status(text: str) -> str:
    """Return a letter's status; `done` is read as completed."""
    word = text.strip().lower().replace("-", "_")
    word = "completed" if word == "done" else word
    if word in STATUSES:
        return word
    near = hint(word[:64], STATUSES, or_all=True)
    raise UsageError(f"there is no status {text[:64]!r}{near}")


def reply_intent(intent: str) -> str:
    """Return the intent with which a letter is usually answered."""
    return _REPLIES.get(intent, "inform")


# When, from whom to whom, what for and about which task; a name that was taken has a number.
_NAME = re.compile(
    r"(\d{8})_(\d{6})_([^_~-]+)-([^_~-]+)_([^_~]+)(?:_([^_~]+))?(?:~.*)?\.md", re.ASCII | re.DOTALL
)


_MAX_LABEL = 80


def file_names(letter: "Letter") -> Iterator[str]:
    """Yield the letter's name, then the same with `~002`, `~003`, … for when it is taken."""
    moment, to = parse_time(letter.created_at), _dotted(letter.to).replace(", ", "+")
    fields = [
        f"{moment:%Y%m%d_%H%M%S}".zfill(15),  # a year may be short
        f"{_dotted(letter.sender)}-{to if len(to) <= _MAX_LABEL else 'several'}",
        letter.intent.replace("_", "-"),
        *([letter.task_id.replace("_", ".")] if letter.task_id else []),
    ]
    return numbered("_".join(fields) + ".md")


def numbered(name: str) -> Iterator[str]:
    """Yield a name, then its further ones."""
    stem = name.removesuffix(".md").partition("~")[0]
    yield name
    for number in range(2, 1_000_000):
        if (further := f"{stem}~{number:03d}.md") != name:
            yield further


def name_headers(name: str) -> dict[str, str]:
    """Return the headers that a file name tells; none if it does not follow the pattern."""
    match = _NAME.fullmatch(name)
    if match is None:
        return {}
    day, hour, sender, to, intent, task_id = match.groups()
    try:
        created_at = format_time(datetime.fromisoformat(f"{day}T{hour}+00:00"))
    except ValueError:
        return {}
    found = {"from": sender.lower(), "to": to.lower(), "intent": intent.replace("-", "_")}
    about = {"task_id": task_id} if task_id else {}
    return found | about | {"status": "new", "created_at": created_at}


def _dotted(agent: str) -> str:
    return agent.replace("-", ".").replace("_", ".")


FIRST_LINE = "# MESSAGE"
MAX_BYTES = 1 << 20
MAX_ADDRESSEES = 128

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


def parse(text: str, name: str = "") -> Letter:
    """Read a letter; headers it lacks come from its file name."""
    head, body = _split(text)
    found = name_headers(name) | {key: said for key, said in _headers(head).items() if said}
    if missing := [name for name in _REQUIRED if name not in found]:
        raise FormatError(f"no header {', '.join(missing)}, and the file name does not say it")
    try:
        return _checked(found, body)
    except UsageError as error:
        raise FormatError(error.message) from error


def format_time(moment: datetime) -> str:
    """Write a moment as letters do: in UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> datetime:
    """Read a moment with any offset or fraction; without an offset it is UTC."""
    try:
        found = datetime.fromisoformat(text.strip())
        return found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{text[:40]!r} is not a time; write it like 2026-01-31T14:00:00Z"
        ) from error


def _line(key: str, value: str) -> str:
    if value != value.strip() or not value or len(value.splitlines()) != 1:
        raise UsageError(f"header {key}: {value[:40]!r} must be one line that says something")
    return value


def _split(text: str) -> tuple[list[str], str]:
    """Return the header lines and the body as it is."""
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[0].rstrip() != FIRST_LINE:
        return [], text
    for number, line in enumerate(lines):
        if not line.strip():
            return lines[1:number], "\n".join(lines[number + 1 :])
    return lines[1:], ""


def _headers(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in map(_pair, lines):
        if key in found:
            raise FormatError(f"header {key} appears twice")
        found[key] = value
    return found


def _pair(line: str) -> tuple[str, str]:
    key, colon, value = line.partition(":")
    key = key.strip()
    if not colon or not key or not key.replace("_", "").replace("-", "").isalnum():
        raise FormatError(f"{line.strip()[:60]!r} is not a header; write it as key: value")
    return key, value.strip()


def _checked(found: Mapping[str, str], body: str) -> Letter:
    task_id = found.get("task_id")
    if task_id is not None:
        check_task_id(task_id)
    return Letter(
        sender=acting_agent(found["from"]),
        to=", ".join(addressees(found["to"])),
        intent=found["intent"].lower().replace("-", "_"),
        status=parse_status(found["status"]),
        created_at=format_time(parse_time(found["created_at"])),
        task_id=task_id,
        extra=tuple((key, said) for key, said in found.items() if key not in _KNOWN),
        body=body,
    )


def addressees(text: str) -> tuple[str, ...]:
    """Return the names in an address; a file's name joins them by +."""
    words = [word for word in re.split("[,+]", text) if word.strip()] or [text]
    names = tuple(dict.fromkeys(map(agent_name, words)))
    if len(names) > MAX_ADDRESSEES:
        raise UsageError(f"a letter goes to at most {MAX_ADDRESSEES} agents, not to {len(names)}")
    if EVERYBODY in names[1:] or names[0] == EVERYBODY != names[-1]:
        raise UsageError(f"to: {text[:64]!r}: 'all' is everybody and stands alone")
    return names


def check_task_id(text: str) -> None:
    """Refuse what cannot name a task, and so a file."""
    if not is_task_id(text):
        raise UsageError(f"task_id {text[:64]!r} is not a task id", code="task_id_invalid")


# A letter about a run's end: the run itself has had its effects.
RUN_HEADER = "run_id"
# A copy of a letter to several, which names it; the original has had its effects.
COPY_HEADER = "copy_of"

_EFFECTIVE = ("claim_task", "release_task", "test_results", "answer", "escalate")


def has_effect(letter: Letter) -> bool:
    """Tell whether a letter does more than lie there."""
    if letter.header(RUN_HEADER):
        return False
    asks = letter.to == HUMAN and letter.intent in ASKING
    works = letter.intent in (*WORK, *_EFFECTIVE)
    return asks or works or is_broadcast(letter) or is_to_several(letter)


def is_broadcast(letter: Letter) -> bool:
    """Tell whether everybody gets a copy: letters to all, unless they ask for work."""
    return letter.to == EVERYBODY and letter.intent not in WORK


def is_to_several(letter: Letter) -> bool:
    """Tell whether each of those it names gets a letter of its own."""
    return "," in letter.to


_RANKS = {"critical": 0, "urgent": 0, "highest": 0, "high": 1, "low": 3, "lowest": 3}


def rank(letter: Letter) -> int:
    """Return how urgent a letter is: 0 is the most; numbers and words such as p1 count too."""
    said = (letter.header("priority") or "").strip().lower()
    number = said.removeprefix("p")
    return min(int(number), 3) if number.isdecimal() else _RANKS.get(said, NORMAL)


def read_letter(path: Path) -> Letter:
    """Read a letter, or raise FormatError that says what is wrong with it."""
    if not path.name.isprintable():  # bytes that are no text are not either
        raise FormatError("its name has characters that cannot be printed")
    return parse(read_text(path), path.name)


def read_text(path: Path) -> str:
    """Return a file's text; FormatError unless it is a plain file of moderate size in UTF-8."""
    return decode(walk.read(path, max_bytes=MAX_BYTES), path.name)


def decode(data: bytes, name: str) -> str:
    """Return bytes as text, or raise FormatError."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{name} is not UTF-8 (byte {error.start})") from error


def register_agent(mail: MailLayout, agent: str) -> None:
    """Give an agent its folders; from then on it gets letters to all."""
    name = folder_of(mail, agent)
    for folder in (mail.inbox(name), mail.workspace(name)):
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)


def registered_agents(mail: MailLayout) -> list[str]:
    """Return the agents that have folders."""
    return sorted({agent_name(name) for name in agent_folders(mail)})


def agent_folders(mail: MailLayout) -> list[str]:
    """Return the names of agents' folders as they are spelled; what else lies there is nobody's."""
    if not mail.agents.is_dir():
        return []
    names = [path.name for path in mail.agents.iterdir() if path.is_dir()]
    ours = (name for name in names if is_agent_id(name.lower()))
    return sorted(name for name in ours if name.lower() != EVERYBODY)


def typos(names: Iterable[str], known: Collection[str]) -> list[str]:
    """Say which names nobody has who is known, but somebody nearly; numbers are not mistyped."""
    said = []
    for name in names:
        near = nearest(name, known) if len(name) > 3 and name not in (*known, EVERYBODY) else None
        if near and near.rstrip("0123456789") != name.rstrip("0123456789"):
            said.append(f"nobody here is called {name}; did you mean {near}?")
    return said


def folder_of(mail: MailLayout, agent: str) -> str:
    """Return how an agent's folder is spelled: as it is there, else like the agent."""
    mine = [name for name in agent_folders(mail) if agent_name(name) == agent]
    return agent if agent in mine or not mine else mine[0]


def letter_folders(mail: MailLayout) -> Iterator[str]:
    """Yield every folder that holds letters, in the order in which letters go through them."""
    yield NEW_MESSAGES
    for agent in agent_folders(mail):
        yield inbox_name(agent)
        yield workspace_name(agent)
    yield LOGS
    if mail.logs.is_dir():
        for path in mail.logs.iterdir():
            if path.is_dir() and path != mail.quarantine and path.name.isprintable():
                yield f"{LOGS}/{path.name}"


def locate(mail: MailLayout, name: str) -> Path | None:
    """Return where a letter of this name lies; one that moves on meanwhile is met further on."""
    paths = (mail.root / folder / name for folder in letter_folders(mail))
    return next((path for path in paths if os.path.lexists(path)), None)


def free_names(mail: MailLayout, names: Iterable[str]) -> Iterator[str]:
    """Yield the names that no letter has, wherever it lies."""
    return (name for name in names if locate(mail, name) is None)


def names_for(mail: MailLayout, name: str) -> Iterator[str]:
    """Yield a letter's own name, then what it can be called where that is taken."""
    yield name
    yield from free_names(mail, numbered(name))


_HAS_SUMMARY = r"(?mi)^#+ +summary *$"


class Draft(NamedTuple):
    """What a sender wants to say; headers with None are left out."""

    sender: str
    to: str
    intent: str
    body: str
    task_id: str | None = None
    status: str | None = None
    headers: tuple[tuple[str, str | None], ...] = ()
    created_at: datetime | None = None


class Sent(NamedTuple):
    """A letter that lies where it can be found, and what its effect met with."""

    name: str
    letter: Letter
    said: Sequence[str] = ()


def post(mail: MailLayout, letter: Letter) -> Sent:
    """Put a letter into NEW_MESSAGES under the first free name."""
    if not mail.new.is_dir():
        mail.new.mkdir(parents=True, exist_ok=True)
    for name in addressees(letter.to):
        if name != EVERYBODY:
            register_agent(mail, name)
    return Sent(drop(mail.new, letter, free_names(mail, file_names(letter))), letter)


def drop(folder: Path, letter: Letter, names: Iterable[str]) -> str:
    """Write a letter into a folder under the first free name."""
    return atomic.deliver(folder, names, write(letter).encode())


def compose(draft: Draft, now: datetime, extra: Sequence[str] = ()) -> Letter:
    """Check a draft and return the letter it becomes."""
    word = known_intent(draft.intent, extra)
    if draft.task_id is not None:
        check_task_id(draft.task_id)
    elif word in NEED_TASK:
        raise UsageError(f"a letter with intent {word} needs --task", code="task_id_missing")
    letter = Letter(
        sender=acting_agent(draft.sender),
        to=", ".join(addressees(draft.to)),
        intent=word,
        status=_status(draft, word),
        created_at=format_time(draft.created_at or now),
        task_id=draft.task_id,
        extra=(("message_id", new_id(now)), *((k, v) for k, v in draft.headers if v)),
        body=_body(draft, word),
    )
    if len(write(letter).encode()) > MAX_BYTES:
        raise UsageError(f"a letter has at most {MAX_BYTES} bytes; put the rest into a file")
    return letter


def new_id(now: datetime) -> str:
    """Return an id that no other letter has."""
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%S}-{os.urandom(6).hex()}"


def _status(draft: Draft, word: str) -> str:
    if draft.status:
        return parse_status(draft.status)
    if word == "test_results":
        raise UsageError("test_results need --status completed or --status failed")
    return "blocked" if word == "escalate" else "new"


def _body(draft: Draft, word: str) -> str:
    text = draft.body.strip("\n")
    if text.strip() and not text.lstrip().startswith("#"):
        return f"## Summary\n{text}\n"
    if not re.search(_HAS_SUMMARY, text):
        about = f" {draft.task_id}" if draft.task_id else ""
        text = f"## Summary\n{word.replace('_', ' ')}{about}\n\n{text}".rstrip("\n")
    return text + "\n"
