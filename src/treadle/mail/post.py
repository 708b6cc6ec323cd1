"""Check a letter and put it, whole, where it will be found."""

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from treadle.errors import UsageError
from treadle.files import atomic
from treadle.ids import EVERYBODY, acting_agent, agent_name, is_agent_id
from treadle.layout import MailLayout
from treadle.mail.letter import (
    MAX_BYTES,
    NEED_TASK,
    Label,
    Letter,
    check_task_id,
    file_names,
    format_time,
    known_intent,
    parse_status,
    parse_time,
    write,
)


def register(mail: MailLayout, agent: str) -> None:
    """Give an agent its folders; from then on it gets letters to all."""
    for folder in (mail.inbox(agent), mail.workspace(agent)):
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)


def registered(mail: MailLayout) -> list[str]:
    """Return the agents that have folders."""
    return sorted({agent_name(name) for name in agent_folders(mail)})


def agent_folders(mail: MailLayout) -> list[str]:
    """Return the names of agents' folders as they are spelled; what else lies there is nobody's."""
    if not mail.agents.is_dir():
        return []
    names = [path.name for path in mail.agents.iterdir() if path.is_dir()]
    ours = (name for name in names if is_agent_id(name.lower()))
    return sorted(name for name in ours if name.lower() != EVERYBODY)


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
    said: list[str] = []  # noqa: RUF012  # never changed in place


def post(mail: MailLayout, letter: Letter) -> Sent:
    """Put a letter into NEW_MESSAGES under the first free name."""
    if not mail.new.is_dir():
        mail.new.mkdir(parents=True, exist_ok=True)
    if letter.to != EVERYBODY:
        register(mail, letter.to)
    return Sent(drop(mail.new, letter), letter)


def drop(folder: Path, letter: Letter) -> str:
    """Write a letter into a folder under the first free name."""
    moment = parse_time(letter.created_at)
    label = Label(moment, letter.sender, letter.to, letter.intent, letter.task_id)
    return atomic.deliver(folder, file_names(label), write(letter).encode())


def compose(draft: Draft, now: datetime, extra: Sequence[str] = ()) -> Letter:
    """Check a draft and return the letter it becomes."""
    word = known_intent(draft.intent, extra)
    if draft.task_id is not None:
        check_task_id(draft.task_id)
    elif word in NEED_TASK:
        raise UsageError(f"a letter with intent {word} needs --task", code="task_id_missing")
    letter = Letter(
        sender=acting_agent(draft.sender),
        to=agent_name(draft.to),
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
