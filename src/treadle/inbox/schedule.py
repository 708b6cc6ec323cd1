"""Scheduled messages, and waiting at little cost until there may be something to carry out."""

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from treadle import frontmatter
from treadle.engine.run import memory
from treadle.engine.run.memory import Progress, Watch
from treadle.errors import FormatError, StoreError
from treadle.files import walk
from treadle.frontmatter import Value
from treadle.ids import day_begin, utc
from treadle.inbox import box
from treadle.inbox.box import NewMessage
from treadle.inbox.message import FIELDS, read_chain, read_text
from treadle.layout import Layout
from treadle.store import outages
from treadle.store.messages import MessageRow
from treadle.store.questions import Subject
from treadle.store.store import Reader, Store
from treadle.tasks import questions
from treadle.text import line

_CRON_FIELDS = 5
# Counted on from before any change of clocks, an hour that comes twice or not at all counts once.
_LOOK_BACK = timedelta(hours=3)


class Scheduled(NamedTuple):
    """A scheduled message: the name of its file, when, and what is sent."""

    name: str
    expression: str
    zone: ZoneInfo | None
    draft: NewMessage


def jobs(layout: Layout) -> Iterator[Scheduled | FormatError]:
    """Yield every scheduled message; one that is wrong comes as its error."""
    for name in sorted(filter(box.is_candidate, walk.names(layout.cron))):
        try:
            yield _read_scheduled(layout.cron / name)
        except FormatError as error:
            yield FormatError(f".treadle/cron/{line(name)}: {error.message}", code="cron_invalid")


def is_due(job: Scheduled, now: datetime, last: datetime | None) -> bool:
    """Tell whether the job is to be sent in exactly this minute, and was not yet."""
    minute = now.astimezone(UTC).replace(second=0, microsecond=0)
    start = max(minute - _LOOK_BACK, last.astimezone(UTC) if last else minute - _LOOK_BACK)
    for moment in CronSim(job.expression, start.astimezone(job.zone)):
        if moment.timestamp() >= minute.timestamp():
            return moment.timestamp() == minute.timestamp()
    return False


def fire(layout: Layout, now: datetime, watch: Watch) -> None:
    """Send what the schedule says for this minute; a file that is wrong is named."""
    if not layout.cron.is_dir():
        return
    with Store.open(layout) as store:
        for job in jobs(layout):
            if isinstance(job, FormatError):
                watch(Progress(kind="note", run_id="", message=job.message))
                continue
            last = store.last_fire(job.name)
            if is_due(job, now, datetime.fromisoformat(last) if last else None):
                store.fired(job.name, now)
                sent = box.send(layout, store, job.draft, now)
                text = f"{job.name}: sent {sent.message_id}"
                watch(Progress(kind="note", run_id="", message=text))


def _read_scheduled(path: Path) -> Scheduled:
    fields, body = frontmatter.read(box.read(path))
    expression = read_text(fields.get("cron"))
    if expression is None:
        raise FormatError("it has no `cron` field")
    chain, routine = read_chain(fields.get("chain")), read_text(fields.get("routine"))
    known = (*FIELDS, "cron", "tz")
    own = {key: it for key, it in fields.items() if key not in known and isinstance(it, str)}
    return Scheduled(
        name=path.name,
        expression=_checked(expression),
        zone=_zone(fields.get("tz")),
        draft=NewMessage(body, routine, chain, own),
    )


def _checked(expression: str) -> str:
    if len(expression.split()) != _CRON_FIELDS:
        raise FormatError(f"cron: {expression[:80]!r} must have five fields")
    try:
        CronSim(expression, datetime(2026, 1, 1))
    except (CronSimError, ValueError) as error:  # a number may have too many digits
        raise FormatError(f"cron: {expression[:80]!r}: {error}") from error
    return expression


def _zone(value: Value | None) -> ZoneInfo | None:
    name = read_text(value)
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise FormatError(f"tz: {name!r} is not a known time zone") from error


