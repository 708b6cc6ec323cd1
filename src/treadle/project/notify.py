"""Deliver a notice to the user: to a program of theirs, to a web address, or to both."""

import http.client
import json
import re
import socket
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from threading import Timer
from typing import NamedTuple
from urllib.parse import urlsplit

from treadle.errors import ConfigError, TreadleError
from treadle.git import call
from treadle.ids import utc
from treadle.proc import helper
from treadle.project.context import Context
from treadle.sandbox.mask import Mask
from treadle.text import line

TRIES = 3
_PATIENCE = 10.0  # seconds for one try
_LONGEST = 4_000  # characters of what people read first
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


class Delivery(NamedTuple):
    """What became of a notice on one way: nothing in `error` means that it arrived."""

    way: str
    tries: int
    error: str = ""


def complete(project: Context, told: Mapping[str, object], now: datetime) -> dict[str, object]:
    """Return a notice as it is sent: with where it comes from, and without secrets."""
    where = {"version": 1, "project": project.layout.root.name, "root": str(project.layout.root)}
    text = line(str(told.get("text") or told.get("kind") or "notice"))[:_LONGEST]
    masked = Mask(project.secrets).value({**where, "at": utc(now), **told, "text": text})
    assert isinstance(masked, dict)
    return masked


def deliver(
    project: Context, notice: Mapping[str, object], patience: float = _PATIENCE
) -> list[Delivery]:
    """Send a notice on every way that is configured; each is tried three times."""
    wanted, mask = project.settings.config.notify, Mask(project.secrets)
    content = json.dumps(notice, ensure_ascii=True).encode()
    found = []
    for way in (it for it in ("command", "webhook") if getattr(wanted, it)):
        pause, error, tries = float(project.settings.config.retry_wait), "", 0
        while tries < TRIES:
            if tries:
                time.sleep(pause * tries)
            tries += 1
            error = _send(project, way, content, notice, patience)
            if not error:
                break
        found.append(Delivery(way, tries, mask.text(line(error))[:_LONGEST]))
    return found


def _send(
    project: Context, way: str, content: bytes, notice: Mapping[str, object], patience: float
) -> str:
    wanted = project.settings.config.notify
    if way == "command":
        return _tell_program(project, wanted.command or (), content, notice, patience)
    try:
        return _post(_address(wanted.webhook or "", project.env), content, patience)
    except (OSError, TreadleError) as error:
        return str(error) if isinstance(error, TreadleError) else f"{type(error).__name__}: {error}"
    except (http.client.HTTPException, ValueError) as error:
        # They quote the address, and whoever knows that can write to the user.
        return f"{type(error).__name__}: the address or the answer cannot be used"


def _tell_program(
    project: Context,
    argv: tuple[str, ...],
    content: bytes,
    notice: Mapping[str, object],
    patience: float,
) -> str:
    """Run the user's program with the document on stdin; it stands outside of every repository."""
    words = {"TREADLE_NOTICE_KIND": notice.get("kind"), "TREADLE_NOTICE_TEXT": notice.get("text")}
    own = call.apart(project.env, str(project.repo.root))
    env = own | {name: str(word) for name, word in words.items()}
    try:
        done = helper.run((*helper.FROM_NOWHERE, *argv), env, content, patience)
    except TreadleError as error:
        # Its arguments may hold what nobody else should read.
        late = error.code == "helper_timeout"
        return f"it did not end within {patience:g} s" if late else error.message
    said = done.stderr.decode(errors="replace").strip().splitlines()
    last = f": {said[-1]}" if said else ""
    return f"exit code {done.returncode}{last}" if done.returncode else ""


def _address(webhook: str, env: Mapping[str, str]) -> str:
    """Return the address, which may stand in a variable as a whole."""
    named = _VARIABLE.fullmatch(webhook)
    url = env.get(named[1], "") if named else webhook
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise ConfigError(f"{webhook} holds no http or https address" if named else "no address")
    return url


def _post(url: str, content: bytes, patience: float) -> str:
    """Send it and return why it was not taken; a redirect leads elsewhere and is not followed."""
    parts = urlsplit(url)
    assert parts.hostname
    if parts.scheme == "https":
        secure = ssl.create_default_context()
        server: http.client.HTTPConnection = http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=patience, context=secure
        )
    else:
        server = http.client.HTTPConnection(parts.hostname, parts.port, timeout=patience)
    # A server that answers a byte at a time would never run into the time limit of one read.
    guard, late = Timer(patience, _cut, [server]), time.monotonic() + patience
    guard.daemon = True
    guard.start()
    try:
        path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        headers = {"Content-Type": "application/json", "User-Agent": "treadle"}
        server.request("POST", path, content, headers)
        answer = server.getresponse()
        if 200 <= answer.status < 300:
            return ""
        if 300 <= answer.status < 400:
            to = urlsplit(answer.headers.get("Location", "")).hostname or "itself"
            return f"it answered {answer.status} with a redirect to {to}, which is not followed"
        return f"it answered {answer.status} {answer.reason}"
    except (OSError, http.client.HTTPException):
        if time.monotonic() < late:
            raise
        return f"it did not answer within {patience:g} s"
    finally:
        guard.cancel()
        server.close()


def _cut(server: http.client.HTTPConnection) -> None:
    """Wake whoever reads; closing would not, while the answer holds the connection."""
    with suppress(OSError, AttributeError):  # it is over already
        server.sock.shutdown(socket.SHUT_RDWR)
