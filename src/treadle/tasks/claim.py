"""Hold a task by a claim with a lease, move it, tie it to a run, and keep files to it."""

import os
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple

from treadle.errors import BlockedError, UsageError
from treadle.ids import HUMAN, TREADLE, acting_agent, is_run_id, local, utc
from treadle.store import letters as index
from treadle.store.runs import RunRow
from treadle.store.store import Reader, Store
from treadle.store.task_changes import ReservationRow
from treadle.store.tasks import TaskRow
from treadle.tasks import lanes, tries, waiting
from treadle.tasks.task import Also, Changed, Note, change_task, find_task
from treadle.tasks.tries import Rows, Trial

LEASE = timedelta(minutes=30)


class Holder(NamedTuple):
    """Who acts on a task, and by which claim; without one, whoever bears the name may act."""

    owner: str
    claim_id: str | None = None


def claim(
    store: Store, task_id: str, owner: str, now: datetime, lease: timedelta = LEASE
) -> TaskRow:
    """Take a task that nobody holds; of many who try at once, one gets it."""
    owner = acting_agent(owner)
    take = partial(taken, store, owner=owner, now=now, lease=lease)
    return change_task(store, task_id, take, Note(owner), now).after


def taken(
    store: Rows, task: TaskRow, owner: str, now: datetime, lease: timedelta = LEASE
) -> TaskRow:
    """Return a task that nobody holds as the owner's, or raise why it is not to be had."""
    if task.lane not in ("planned", *lanes.HELD):
        raise lanes.wrong_lane(task, "claimed")
    if is_held(task, now):
        raise lanes.held_by_other(task)
    check_dependencies(store, task, now)
    return given(task, "claimed", new_claim(owner, now), now, lease)


def release(store: Store, task_id: str, by: Holder, now: datetime) -> TaskRow:
    """Give a task back to be planned again."""
    by = acting(by)

    def free(task: TaskRow) -> TaskRow:
        if task.lane not in lanes.HELD:
            raise lanes.wrong_lane(task, "planned")
        check_holder(task, by, now)
        return freed(task, "planned")

    return change_task(store, task_id, free, Note(by.owner), now).after


def renew(
    store: Store, task_id: str, claim_id: str, now: datetime, lease: timedelta = LEASE
) -> bool:
    """Prolong a claim that has used half its lease; False when it is lost."""
    while True:
        task = store.task(task_id)
        if task is None or task.claim_id != claim_id:
            return False
        if task.lease_until and task.lease_until > utc(now + lease / 2):
            return True
        if store.swap_task(task, task._replace(lease_until=utc(now + lease))):
            return True


def renew_all(store: Store, owner: str, now: datetime) -> None:
    """Prolong all claims of an owner that shows signs of life; a run renews its own."""
    for task in due_leases(store, owner, now):
        renew(store, task.task_id, task.claim_id or "", now)


def due_leases(store: Reader, owner: str, now: datetime) -> list[TaskRow]:
    """Return the tasks of which an owner has used half the lease."""
    found = store.tasks_to_renew(owner, utc(now), utc(now + LEASE / 2))
    return [task for task in found if not is_run_id(task.claim_id or "")]


def is_held(task: TaskRow, now: datetime) -> bool:
    """Tell whether someone's lease on the task still runs."""
    return task.claim_id is not None and (task.lease_until or "") > utc(now)


def is_holder(task: TaskRow, by: Holder) -> bool:
    """Tell whether the task's claim is this one's; a claim id says more than a name."""
    if by.claim_id is not None:
        return by.claim_id == task.claim_id
    return task.claim_id is not None and by.owner == task.owner


def check_holder(task: TaskRow, by: Holder, now: datetime) -> None:
    """Refuse a lost claim, and anyone else while the holder's lease runs."""
    if is_holder(task, by):
        return
    if by.claim_id is not None:
        raise lanes.not_yours(task, by.owner)
    if is_held(task, now):
        raise lanes.held_by_other(task)


def check_dependencies(store: Rows, task: TaskRow, now: datetime, *, stacks: bool = False) -> None:
    """Refuse a task that waits for others; a run can build on what passed and has not landed."""
    needed = waiting.unmet(store, task, stacks=stacks)
    if needed:
        raise lanes.waits_for_others(task, needed, waiting.ways(store, task, needed, now))


def new_claim(owner: str, now: datetime) -> Holder:
    """Return a claim that no earlier one of this owner equals, even if the clock went back."""
    return Holder(owner, f"{owner}-{now.astimezone(UTC):%Y%m%d%H%M%S%f}-{os.urandom(3).hex()}")


def given(
    task: TaskRow, lane: lanes.Lane, to: Holder, now: datetime, lease: timedelta = LEASE
) -> TaskRow:
    """Return the task in a held lane, with a fresh lease."""
    until = utc(now + lease)
    return task._replace(lane=lane, owner=to.owner, claim_id=to.claim_id, lease_until=until)