_STILL = 0.2  # seconds that nothing may change before a file counts as written
SPEC_STILL = 2.0  # as many for a spec, which people write by hand
_WAKE = 1.0  # seconds between looks
_STEP = 0.05
_MINUTE = 16  # characters of a time that name its minute

Stop = Callable[[], object]
Signature = tuple[tuple[str, int, int], ...]


class Waiting:
    """What was seen when the last pass began; `done` says that it went well."""

    def __init__(self, layout: Layout, stop: Stop, now: Callable[[], datetime]) -> None:
        self._layout = layout
        self._stop = stop
        self._now = now
        self._seen: Signature | None = None
        self._done: Signature | None = None
        self._tried: set[str] = set()
        self._minute = ""
        self._day = day_begin(now())

    def reasons(self) -> Iterator[None]:
        """Yield at once and whenever a pass is due, until told to stop."""
        for folder in (self._layout.inbox, self._layout.specs):
            folder.mkdir(parents=True, exist_ok=True)
        while not self._stop():
            if self._is_changed() | self._is_scheduled() | self._is_answered():
                yield None
            self._pause(_WAKE)

    def done(self) -> None:
        """Take note that a pass was made: what came meanwhile is a change after it, never lost."""
        self._done = self._seen

    def _is_changed(self) -> bool:
        seen = signature(self._layout)
        if seen == self._done or not self._is_still(seen):
            return False
        self._seen = seen
        return True

    def _is_still(self, seen: Signature) -> bool:
        self._pause(_STILL)
        return signature(self._layout) == seen and not self._stop()

    def _pause(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self._stop():
            time.sleep(_STEP)

    def _is_scheduled(self) -> bool:
        """Tell whether a day has begun, or a minute in a project that has a schedule."""
        if self._day != (day := day_begin(self._now())):
            self._day = day
            return True
        minute = self._now().isoformat()[:_MINUTE]
        begun, self._minute = minute != self._minute, minute
        return begun and self._layout.cron.is_dir() and any(self._layout.cron.glob("*.md"))

    def _is_answered(self) -> bool:
        """Tell whether what a run or message has waited for is there; each is tried once.

        For a run that is a moment, for a message a human's answer or the next try of a tool.
        That the store is away is for a pass to say: whoever waits goes on waiting.
        """
        try:
            with Reader.open(self._layout) as store:
                now = self._now()
                runs = {f"{row.run_id} {row.ended_at}" for row in memory.due_runs(store, now)}
                held = [row for row in store.messages("held") if _is_answered(store, row)]
                down = [row for row in outages.outages(store) if row.next_at <= utc(now)]
        except StoreError:
            return True
        tools = (f"{row.service} {row.next_at}" for row in down)
        asked = (f"{row.message_id} {row.updated_at}" for row in held)
        found = {*runs, *asked, *tools} - self._tried
        self._tried |= found
        return bool(found)


def _is_answered(store: Reader, row: MessageRow) -> bool:
    """Say whether the newest question that a message waits for was answered since."""
    about = (Subject("message", row.message_id), Subject("chain", row.chain))
    asked = [item for subject in about if (item := questions.newest(store, subject))]
    found = max(asked, key=lambda item: item.created_at, default=None)
    return bool(found and found.answered_at and found.answered_at > row.updated_at)


def signature(layout: Layout) -> Signature:
    """Return names, sizes and times of everything that could be work."""
    paths = [layout.inbox / name for name in box.names(layout)]
    now, written = time.time(), sorted(layout.specs.glob(f"*{box.SUFFIX}"))
    paths += [it for it in written if box.is_still(layout, it.name, now, SPEC_STILL)]
    paths += [path for path in (layout.config_toml, layout.tracker) if path.exists()]
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            state = path.lstat()
            found.append((str(path), state.st_size, state.st_mtime_ns))
    return tuple(found)
