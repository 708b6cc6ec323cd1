"""Make and check the identifiers that reach the file system."""

import re
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta

from treadle.errors import UsageError

HUMAN = "human"
TREADLE = "treadle"
EVERYBODY = "all"
OWN_PREFIX = "treadle/"  # of branches that only treadle moves
# Compiled when they are asked: most commands ask none.
_RUN_ID = r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}"
# A mission's task bears its mission's name, which may begin with a number: 001-log-in.WP01.
_TASK_ID = r"[A-Za-z][A-Za-z0-9]*([._-][A-Za-z0-9]+)*|[A-Za-z0-9]+([._-][A-Za-z0-9]+)*\.WP[0-9]{2,}"
_SCHEMA = r"(?!pg_)[a-z][a-z0-9_]{0,62}"
STORES = ("postgresql://", "postgres://", "sqlite:")
FLEET_SCHEMA = "treadle_fleet"  # where a shared database lists workers and jobs
_AGENT_ID = r"[a-z][a-z0-9]*([._-][a-z0-9]+)*"
_CRITERION_ID = r"[A-Za-z][A-Za-z0-9]*([._-][A-Za-z0-9]+)*"
_STAMP = "%Y%m%d-%H%M%S"
_BASE32 = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# What is secret in addresses that stand in a text: a group, if there is one. A token may stand
# for the user; a password may hold @ and /, as people write it; digits before a / are a port.
IN_ADDRESS = (
    r"://(?:([A-Za-z0-9_.~%+-]{16,500})@"
    r"""|[^\s/:"'<>]{0,200}:(?![0-9]{1,5}(?:[/?#\s"'<>,)]|\Z))"""
    r"""(?:([^\s"'<>]{1,500})@|[^\s"'<>]{1,250}))"""
)
_ADDRESS = r"(?s)\A[\w+.-]+://[^/:]*:(.*)@"  # one and nothing else
_PASSWORD = r"""(?i)password=('(?:[^'\\]|\\.)*'|[^&\s]*)"""
_QUERY = r"""(?i)[?&;](?:[\w-]*(?:signature|credential|token|secret|key|keyid)|sig)=([^&\s"'<>]+)"""


def new_run_id(now: datetime, last: str | None, rand: int) -> str:
    """Return a run id that sorts after `last`, whatever the clock did.

    Inside one second the six hex digits count upwards in random strides, so that
    thousands of runs a second stay in order without borrowing from the future.
    """
    stamp, tail = now.astimezone(UTC).strftime(_STAMP), rand % 0x800000
    if last and stamp <= last[:15]:
        stamp, tail = last[:15], int(last[16:], 16) + 1 + rand % 0x1000
    if tail > 0xFFFFFF:
        moment = datetime.strptime(stamp, _STAMP) + timedelta(seconds=1)
        stamp, tail = moment.strftime(_STAMP), rand % 0x800000
    return f"{stamp}-{tail:06x}"


def new_mission_id(now: datetime, rand: int) -> str:
    """Return a ULID, as spec-kitty names missions: the time, then eighty random bits."""
    value = int(now.timestamp() * 1000) << 80 | rand % (1 << 80)
    return "".join(_BASE32[value >> shift & 31] for shift in range(125, -1, -5))


def short_run(run_id: str) -> str:
    """Return the end of a run's id, which is enough to name it."""
    return run_id[-6:]


def is_run_id(text: str) -> bool:
    """Tell whether `text` is shaped like a run id."""
    return re.fullmatch(_RUN_ID, text) is not None


def without_runs(text: str) -> str:
    """Return a text as it is whichever runs it names."""
    return re.sub(_RUN_ID, "", text)


def is_task_id(text: str) -> bool:
    """Tell whether `text` may name a task (and so a file)."""
    return len(text) <= 64 and re.fullmatch(_TASK_ID, text) is not None


def is_criterion_id(text: str) -> bool:
    """Tell whether `text` may name a criterion (and so a log file)."""
    return len(text) <= 64 and re.fullmatch(_CRITERION_ID, text) is not None


def is_schema(text: str) -> bool:
    """Tell whether `text` may name a project's part of a database."""
    return re.fullmatch(_SCHEMA, text) is not None


def mask(text: str) -> str:
    """Hide what is secret in an address, and in what a program says about one."""
    for pattern in (_ADDRESS, IN_ADDRESS, _PASSWORD, _QUERY):
        text = re.sub(pattern, _hidden, text)
    return text


def _hidden(found: re.Match[str]) -> str:
    if found.lastindex is None:
        return found[0]
    start, end = (at - found.start() for at in found.span(found.lastindex))
    return f"{found[0][:start]}***{found[0][end:]}"


def agent_name(text: str) -> str:
    """Return whom a name stands for, as addresses are written; `rooster` is the human."""
    name = text.strip().lower()
    if not is_agent_id(name):
        shown = repr(text[:64]) + ("…" if len(text) > 64 else "")
        raise UsageError(
            f"{shown} is not an agent's name: begin with a letter, then letters and digits "
            f"joined by . _ -, at most 64",
            code="agent_id_invalid",
        )
    return HUMAN if name == "rooster" else name


def acting_agent(text: str) -> str:
    """Return who writes, claims or works, which nobody does as `all`."""
    name = agent_name(text)
    if name == EVERYBODY:
        raise UsageError(
            "'all' is everybody and cannot write or claim; give an agent's id",
            code="agent_id_invalid",
        )
    return name


def is_agent_id(text: str) -> bool:
    """Tell whether `text` may name an agent: words of small letters and digits, joined by . _ -"""
    return len(text) <= 64 and re.fullmatch(_AGENT_ID, text) is not None


def utc(now: datetime) -> str:
    """Write a moment as RFC 3339 in UTC, to the microsecond, so that text order is time order."""
    return now.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def day_begin(now: datetime) -> datetime:
    """Return when the user's day began: at midnight in their own zone."""
    return now.astimezone().replace(hour=0, minute=0, second=0, microsecond=0, fold=0)


def local(stamp: str, shape: str = "%Y-%m-%d %H:%M:%S %Z") -> str:
    """Write a stored moment for a person: in their own zone, which is named."""
    try:
        return datetime.fromisoformat(stamp).astimezone().strftime(shape)
    except ValueError:  # whoever wrote it is not treadle
        return stamp


def age(stamp: str, now: datetime) -> str:
    """Say how long ago a moment was: 40s, 12m, 5h or 3d."""
    seconds = max((now - datetime.fromisoformat(stamp)).total_seconds(), 0)
    unit, size = next(
        (it for it in (("d", 86_400), ("h", 3600), ("m", 60)) if seconds >= it[1]), ("s", 1)
    )
    return f"{int(seconds // size)}{unit}"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to `word`, or None when nothing is close."""
    best = min(known, key=lambda name: _distance(word.lower(), name.lower()), default=None)
    if best is None or _distance(word.lower(), best.lower()) > max(2, len(word) // 3):
        return None
    return best


def hint(word: str, known: Collection[str], *, or_all: bool = False) -> str:
    """Return what ends a sentence about an unknown name: the nearest one, or all there are."""
    if close := nearest(word, known):
        return f"; did you mean {close}?"
    return f"; known: {', '.join(known)}" if or_all else ""


def _distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[len(b)]
