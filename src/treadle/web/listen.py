"""Hold the page's port from the start, and wake the page when somebody comes."""

import select
import socket
from collections.abc import Callable

from treadle.errors import LockedError

PORT = 7717
_PAUSE = 1.0


def bind(port: int | None) -> socket.socket:
    """Return a socket that listens on this machine alone; without a port, ours or any free one."""
    if port is not None:
        return _bound(port)
    try:
        return _bound(PORT)
    except LockedError:
        return _bound(0)


def wait(server: socket.socket, stop: Callable[[], str | None]) -> bool:
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
