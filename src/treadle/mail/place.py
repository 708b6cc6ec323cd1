"""The places where letters lie."""

from pathlib import Path

from treadle.errors import BlockedError, NotFoundError, argument
from treadle.layout import LOGS, NEW_MESSAGES, MailLayout, inbox_name, workspace_name
from treadle.mail import address
from treadle.store.letters import LetterRow, Place

NEW = Place("new", None, NEW_MESSAGES)


def inbox(agent: str) -> Place:
    """Return an agent's INBOX."""
    return Place("inbox", agent, inbox_name(agent))


def workspace(agent: str) -> Place:
    """Return an agent's WORKSPACE."""
    return Place("workspace", agent, workspace_name(agent))


def logs(agent: str | None, month: str | None = None) -> Place:
    """Return the LOGS, or one month of them; `agent` is whose the letter was."""
    return Place("logs", agent, f"{LOGS}/{month}" if month else LOGS)


def of_folder(folder: str) -> Place:
    """Return the place that a folder's name stands for."""
    match folder.split("/"):
        case [first] if first == NEW_MESSAGES:
            return NEW
        case [_, agent, "INBOX"]:
            return Place("inbox", address.parse(agent), folder)
        case [_, agent, "WORKSPACE"]:
            return Place("workspace", address.parse(agent), folder)
    return Place("logs", None, folder)


def path(mail: MailLayout, row: LetterRow) -> Path:
    """Return a letter's file."""
    return mail.root / row.folder / row.name


def not_yours(row: LetterRow, message: str, verb: str = "read") -> BlockedError:
    """Say that a letter is somebody else's, or nobody's any more."""
    return BlockedError(
        message,
        code="letter_not_yours",
        fix=[f"treadle mail {verb} {argument(row.name)}"],
        details={"file": f"{row.folder}/{row.name}", "to": row.recipient, "holder": row.agent},
    )


def gone(name: str) -> NotFoundError:
    """Say that a letter is not there any more."""
    return NotFoundError(
        f"letter {name} is gone: somebody moved or claimed it", fix=["treadle mail list"]
    )
