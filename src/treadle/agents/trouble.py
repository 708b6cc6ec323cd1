"""Tell apart why a tool did not finish, and say what to do about it."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from treadle.contract.event import StepError


class Trouble(NamedTuple):
    """One kind of failure, and for a usage limit when it is over."""

    error: StepError
    resume_at: datetime | None = None


# The first that matches counts: a usage limit also comes with status 429, and so on.
_WORDS: tuple[tuple[StepError, str], ...] = (
    (
        StepError.USAGE_LIMIT,
        r"usage[ _]limit|limit reached|hit your .{0,30}limit|quota will reset|insufficient_quota"
        r"|exhausted your (daily )?(quota|capacity)|exceeded your current quota"
        r"|credit balance is too low|out of credits|premium request",
    ),
    (
        StepError.CONTEXT_TOO_LONG,
        r"context[ _](length|window)|prompt is too long|input_too_large|input is too long"
        r"|maximum context|exceeds the maximum number of tokens|too many tokens in the prompt",
    ),
    (
        StepError.MODEL_UNKNOWN,
        r"model[_ ]not[_ ]found|unknown model|model .{0,80}(not found|does not exist|not supported"
        r"|is not available)|no such model|issue with the selected model|invalid model",
    ),
    (
        StepError.REQUEST_REFUSED,
        r"content[_ ](policy|filter)|\brefus(al|ed by)|safety (settings|filter|policy)"
        r"|prohibited_content|usage polic|\bviolat\w+ .{0,40}polic|blocked by",
    ),
    (
        StepError.AUTH_FAILED,
        r"unauthori[sz]ed|invalid (x-)?api[- _]?key|incorrect api key|api key not valid|authenticat"
        r"|not logged in|please (run|log ?in)|log in again|/login|token (has )?expired"
        r"|invalid auth method|missing (environment variable|.{0,20}api key)|permission_denied",
    ),
    (
        StepError.RATE_LIMIT,
        r"rate[ _-]?limit|too many requests|resource_exhausted|throttl|increase your limits",
    ),
    (
        StepError.NETWORK,
        r"econnrefused|enotfound|econnreset|etimedout|eai_again"
        r"|connection (refused|reset|error|closed)"
        r"|unable to connect|network|dns|socket hang up|fetch failed|error sending request"
        r"|stream (closed|disconnected)|timed? ?out|getaddrinfo|tls|certificate",
    ),
    (
        StepError.SERVER_ERROR,
        r"internal server error|overloaded|bad gateway|service unavailable|server_error"
        r"|high demand",
    ),
)
_PATTERNS = tuple((error, re.compile(words, re.IGNORECASE)) for error, words in _WORDS)
_STATUS = re.compile(r"(?:status|code|error|http)\D{0,20}\b([45]\d\d)\b", re.IGNORECASE)
_BY_STATUS = {
    401: StepError.AUTH_FAILED,
    403: StepError.AUTH_FAILED,
    408: StepError.NETWORK,
    413: StepError.CONTEXT_TOO_LONG,
    429: StepError.RATE_LIMIT,
}

ADVICE = {
    StepError.USAGE_LIMIT: "the plan's usage limit is reached",
    StepError.RATE_LIMIT: "the service asks for fewer requests; try later or raise retry_wait",
    StepError.AUTH_FAILED: "log in with {log_in}, or put its API key in the environment",
    StepError.MODEL_UNKNOWN: "set agents.{name}.model to a model this login can use",
    StepError.CONTEXT_TOO_LONG: "split the task, or shorten the spec and the guidance files",
    StepError.NETWORK: "the service cannot be reached; check the network and proxy settings",
    StepError.SERVER_ERROR: "the service has a problem of its own; try later",
    StepError.REQUEST_REFUSED: "the service refused the request; word the task differently",
    StepError.AGENT_EXIT: "the tool ended without an answer; see logs/stderr.txt",
}

# What may pass by itself: another try can help.
PASSING = frozenset(
    {StepError.RATE_LIMIT, StepError.NETWORK, StepError.SERVER_ERROR, StepError.AGENT_EXIT}
)


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


# Words that also stand in answers with a telling status.
_VAGUE = frozenset({StepError.NETWORK, StepError.SERVER_ERROR})


def _by_status(status: int | None) -> StepError:
    if status is None:
        return StepError.AGENT_EXIT
    if status >= 500:
        return StepError.SERVER_ERROR
    return _BY_STATUS.get(status, StepError.REQUEST_REFUSED)


def reset_time(text: str, now: datetime) -> datetime | None:
    """Read from a tool's words when its limit is over, in UTC."""
    for pattern, read in _TIMES:
        if found := pattern.search(text):
            return read(found, now)
    return None


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


def _zone(name: str | None) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


_PARTS = re.compile(r"(\d+)\s*(d|h|m|s)", re.IGNORECASE)
_SPAN = r"((?:\d{1,4}\s*(?:days?|hours?|minutes?|seconds?|mins?|secs?|[dhms])[,\s]*(?:and\s+)?)+)"
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
