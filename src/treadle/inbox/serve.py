"""Make one round: send what the schedule says, go on with what waited, make a pass."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from treadle.config.load import load
from treadle.engine import due, orchestrator, work
from treadle.engine.progress import Progress, Watch
from treadle.errors import BlockedError, FormatError
from treadle.inbox import cron, process, send
from treadle.inbox.outcome import Summary
from treadle.layout import Layout
from treadle.project.project import Project
from treadle.store.writer import Store


class Server(NamedTuple):
    """What a serving process works with."""

    project: Project
    watch: Watch
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


def once(server: Server) -> Summary:
    """Do all there is to do now and return what came of it."""
    layout = server.project.layout
    _fire(server, layout)
    config = load(layout, server.project.env).config
    with orchestrator.opened(server.project, watch=server.watch, now=server.now) as tools:
        for row in due.runs(tools.store, server.now()):
            try:
                work.resume_run(tools, config, row.run_id, {}, {})
            except BlockedError as error:
                server.watch(Progress(kind="note", run_id=row.run_id, message=error.message))
        return process.process(tools, config)


def _fire(server: Server, layout: Layout) -> None:
    """Send what the schedule says for this minute; a file that is wrong is named."""
    if not layout.cron.is_dir():
        return
    now = server.now()
    with Store.open(layout) as store:
        for job in cron.jobs(layout):
            if isinstance(job, FormatError):
                server.watch(Progress(kind="note", run_id="", message=job.message))
                continue
            last = store.last_fire(job.name)
            if cron.is_due(job, now, datetime.fromisoformat(last) if last else None):
                store.fired(job.name, now)
                sent = send.send(layout, store, job.draft, now)
                text = f"{job.name}: sent {sent.message_id}"
                server.watch(Progress(kind="note", run_id="", message=text))
