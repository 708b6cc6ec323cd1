"""Guess from a log which denial of the sandbox a command met, and name the key that allows it."""

import os
import re
from pathlib import Path

from treadle.files import walk
from treadle.sandbox import home as homes
from treadle.sandbox.policy import Closed, Policy, layers, settled

_TAIL = 64 << 10
_MAX_PATHS = 1000
_REFUSED = r"Read-only file system|Permission denied|Operation not permitted|EROFS|EACCES|EPERM"
# How a program speaks of what it cannot read: in tier A it is not there, or it is empty.
_FAILED = r"(?:cannot|could not|unable to|failed to) \w+"
_MISSED = rf"No such file|Not a directory|ENOENT|ENOTDIR|no data|{_FAILED}"
_AROUND = r"\s:'\"`<>|,;()"
_PATH = rf"/[^{_AROUND}]{{1,1000}}+"
_SOCKETS = re.compile(r"Address family not supported|EAFNOSUPPORT")
_NETWORK = re.compile(
    r"name resolution|Name or service not known|Network is unreachable|ENETUNREACH|EAI_AGAIN"
    r"|Could not resolve|getaddrinfo|Temporary failure",
    re.IGNORECASE,
)


def _beside(words: str) -> re.Pattern[str]:
    """Find a path after or before such words, on one line; nothing is read twice, however long."""
    return re.compile(
        rf"(?:{words})[^\n/]{{0,40}}(?P<after>{_PATH})"
        rf"|(?:^|[{_AROUND}])[^/{_AROUND}]*+(?P<before>{_PATH})[^\n/]{{0,60}}(?:{words})",
        re.IGNORECASE | re.MULTILINE,
    )


_WRITES, _READS = _beside(_REFUSED), _beside(f"{_REFUSED}|{_MISSED}")


def explain(log: Path, policy: Policy, home: Path, owner: str = "checks") -> str | None:
    """Return a sentence with the key to set, or None if nothing in the log speaks of a denial.

    `owner` is the table whose keys open what the command may write and whom it may talk to.
    """
    text, closed = _tail(log), Closed(layers(policy))
    for name in _paths(_READS, text):
        if told := _unread(name, closed, policy, home):
            return told
    for name in _paths(_WRITES, text):
        if told := _unwritten(Path(name), policy, home, owner):
            return told
    refused = _SOCKETS.search(text)
    if not policy.network and (refused or _NETWORK.search(text)):
        return f'the sandbox keeps it off the network; {owner}.network = "full" would allow it'
    if refused and not policy.unix_sockets and owner == "checks":
        text = "the sandbox blocked a Unix socket"
        return f"{text}; checks.unix_sockets = true would allow it"
    return None


def _paths(pattern: re.Pattern[str], text: str) -> list[str]:
    found = dict.fromkeys(match["after"] or match["before"] for match in pattern.finditer(text))
    return list(found)[:_MAX_PATHS]


def _unread(name: str, closed: Closed, policy: Policy, home: Path) -> str | None:
    """Say which key lets it read something that the policy closes and that is there."""
    place = closed.around(os.path.realpath(name))
    if place is None or place == os.path.realpath(name) == str(policy.home):
        return None
    if place != str(policy.home) and not homes.is_known(place, policy):
        return f"the sandbox hides {name}; take {_short(Path(place), home)} out of sandbox.hide"
    if not os.access(name, os.F_OK):
        return None
    short = _short(Path(name), home)
    return f'the sandbox blocked reading {short}; sandbox.read = ["{short}"] would allow it'


def _unwritten(path: Path, policy: Policy, home: Path, owner: str) -> str | None:
    if any(path.is_relative_to(item) for item in (*policy.writable, *settled(policy.writable))):
        return None
    # What a log calls a path may be too long for one, lie behind a closed folder, or be a link.
    folder = next(item for item in (path, *path.parents) if walk.is_folder(f"{item}/."))
    if not os.access(folder, os.W_OK):  # outside of the sandbox it would fail as well
        return None
    if folder == home:  # that would open far more than what it missed
        return (
            f"the sandbox blocked a write to {path}; a folder there may stand in {owner}.writable"
        )
    allowed = _short(folder, home)
    return f'the sandbox blocked a write to {path}; {owner}.writable = ["{allowed}"] would allow it'


def _short(path: Path, home: Path) -> str:
    return (
        f"~/{path.relative_to(home)}" if path != home and path.is_relative_to(home) else str(path)
    )


def _tail(log: Path) -> str:
    with log.open("rb") as handle:
        handle.seek(max(log.stat().st_size - _TAIL, 0))
        return handle.read().decode(errors="replace")