def freed(task: TaskRow, lane: str) -> TaskRow:
    """Return the task without a claim; who worked on it stays known unless it is planned anew."""
    owner = None if lane == "planned" else task.owner
    return task._replace(lane=lane, owner=owner, claim_id=None, lease_until=None)


def acting(by: Holder) -> Holder:
    """Return the holder with its name as addresses are written."""
    return by._replace(owner=acting_agent(by.owner))


def move_task(
    store: Store,
    task_id: str,
    to: lanes.Lane,
    by: Holder,
    now: datetime,
    reason: str | None = None,
    force: bool = False,
) -> Changed:
    """Move a task; `force` skips the rules but not the reason, and is recorded."""
    if force and not reason:
        raise UsageError(f"--force on {task_id} needs --reason to say why")
    by = acting(by)
    move = partial(moved, store, to=to, by=by, now=now, reason=reason, force=force)
    return change_task(store, task_id, move, Note(by.owner, reason, force), now)


def moved(
    store: Rows,
    task: TaskRow,
    to: lanes.Lane,
    by: Holder,
    now: datetime,
    reason: str | None,
    force: bool = False,
) -> TaskRow:
    """Return a task in another lane, or raise why it may not go there."""
    if task.lane in lanes.FINAL or (not force and to not in lanes.legal(task.lane)):
        raise lanes.wrong_lane(task, to)
    if lanes.needs_reason(task.lane, to) and not reason:
        raise UsageError(
            f"{task.task_id} is {task.lane}; sending it back to {to} needs --reason to say why"
        )
    if not force:
        check_holder(task, by, now)
        # Whatever takes a task from planned into someone's hands is a claim.
        if task.lane == "planned" and to in lanes.HELD:
            check_dependencies(store, task, now)
    if to not in lanes.HELD:
        return freed(task, to)
    keeper = Holder(by.owner, task.claim_id) if is_holder(task, by) else new_claim(by.owner, now)
    return given(task, to, keeper, now)


def finish_task(store: Store, task_id: str, by: Holder, now: datetime) -> Changed:
    """Finish a task: a plain one walks its remaining lanes, a mission's must be approved."""
    by = acting(by)

    def finish(task: TaskRow) -> TaskRow:
        if task.lane == "done":
            return task
        if task.lane == "canceled":
            raise lanes.wrong_lane(task, "done")
        if task.mission and task.lane != "approved":
            raise lanes.not_approved(task)
        # Whoever asked for the work may say that it is done; the tests have to agree.
        if index.asker(store, task_id) != by.owner:
            check_holder(task, by, now)
        if task.lane == "planned":
            check_dependencies(store, task, now)
        return freed(task, "done")._replace(owner=task.owner or by.owner)

    return change_task(store, task_id, finish, Note(by.owner), now)


_STARTS: tuple[lanes.Lane, ...] = ("planned", "blocked", *lanes.HELD)


def begin_run(
    store: Store,
    task_id: str,
    run_id: str,
    now: datetime,
    *,
    by: str = HUMAN,
    trial: Trial | None = None,
    queues: Also | None = None,
) -> TaskRow:
    """Claim a task for a run and put it in progress; the run's id is the claim's id.

    One of several shares the claim: it stays with the first as long as that works. What `queues`
    a run for other machines is written with the claim, or neither is; such a run cannot build on
    work that has not landed.
    """
    claim = Holder(acting_agent(by), run_id)

    def start(task: TaskRow) -> TaskRow:
        others = tries.of_set(store, trial.set, task_id) if trial else []
        if any(it.run_id == task.claim_id and it.status == "running" for it in others):
            return task
        is_theirs = task.lane in ("approved", "done") and any(
            it.status == "passed" for it in others
        )
        if task.lane not in _STARTS and not is_theirs:
            passed = waiting.passed_run(store, task) if task.lane == "approved" else None
            if passed and not task.mission:
                raise lanes.passed_already(task, passed.run_id)
            raise lanes.wrong_lane(task, "in_progress")
        if task.claim_id != run_id:
            check_free(store, task, claim.owner, now)
            check_dependencies(store, task, now, stacks=queues is None)
        return given(task, "in_progress", claim, now)

    note = Note(claim.owner, f"run {run_id}")
    return change_task(store, task_id, start, note, now, queues).after


def finish_run(store: Store, row: RunRow, now: datetime) -> TaskRow:
    """Move the lane as the run ended, if the task is still the run's; return the task as it is."""

    def end(task: TaskRow) -> TaskRow:
        if task.claim_id != row.run_id:
            return task
        at_work = [it.run_id for it in tries.beside(store, row) if it.status == "running"]
        if at_work:
            return task._replace(claim_id=at_work[0])
        return freed(task, _lane_after(store, task, tries.chosen(store, row) or row))

    note = Note(TREADLE, f"run {row.run_id} {row.status}")
    return change_task(store, row.task_id or "", end, note, now).after


