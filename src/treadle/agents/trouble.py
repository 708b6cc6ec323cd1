"""Name why a tool did not finish, by its own words, and say what to do and when it may go on."""

import re
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec.structs import replace

from treadle.agents import versions
from treadle.agents.backend import AgentResult, AgentSpec, Heard, Tool, read_events
from treadle.contract.events import StepError
from treadle.files import walk
from treadle.ids import local, utc
from treadle.text import plural

_STATUS = re.compile(r"(?:status|code|error|http)\D{0,20}\b([45]\d\d)\b", re.IGNORECASE)
# A link says nothing of the trouble: that of a used-up quota leads to a page on rate limits.
_LINK = re.compile(r"https?://\S+")
_PARTS = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|d|h|m|s)", re.IGNORECASE)
_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds", "ms": "milliseconds"}
_TAIL = 4000  # characters of stderr that may hold the reason
_HELP = 16_000  # the same where a tool says what was wrong and then all its options


@cache  # parsed and compiled when a tool fails, which most commands never see
def _known() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("trouble.toml").read_text())


@cache
def kinds() -> dict[StepError, dict[str, Any]]:
    """Return what is known of each kind of failure."""
    return {StepError(name): kind for name, kind in _known()["kinds"].items()}


class Trouble(NamedTuple):
    """One kind of failure, the line that tells it, and for a limit when it is over."""

    error: StepError
    line: str = ""
    resume_at: datetime | None = None


def named(tool: Tool, spec: AgentSpec, heard: Heard, result: AgentResult) -> AgentResult:
    """Say why the tool did not finish, in its own words and with what to do."""
    events = sum(1 for _ in read_events(spec.stdout))
    words = heard.error or walk.tail(spec.stderr, _TAIL if events else _HELP).strip()
    found = classify(words, heard.status, datetime.now(UTC), is_start=not events)
    kind = kinds()[found.error]
    said = " ".join((heard.error or found.line or words).split())[:300] or result.message
    told, is_known = "", bool(versions.tested(tool, spec.config))
    if found.error == StepError.TOOL_MISMATCH and is_known:
        told = versions.told(tool, spec)
    elif found.error == StepError.AGENT_EXIT and not (result.error or heard.error):
        said = _never_done(events, versions.told(tool, spec))
    values = {"name": spec.name, "log_in": tool.log_in or "the tool", "versions": told}
    until = f", until {local(utc(found.resume_at))}" if found.resume_at else ""
    advice = (kind["advice"] if is_known else kind.get("untested", kind["advice"])).format(**values)
    return replace(
        result,
        error=found.error,
        message=f"agent {spec.name} ({tool.name}): {said}; {advice}{until}",
        may_retry=kind.get("passing", False),
        resume_at=found.resume_at,
    )


def refused(spec: AgentSpec, text: str, result: AgentResult) -> AgentResult:
    """Name an answer that is none because the model will not do what it is asked."""
    known = _known()["refusal"]
    if len(text) > known["longest"] or not re.search(known["words"], text, re.IGNORECASE):
        return result
    said = " ".join(text.split())
    message = f'agent {spec.name}: the model refused: "{said}"; word the task differently'
    return replace(result, error=StepError.REQUEST_REFUSED, message=message)


def classify(text: str, status: int | None, now: datetime, *, is_start: bool = True) -> Trouble:
    """Return what the tool's own words and an HTTP status amount to."""
    words = _LINK.sub("", text)
    for error, pattern, rule in _sentences():
        if (rule.get("is_start") and not is_start) or (rule.get("vague") and status):
            continue
        if found := pattern.search(words):
            return _trouble(error, found, text, now)
    if status is None and (found := _STATUS.search(words)):
        return _trouble(_by_status(int(found[1])), found, text, now)
    return _trouble(_by_status(status), None, text, now)


def _trouble(error: StepError, found: re.Match[str] | None, text: str, now: datetime) -> Trouble:
    line = ""
    if found:
        end = found.string.find("\n", found.end())
        begin = found.string.rfind("\n", 0, found.start() + 1) + 1
        line = found.string[begin : end if end >= 0 else None].strip()
    is_limit = error in (StepError.USAGE_LIMIT, StepError.RATE_LIMIT)
    return Trouble(error, line, reset_time(text, now) if is_limit else None)


