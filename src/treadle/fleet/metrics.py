"""Numbers of a worker and its fleet for a monitor, in the text format of Prometheus."""

import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

from treadle.engine.run.memory import Progress
from treadle.errors import TreadleError, UsageError
from treadle.fleet import site as sites
from treadle.fleet.site import FleetSite

_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_COUNTED = ("beats", "claims", "retries", "runs", "steps", "step_seconds")
_HOLDS = 5.0  # seconds for which the fleet's own numbers are not asked for again


class Counts:
    """What one worker has done since it came; its threads count at the same time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._of: dict[str, float] = {}

    def add(self, name: str, value: float = 1) -> None:
        """Count something."""
        with self._lock:
            self._of[name] = self._of.get(name, 0) + value

    def note(self, moment: Progress) -> None:
        """Count what a run's onlooker sees."""
        if moment.kind == "committed":
            self.add("steps_total")
            self.add("step_seconds_total", moment.elapsed)
        elif moment.kind == "ended":
            self.add("runs_total")

    def lines(self) -> Iterator[str]:
        """Yield a line for each count."""
        with self._lock:
            found = {f"{name}_total": 0.0 for name in _COUNTED} | self._of
        for name, value in sorted(found.items()):
            yield f"treadle_worker_{name} {value:g}"


def fleet_lines(site: FleetSite) -> Iterator[str]:
    """Yield how the whole fleet stands: its workers, and the queue of each repository."""
    found = sites.status(site)
    for status in ("alive", "draining", "left", "dead"):
        count = sum(row.status == status for row in found.workers)
        yield f'treadle_fleet_workers{{status="{status}"}} {count}'
    quarantined = [row for row in found.workers if row.status == "alive" and row.trouble]
    yield f"treadle_fleet_quarantined {len(quarantined)}"
    yield f"treadle_worker_connections {found.lines}"
    yield f"treadle_fleet_stuck {len(found.stuck)}"
    for load in (it for it in found.repositories if it.problem is None):
        of = f'{{repository="{load.repository}"}}'
        yield f"treadle_fleet_queued{of} {load.queued}"
        yield f"treadle_fleet_running{of} {load.running}"
        yield f"treadle_fleet_oldest_queued_seconds{of} {load.oldest:g}"


def serve(address: str, own: Callable[[], Iterator[str]], site: FleetSite) -> ThreadingHTTPServer:
    """Answer `GET /metrics` at `[HOST:]PORT` in a thread; the caller ends it."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--metrics {address}: give a port, or HOST:PORT")
    fleet = _Kept(lambda: list(fleet_lines(site)))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/metrics":
                self.send_error(404)
                return
            body = "\n".join([*own(), *fleet(), ""]).encode()
            self.send_response(200)
            self.send_header("Content-Type", _TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing: the worker's log is of its runs."""

    try:
        server = ThreadingHTTPServer((host or "127.0.0.1", int(port)), Handler)
    except OSError as error:
        raise UsageError(f"--metrics {address}: {error.strerror or error}") from error
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server


class _Kept:
    """Asks at most every few seconds; a database that is away leaves the fleet's lines out."""

    def __init__(self, ask: Callable[[], list[str]]) -> None:
        self._ask = ask
        self._lock = Lock()
        self._at = -_HOLDS
        self._found: list[str] = []

    def __call__(self) -> list[str]:
        with self._lock:
            if time.monotonic() - self._at > _HOLDS:
                self._at = time.monotonic()
                try:
                    self._found = [*self._ask(), "treadle_fleet_up 1"]
                except TreadleError:
                    self._found = ["treadle_fleet_up 0"]
            return self._found
