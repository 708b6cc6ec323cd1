"""Keep going: look at inbox, specs and schedule whenever something there changes."""

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import watchfiles

from treadle.config.load import load
from treadle.engine import orchestrator, pause, work
from treadle.engine.progress import Progress, Watch
from treadle.errors import BlockedError, FormatError, LockedError
from treadle.inbox import box, cron, process, send
from treadle.inbox.outcome import Summary
from treadle.layout import Layout
from treadle.project.project import Project
from treadle.store.reader import Reader
from treadle.store.writer import Store

_STILL = 0.2  # seconds that nothing may change before a file counts as written
_WAKE = 1000  # milliseconds between looks at the clock
_AGAIN = 1.0  # seconds to leave a project alone that somebody else works in

Stop = Callable[[], str | None]
Signature = tuple[tuple[str, int, int], ...]


class Server(NamedTuple):
    """What a serving process works with."""

    project: Project
    watch: Watch
    stop: Stop
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


def serve(server: Server) -> Iterator[Summary]:
    """Make a pass whenever there is something new, until told to stop; yield what came of each."""
    layout = server.project.layout
    for folder in (layout.inbox, layout.specs):
        folder.mkdir(parents=True, exist_ok=True)
    done: Signature | None = None
    told: Summary | None = None
    refused: set[str] = set()
    named: set[str] = set()
    for _ in _wakes(server, layout):
        _fire(server, layout, named)
        _go_on(server, layout, refused)
        seen = signature(layout)
        if seen == done or not _is_still(server, layout, seen):
            continue
        summary = _pass(server)
        if summary is None:
            continue
        # What came while the pass was ending is a change after it, never lost.
        done = seen
        if summary != told and (summary.outcomes or summary.failed_hook):
            yield summary
        told = summary
        if summary.interrupted:
            return


def signature(layout: Layout) -> Signature:
    """Return names, sizes and times of everything that could be work."""
    paths = [layout.inbox / name for name in box.names(layout)]
    paths += sorted(layout.specs.glob("*.spec.md"))
    paths += [path for path in (layout.config_toml, layout.tracker) if path.exists()]
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            state = path.lstat()
            found.append((str(path), state.st_size, state.st_mtime_ns))
    return tuple(found)


def _is_still(server: Server, layout: Layout, seen: Signature) -> bool:
    deadline = time.monotonic() + _STILL
    while time.monotonic() < deadline and not server.stop():
        time.sleep(_STILL / 4)
    return signature(layout) == seen and not server.stop()


def _pass(server: Server) -> Summary | None:
    """Make one pass; None while somebody else works in the project."""
    loaded = load(server.project.layout, server.project.env)
    try:
        with orchestrator.opened(server.project, watch=server.watch, now=server.now) as tools:
            return process.process(tools, loaded.config)
    except LockedError:
        time.sleep(_AGAIN)
        return None


def _go_on(server: Server, layout: Layout, refused: set[str]) -> None:
    """Continue runs that have waited for a usage limit to be over."""
    with Reader.open(layout) as store:
        due = [row for row in pause.due(store, server.now()) if row.run_id not in refused]
    if not due:
        return
    config = load(layout, server.project.env).config
    with (
        contextlib.suppress(LockedError),
        orchestrator.opened(server.project, watch=server.watch, now=server.now) as tools,
    ):
        for row in due:
            try:
                work.resume_run(tools, config, row.run_id, {}, {})
            except BlockedError as error:
                refused.add(row.run_id)
                server.watch(Progress(kind="note", run_id=row.run_id, message=error.message))


def _fire(server: Server, layout: Layout, named: set[str]) -> None:
    """Send what the schedule says for this minute; a file that is wrong is named once."""
    if not layout.cron.is_dir():
        return
    now = server.now()
    store = Store.open(layout)
    try:
        for job in cron.jobs(layout):
            if isinstance(job, FormatError):
                if job.message not in named:
                    server.watch(Progress(kind="note", run_id="", message=job.message))
                named.add(job.message)
                continue
            last = store.last_fire(job.name)
            if cron.is_due(job, now, datetime.fromisoformat(last) if last else None):
                store.fired(job.name, now)
                sent = send.send(layout, store, job.draft, now)
                text = f"{job.name}: sent {sent.message_id}"
                server.watch(Progress(kind="note", run_id="", message=text))
    finally:
        store.close()


class _Stopped:
    """The stop function as the watcher wants it."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop

    def is_set(self) -> bool:
        return self._stop() is not None


def _wakes(server: Server, layout: Layout) -> Iterator[None]:
    """Come back at once, on every change, and at least every second; poll where watching fails."""
    yield None
    paths: list[Path] = [layout.inbox, layout.specs]
    for polling in (False, True):
        try:
            for _ in watchfiles.watch(
                *paths,
                watch_filter=None,
                debounce=200,
                step=50,
                stop_event=_Stopped(server.stop),
                rust_timeout=_WAKE,
                yield_on_timeout=True,
                raise_interrupt=False,
                force_polling=polling,
                recursive=False,
            ):
                yield None
            return
        except (OSError, RuntimeError) as error:
            text = f"files cannot be watched ({error}); looking every second instead"
            server.watch(Progress(kind="note", run_id="", message=text))
    while not server.stop():
        time.sleep(_WAKE / 1000)
        yield None
