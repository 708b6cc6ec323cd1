"""Hold few connections, none for long that asks nothing: whoever opens many shuts nobody out."""

import asyncio
import errno
import resource
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS = 10.0  # seconds in which a request must have come
QUEUE = 512  # connections that the kernel holds for us
TAKEN = 32  # that are taken in one turn: several turns pass before the first can be sent away
_MOST = 256  # that ask nothing
_SHARE = 4  # of the files that this process may open


def bounded(headers: float = HEADERS) -> type[H11Protocol]:
    """Return the protocol of one server; a connection too many ends the one idle for longest."""
    limit = min(_MOST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE)
    idle: dict[H11Protocol, asyncio.TimerHandle] = {}

    class BoundedProtocol(H11Protocol):
        """A connection that is idle until its request has come, and again after the answer."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def handle_events(self) -> None:
            before = self.cycle
            super().handle_events()
            if self.cycle is not before and not self.cycle.response_complete:
                self._stop_waiting()

        def on_response_complete(self) -> None:
            self._wait()
            super().on_response_complete()

        def _wait(self) -> None:
            self._stop_waiting()
            idle[self] = self.loop.call_later(headers, self.transport.abort)
            if len(idle) > limit:
                oldest = next(iter(idle))
                idle.pop(oldest).cancel()
                oldest.transport.abort()

        def _stop_waiting(self) -> None:
            if timer := idle.pop(self, None):
                timer.cancel()

    return BoundedProtocol


def keep_quiet(loop: asyncio.AbstractEventLoop, about: dict[str, Any]) -> None:
    """Report what goes wrong, but for a lack of files: the loop would, for every connection."""
    error = about.get("exception")
    if not (isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)):
        loop.default_exception_handler(about)
