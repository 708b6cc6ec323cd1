"""Hold the page's port, its keys and the one-time links that open it."""

import contextlib
import errno
import hmac
import os
import secrets
import select
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock, Thread

from treadle.errors import BlockedError, LockedError
from treadle.files import atomic, beneath

PORT = 7717
_PAUSE = 1.0


def bind_port(port: int | None) -> socket.socket:
    """Return a socket that listens on this machine alone; without a port, ours or any free one."""
    if port is not None:
        return _bound(port)
    try:
        return _bound(PORT)
    except LockedError:
        return _bound(0)


def wait_for_visitor(server: socket.socket, stop: Callable[[], str | None]) -> bool:
    """Return True when somebody connects, False when it is time to stop."""
    while not stop():
        if select.select([server], [], [], _PAUSE)[0]:
            return True
    return False


def _bound(port: int) -> socket.socket:
    # Named, or asyncio would not know that answers must leave at once, and each waits 40 ms.
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        server.close()
        raise LockedError(
            f"port {port} cannot be taken ({error})",
            code="port_taken",
            fix=["treadle serve --port 0"],
        ) from error
    server.listen(64)
    return server


_DOOR = """<!doctype html>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={url}">
<title>treadle</title>
"""
# What keeps a connection from being taken now and not for ever.
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED)
_SHORT = 0.1
# The kernel's limit for the path of such a socket, on the strictest system.
_LONGEST = 100


@contextlib.contextmanager
def offer_links(path: Path, new_link: Callable[[], str]) -> Iterator[None]:
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


def get_link(path: Path) -> str:
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
        beneath.remove_tree(folder)


def _answer(server: socket.socket, new_link: Callable[[], str]) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError as error:
            if error.errno not in _PASSING:
                return
            time.sleep(_SHORT)
            continue
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


_MAX_LINKS = 16


class Keys:
    """The cookie's value, and the one-time keys of links that were not followed yet."""

    def __init__(self) -> None:
        self._token = secrets.token_urlsafe(32)
        self._links: list[str] = []
        self._lock = Lock()

    def new_link(self) -> str:
        """Make a key that opens the page once; the oldest unused ones lapse."""
        key = secrets.token_urlsafe(24)
        with self._lock:
            self._links = [*self._links[1 - _MAX_LINKS :], key]
        return key

    def redeem(self, key: str) -> str | None:
        """Take a link's key and return the cookie's value, or None if the key is no good."""
        with self._lock:
            found = [item for item in self._links if _same(item, key)]
            self._links = [item for item in self._links if item not in found]
        return self._token if found else None

    def opens(self, token: str) -> bool:
        """Tell whether a cookie is ours."""
        return _same(self._token, token)


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
