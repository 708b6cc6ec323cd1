"""Scheduled messages: files that say when they are to be sent, and are never used up."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from treadle.errors import FormatError
from treadle.files import walk
from treadle.frontmatter import parse
from treadle.frontmatter.block import Value
from treadle.inbox import box
from treadle.inbox.message import FIELDS, is_chain, read_text
from treadle.inbox.send import Draft
from treadle.layout import Layout

_FIELDS = 5
# Counted on from before any change of clocks, an hour that comes twice or not at all counts once.
_LOOK_BACK = timedelta(hours=3)


class Job(NamedTuple):
    """A scheduled message: the name of its file, when, and what is sent."""

    name: str
    expression: str
    zone: ZoneInfo | None
    draft: Draft


def jobs(layout: Layout) -> Iterator[Job | FormatError]:
    """Yield every scheduled message; one that is wrong comes as its error."""
    for name in sorted(filter(box.is_candidate, walk.names(layout.cron))):
        try:
            yield _read(layout.cron / name)
        except FormatError as error:
            yield FormatError(
                f".treadle/cron/{box.show(name)}: {error.message}", code="cron_invalid"
            )


def is_due(job: Job, now: datetime, last: datetime | None) -> bool:
    """Tell whether the job is to be sent in exactly this minute, and was not yet."""
    minute = now.astimezone(UTC).replace(second=0, microsecond=0)
    start = max(minute - _LOOK_BACK, last.astimezone(UTC) if last else minute - _LOOK_BACK)
    for moment in CronSim(job.expression, start.astimezone(job.zone)):
        if moment.timestamp() >= minute.timestamp():
            return moment.timestamp() == minute.timestamp()
    return False


def _read(path: Path) -> Job:
    document = parse.read(box.read(path))
    fields = document.fields
    expression = read_text(fields.get("cron"))
    if expression is None:
        raise FormatError("it has no `cron` field")
    chain = read_text(fields.get("chain"))
    if chain is not None and not is_chain(chain):
        raise FormatError(f"chain: {chain!r} is no safe id")
    return Job(
        name=path.name,
        expression=_checked(expression),
        zone=_zone(fields.get("tz")),
        draft=Draft(document.body, read_text(fields.get("routine")), chain, _own(fields)),
    )


def _own(fields: Mapping[str, Value]) -> dict[str, str]:
    known = (*FIELDS, "cron", "tz")
    return {key: it for key, it in fields.items() if key not in known and isinstance(it, str)}


def _checked(expression: str) -> str:
    if len(expression.split()) != _FIELDS:
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
        raise FormatError(f"tz: {name!r} is no known zone") from error