def follow_landing(store: Store, row: RunRow, what: str, now: datetime) -> TaskRow | None:
    """Move the lane of a plain task whose passed run is landed or undone."""
    old, new = ("approved", "done") if what == "land" else ("done", "approved")

    def follow(task: TaskRow) -> TaskRow:
        runs = [it for it in store.task_runs(task.task_id) if it.status == "passed"][-1:]
        last = [it.run_id for run in runs for it in (run, *tries.beside(store, run))]
        is_last = not task.mission and row.run_id in last
        return freed(task, new) if is_last and task.lane == old else task

    if row.task_id is None or store.task(row.task_id) is None:
        return None
    note = Note(TREADLE, f"run {row.run_id} {'landed' if what == 'land' else 'undone'}")
    return change_task(store, row.task_id, follow, note, now).after


def take_back(store: Store, task_id: str, run_id: str, now: datetime) -> TaskRow:
    """Give a plain task back to the run that had passed and is to be checked again."""

    def take(task: TaskRow) -> TaskRow:
        if task.mission or task.lane not in ("approved", "done"):
            return task
        return given(task, "in_progress", Holder(task.owner or HUMAN, run_id), now)

    return change_task(store, task_id, take, Note(TREADLE, f"run {run_id} rebased"), now).after


def lose_run(store: Store, row: RunRow, now: datetime) -> None:
    """Plan a task anew whose passed run was removed before it landed."""

    def plan(task: TaskRow) -> TaskRow:
        is_lost = task.lane == "approved" and not waiting.passed_run(store, task)
        return freed(task, "planned") if is_lost and not task.mission else task

    if row.status == "passed" and row.task_id and store.task(row.task_id):
        note = Note(TREADLE, f"run {row.run_id} was removed before it landed")
        change_task(store, row.task_id, plan, note, now)


def reconcile_runs(store: Store, now: datetime) -> list[TaskRow]:
    """Move the tasks whose run ended, or never began, before it could tell them.

    Only for the process that holds the run lock: others' runs may be just about to begin.
    """
    tasks = [task for task in store.tasks("in_progress") if is_run_id(task.claim_id or "")]
    return [moved for task in tasks if (moved := _catch_up(store, task, now)) != task]


def _catch_up(store: Store, task: TaskRow, now: datetime) -> TaskRow:
    run_id = task.claim_id or ""
    run = store.run(run_id)
    if run is None:
        before = store.task_runs(task.task_id)[-1:]
        if before and tries.trial_of(store, before[0].run_id):  # the next of several did not begin
            given_back = task._replace(claim_id=before[0].run_id)
            store.swap_task(task, given_back)
            return finish_run(store, before[0], now)
        return release(store, task.task_id, Holder(TREADLE, run_id), now)
    return task if _is_under_way(store, run) else finish_run(store, run, now)


def _lane_after(store: Reader, task: TaskRow, row: RunRow) -> str:
    if row.status != "passed":
        return "blocked" if row.status == "failed" else task.lane
    if task.mission:
        return "for_review"
    is_open = row.head_commit != row.base_commit and not tries.is_landed(store, row)
    return "approved" if is_open else "done"


def check_free(store: Reader, task: TaskRow, owner: str, now: datetime) -> None:
    """Refuse a task that another run works or waits for, or that someone else has."""
    claim = task.claim_id or ""
    if is_run_id(claim):
        run = store.run(claim)
        if run and _is_under_way(store, run) and (run.status != "running" or is_held(task, now)):
            raise lanes.held_by_run(task)
    elif is_held(task, now) and task.owner != owner:
        raise lanes.held_by_other(task)


def _is_under_way(store: Reader, run: RunRow) -> bool:
    """Tell whether a run is driven, or waits for a worker of the fleet, however long."""
    return run.status == "running" or tries.is_queued(store, run)


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
        for other in store.reservations(utc(now)):
            if other.pattern == row.pattern and other.owner != row.owner:
                raise reserved(row.pattern, other)
    store.reserve_files(rows)
    return rows


def reserved(path: str, by: ReservationRow) -> BlockedError:
    """Somebody keeps it to a task."""
    return BlockedError(
        f"{path} is reserved by {by.owner} for {by.task_id} until {local(by.until)}",
        code="reserved",
        fix=[f"treadle task show {by.task_id}"],
        details={"task_id": by.task_id, "owner": by.owner, "pattern": by.pattern},
    )


def give_back(store: Store, task_id: str, by: Holder, now: datetime) -> int:
    """Let all of a task's reservations go; return how many there were."""
    check_holder(find_task(store, task_id), acting(by), now)
    return store.unreserve_files(task_id)


def of_others(
    rows: Iterable[ReservationRow], task_id: str | None, owner: str | None
) -> list[ReservationRow]:
    """Return what somebody else keeps to another task."""
    return [row for row in rows if row.task_id != task_id and row.owner != owner]


def conflicts(
    rows: Iterable[ReservationRow], paths: Sequence[str]
) -> list[tuple[str, ReservationRow]]:
    """Return the paths that these reservations match."""
    matchers = [(row, _regex(row.pattern)) for row in rows]
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
