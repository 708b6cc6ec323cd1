"""Keep files to one task for a while, so that others' patches stay off them."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from treadle.errors import UsageError
from treadle.ids import utc
from treadle.store.store import Reader, Store
from treadle.store.tasks import ReservationRow
from treadle.tasks import lanes
from treadle.tasks.claim import Holder, acting, check_holder
from treadle.tasks.task import find_task

MAX_MINUTES = 7 * 24 * 60


def reserve(
    store: Store,
    task_id: str,
    patterns: Sequence[str],
    by: Holder,
    now: datetime,
    minutes: float = 60.0,
) -> list[ReservationRow]:
    """Reserve what the patterns match; the task must be yours, or nobody's."""
    by, until = acting(by), utc(now + timedelta(minutes=minutes))
    check_holder(find_task(store, task_id), by, now)
    rows = [ReservationRow(task_id, by.owner, _checked(item), until) for item in patterns]
    for row in rows:
        for other in live(store, now):
            if other.pattern == row.pattern and other.owner != row.owner:
                raise lanes.reserved(row.pattern, other)
    store.reserve_files(rows)
    return rows


def give_back(store: Store, task_id: str, by: Holder, now: datetime) -> int:
    """Let all of a task's reservations go; return how many there were."""
    check_holder(find_task(store, task_id), acting(by), now)
    return store.unreserve_files(task_id)


def live(store: Reader, now: datetime) -> list[ReservationRow]:
    """Return the reservations that still hold."""
    return store.reservations(utc(now))


def live_of(store: Reader, task_id: str, now: datetime) -> list[ReservationRow]:
    """Return a task's reservations that still hold."""
    return [row for row in live(store, now) if row.task_id == task_id]


def conflicts(
    rows: Iterable[ReservationRow], paths: Sequence[str], task_id: str | None, owner: str | None
) -> list[tuple[str, ReservationRow]]:
    """Return the paths that somebody else keeps to another task."""
    others = [row for row in rows if row.task_id != task_id and row.owner != owner]
    matchers = [(row, _regex(row.pattern)) for row in others]
    return [(path, row) for path in paths for row, match in matchers if match.fullmatch(path)]


def _checked(pattern: str) -> str:
    cleaned = pattern.strip().removeprefix("./").rstrip("/")
    if not cleaned or cleaned.startswith("/") or ".." in cleaned.split("/"):
        raise UsageError(
            f"{pattern!r} cannot be reserved; give a path or pattern inside the repository,"
            " such as src/auth/**"
        )
    return cleaned


def _regex(pattern: str) -> re.Pattern[str]:
    """Read `*` and `?` within a name, `**` across folders; a folder stands for what is in it."""
    found = ""
    for part in re.split(r"(\*\*/|\*\*|\*|\?)", pattern):
        found += _PARTS.get(part) or re.escape(part)
    return re.compile(f"{found}(/.*)?", re.DOTALL)


_PARTS = {"**/": "(.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
