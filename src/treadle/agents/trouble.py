"""Tell apart why a tool did not finish, and say what to do about it."""

import re
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from treadle.contract import StepError

_KINDS = tomllib.loads((resources.files("treadle.agents") / "trouble.toml").read_text())
_PATTERNS = tuple(
    (StepError(name), re.compile("|".join(kind["words"]), re.IGNORECASE))
    for name, kind in _KINDS.items()
    if "words" in kind
)
ADVICE: dict[StepError, str] = {StepError(name): kind["advice"] for name, kind in _KINDS.items()}
# What may pass by itself: another try can help.
PASSING = frozenset(StepError(name) for name, kind in _KINDS.items() if kind.get("passing"))
_STATUS = re.compile(r"(?:status|code|error|http)\D{0,20}\b([45]\d\d)\b", re.IGNORECASE)
_BY_STATUS = {
    401: StepError.AUTH_FAILED,
    403: StepError.AUTH_FAILED,
    408: StepError.NETWORK,
    413: StepError.CONTEXT_TOO_LONG,
    429: StepError.RATE_LIMIT,
}
# Words that also stand in answers with a telling status.
_VAGUE = frozenset({StepError.NETWORK, StepError.SERVER_ERROR})
_PARTS = re.compile(r"(\d+)\s*(d|h|m|s)", re.IGNORECASE)
_SPAN = r"((?:\d{1,4}\s*(?:days?|hours?|minutes?|seconds?|mins?|secs?|[dhms])[,\s]*(?:and\s+)?)+)"


class Trouble(NamedTuple):
    """One kind of failure, and for a usage limit when it is over."""

    error: StepError
    resume_at: datetime | None = None


def classify(text: str, status: int | None, now: datetime) -> Trouble:
    """Return what the tool's own words and an HTTP status amount to."""
    for error, pattern in _PATTERNS:
        if pattern.search(text):
            if error in _VAGUE and status:
                break
            return Trouble(error, reset_time(text, now) if error == "usage_limit" else None)
    if status is None and (found := _STATUS.search(text)):
        status = int(found[1])
    return Trouble(_by_status(status))


def reset_time(text: str, now: datetime) -> datetime | None:
    """Read from a tool's words when its limit is over, in UTC."""
    for pattern, read in _TIMES:
        if found := pattern.search(text):
            return read(found, now)
    return None


def _by_status(status: int | None) -> StepError:
    if status is None:
        return StepError.AGENT_EXIT
    if status >= 500:
        return StepError.SERVER_ERROR
    return _BY_STATUS.get(status, StepError.REQUEST_REFUSED)


def _epoch(found: re.Match[str], now: datetime) -> datetime | None:
    seconds = int(found[1]) / (1000 if len(found[1]) > 10 else 1)
    return datetime.fromtimestamp(seconds, UTC)


def _seconds(found: re.Match[str], now: datetime) -> datetime | None:
    return now + timedelta(seconds=int(found[1]))


def _duration(found: re.Match[str], now: datetime) -> datetime | None:
    parts = {unit[0].lower(): int(value) for value, unit in _PARTS.findall(found[1])}
    return now + timedelta(
        days=parts.get("d", 0),
        hours=parts.get("h", 0),
        minutes=parts.get("m", 0),
        seconds=parts.get("s", 0),
    )


def _date(found: re.Match[str], now: datetime) -> datetime | None:
    words = f"{found[1][:3].title()} {found[2]} {found[3]} {found[4].upper().replace(' ', '')}"
    try:
        local = datetime.strptime(words, "%b %d %Y %I:%M%p")
        return local.replace(tzinfo=now.astimezone().tzinfo).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _clock(found: re.Match[str], now: datetime) -> datetime | None:
    hour = int(found[1]) % 12 + (12 if found[3].lower() == "pm" else 0)
    there = now.astimezone(_zone(found[4]))
    then = there.replace(hour=hour, minute=int(found[2] or 0), second=0, microsecond=0)
    return (then if then > there else then + timedelta(days=1)).astimezone(UTC)


_TIMES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], datetime], datetime | None]], ...] = (
    (re.compile(r'(?:\||resets_at"?:\s*)(\d{10}|\d{13})\b'), _epoch),
    (re.compile(r'(?:resets_in_seconds"?:\s*|retry.after"?:?\s*)(\d{1,8})\b', re.I), _seconds),
    (re.compile(rf"(?:again|resets?) (?:in|after) {_SPAN}", re.I), _duration),
    (
        re.compile(
            r"at ([A-Z][a-z]{2})[a-z]* (\d{1,2})[a-z]*,? (\d{4}),? (\d{1,2}:\d\d ?[AP]M)", re.I
        ),
        _date,
    ),
    (
        re.compile(
            r"(?:again|resets?) (?:at )?(\d{1,2})(?::([0-5]\d))? ?([ap]m)(?: ?\(([\w/+-]+)\))?",
            re.I,
        ),
        _clock,
    ),
)


def _zone(name: str | None) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
