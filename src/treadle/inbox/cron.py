"""Scheduled messages: files that say when they are to be sent, and are never used up."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
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
# A job that fired this long ago is counted on from there, so that a repeated hour counts once.
_RECENT = timedelta(hours=3)


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
    minute = _local(job, now).replace(second=0, microsecond=0)
    if last is None or _local(job, now) - _local(job, last) > _RECENT:
        start = _local(job, minute - timedelta(minutes=1))
    else:
        start = _local(job, last)
    for moment in CronSim(job.expression, start):
        if moment.timestamp() >= minute.timestamp():
            return moment.timestamp() == minute.timestamp()
    return False


def _local(job: Job, moment: datetime) -> datetime:
    return moment.astimezone(job.zone)


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
        raise FormatError(f"cron: {expression!r} must have five fields")
    try:
        CronSim(expression, datetime(2026, 1, 1))
    except CronSimError as error:
        raise FormatError(f"cron: {expression!r}: {error}") from error
    return expression


def _zone(value: Value | None) -> ZoneInfo | None:
    name = read_text(value)
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise FormatError(f"tz: {name!r} is no known zone") from error