def reset_time(text: str, now: datetime) -> datetime | None:
    """Read from a tool's words when its limit is over, in UTC."""
    for pattern, read in _times():
        if found := pattern.search(text):
            return read(found, now)
    return None


def _by_status(status: int | None) -> StepError:
    if status is None:
        return StepError.AGENT_EXIT
    if status >= 500:
        return StepError.SERVER_ERROR
    known = (error for error, kind in kinds().items() if status in kind.get("statuses", ()))
    return next(known, StepError.REQUEST_REFUSED)


def _never_done(events: int, told: str) -> str:
    """Name a tool that left as if all were well, but for the event that says so."""
    seen = f"after {plural(events, 'event')}, none of which says that it is done"
    return f"it ended with exit code 0 {seen if events else 'without any event on stdout'} ({told})"


def _epoch(found: re.Match[str], now: datetime) -> datetime | None:
    seconds = int(found[1]) / (1000 if len(found[1]) > 10 else 1)
    return datetime.fromtimestamp(seconds, UTC)


def _seconds(found: re.Match[str], now: datetime) -> datetime | None:
    return now + timedelta(seconds=int(found[1]))


def _duration(found: re.Match[str], now: datetime) -> datetime | None:
    parts = {_UNITS[unit.lower()]: float(value) for value, unit in _PARTS.findall(found[1])}
    return now + timedelta(**parts)


def _iso(found: re.Match[str], now: datetime) -> datetime | None:
    try:
        return datetime.fromisoformat(f"{found[1]}T{found[2]}+00:00")
    except ValueError:
        return None


def _date(found: re.Match[str], now: datetime) -> datetime | None:
    words = f"{found[1][:3].title()} {found[2]} {found[3]} {found[4].upper().replace(' ', '')}"
    try:
        local_ = datetime.strptime(words, "%b %d %Y %I:%M%p")
        return local_.replace(tzinfo=now.astimezone().tzinfo).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _day(found: re.Match[str], now: datetime) -> datetime | None:
    """Read a day without its year: the next one."""
    there = now.astimezone(_zone(found[6]))
    try:
        day = datetime.strptime(f"{found[1].title()} {found[2]} 2024", "%b %d %Y")
        then = _at(there.replace(day=1, month=day.month), found[3], found[4], found[5])
        then = then.replace(day=day.day)
        return (then if then > there else then.replace(year=there.year + 1)).astimezone(UTC)
    except ValueError:
        return None


def _clock(found: re.Match[str], now: datetime) -> datetime | None:
    """Read a time of day; what was cut to the minute means this one, and not that of tomorrow."""
    there = now.astimezone(_zone(found[4]))
    then = _at(there, found[1], found[2], found[3])
    if then <= there:
        is_now = there - then < timedelta(minutes=2)
        then = there + timedelta(minutes=1) if is_now else then + timedelta(days=1)
    return then.astimezone(UTC)


def _at(day: datetime, hour: str, minute: str | None, half: str) -> datetime:
    hours = int(hour) % 12 + (12 if half.lower() == "pm" else 0)
    return day.replace(hour=hours, minute=int(minute or 0), second=0, microsecond=0)


def _zone(name: str | None) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


# By what the table calls such a time.
_READERS = {it.__name__[1:]: it for it in (_epoch, _seconds, _duration, _iso, _date, _day, _clock)}


@cache
def _sentences() -> tuple[tuple[StepError, re.Pattern[str], dict[str, Any]], ...]:
    return tuple(
        (StepError(it["error"]), re.compile("|".join(it["words"]), re.I), it)
        for it in _known()["sentences"]
    )


@cache
def _times() -> list[tuple[re.Pattern[str], Callable[[re.Match[str], datetime], datetime | None]]]:
    known = _known()["times"].items()
    return [(re.compile(words, re.I), _READERS[kind]) for kind, words in known]
