"""Hand out further links to whoever owns the server, over a socket that no agent can open."""

import contextlib
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

from treadle.errors import BlockedError, LockedError
from treadle.files import atomic, remove

_DOOR = """<!doctype html>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={url}">
<title>treadle</title>
"""
# The kernel's limit for the path of such a socket, on the strictest system.
_LONGEST = 100


@contextlib.contextmanager
def offered(path: Path, new_link: Callable[[], str]) -> Iterator[None]:
    """Give everyone who connects a new link, while the block works."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if _ask(path) is not None:
        raise LockedError(
            "this project is served already", code="served", fix=["treadle serve --link"]
        )
    path.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX)
    with server, _reachable(path) as name:
        server.bind(name)
        path.chmod(0o600)
        server.listen()
        Thread(target=_answer, args=(server, new_link), daemon=True).start()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def get(path: Path) -> str:
    """Return a new link from the server of this project."""
    link = _ask(path)
    if link is None:
        raise BlockedError(
            "nobody serves this project", code="not_served", fix=["treadle serve --open"]
        )
    return link


def write_door(folder: Path, url: str) -> Path:
    """Write a file that leads to a link: everybody can read the arguments of a program."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{secrets.token_hex(8)}.html"
    atomic.create(path, _DOOR.format(url=url).encode(), mode=0o600)
    return path


def remove_doors(folder: Path) -> None:
    """Remove these files, because a link was followed or nobody serves any more."""
    with contextlib.suppress(OSError):
        remove.remove_tree(folder)


def _answer(server: socket.socket, new_link: Callable[[], str]) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        with client, contextlib.suppress(OSError):
            client.sendall(new_link().encode())


def _ask(path: Path) -> str | None:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(5)
    try:
        with client, _reachable(path) as name:
            client.connect(name)
            return client.recv(1024).decode() or None
    except OSError:
        return None


@contextlib.contextmanager
def _reachable(path: Path) -> Iterator[str]:
    """Return a name for the path that is short enough for the kernel."""
    if len(os.fsencode(path)) <= _LONGEST:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
