"""Guess from a log which denial of the sandbox a command met, and name the key that allows it."""

import os
import re
from pathlib import Path

from treadle.files import walk
from treadle.sandbox.policy import Policy, settled

_TAIL = 64 << 10
_REFUSED = r"Read-only file system|Permission denied|Operation not permitted|EROFS|EACCES|EPERM"
_AROUND = r"\s:'\"`<>|,;"
_PATH = rf"/[^{_AROUND}]{{1,1000}}+"
# A path after or before the word, on one line; nothing is read twice, however long it is.
_WRITES = re.compile(
    rf"(?:{_REFUSED})[^\n/]{{0,40}}(?P<after>{_PATH})"
    rf"|(?:^|[{_AROUND}])[^/{_AROUND}]*+(?P<before>{_PATH})[^\n/]{{0,60}}(?:{_REFUSED})",
    re.IGNORECASE | re.MULTILINE,
)
_SOCKETS = re.compile(r"Address family not supported|EAFNOSUPPORT")
_NETWORK = re.compile(
    r"name resolution|Name or service not known|Network is unreachable|ENETUNREACH|EAI_AGAIN"
    r"|Could not resolve|getaddrinfo|Temporary failure",
    re.IGNORECASE,
)


def explain(log: Path, policy: Policy, home: Path) -> str | None:
    """Return a sentence with the key to set, or None if nothing in the log speaks of a denial."""
    text = _tail(log)
    for match in _WRITES.finditer(text):
        path = Path(match["after"] or match["before"])
        if told := _path(path, policy, home):
            return told
    refused = _SOCKETS.search(text)
    if not policy.network and (refused or _NETWORK.search(text)):
        return 'the sandbox keeps it off the network; checks.network = "full" would allow it'
    if refused and not policy.unix_sockets:
        text = "the sandbox lets it open no Unix socket"
        return f"{text}; checks.unix_sockets = true would allow it"
    return None


def _path(path: Path, policy: Policy, home: Path) -> str | None:
    hidden = next((item for item in settled(policy.hidden) if path.is_relative_to(item)), None)
    if hidden:
        return f"the sandbox hides {path}; take {_short(hidden, home)} out of sandbox.hide"
    if any(path.is_relative_to(item) for item in (*policy.writable, *settled(policy.writable))):
        return None
    # What a log calls a path may be too long for one, lie behind a closed folder, or be a link.
    folder = next(item for item in (path, *path.parents) if walk.is_folder(f"{item}/."))
    if not os.access(folder, os.W_OK):  # outside of the sandbox it would fail as well
        return None
    allowed = _short(folder, home)
    return f'the sandbox let it not write {path}; checks.writable = ["{allowed}"] would allow it'


def _short(path: Path, home: Path) -> str:
    return (
        f"~/{path.relative_to(home)}" if path != home and path.is_relative_to(home) else str(path)
    )


def _tail(log: Path) -> str:
    with log.open("rb") as handle:
        handle.seek(max(log.stat().st_size - _TAIL, 0))
        return handle.read().decode(errors="replace")
