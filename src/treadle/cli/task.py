"""`treadle task`: add, list, show, link, claim, release, move, finish and reserve for tasks."""

import os
from argparse import Namespace
from collections.abc import Callable
from datetime import datetime

from treadle.cli import context, output
from treadle.errors import UsageError
from treadle.ids import HUMAN, acting_agent, utc
from treadle.mail import claim as letters
from treadle.mail import effect
from treadle.missions import mission
from treadle.project import Place, refuse_inside_run
from treadle.store import address
from treadle.store.store import Reader, Store
from treadle.store.tasks import TaskRow
from treadle.tasks import claim, files, lanes, task
from treadle.tasks.claim import Holder
from treadle.tasks.task import Changed, find_task
from treadle.text import plural

Change = Callable[[Store, Namespace, datetime], int]


def _find() -> Place:
    """Find the project; when its store is lost, take over the tasks that their files tell of."""
    found = context.find_project()
    if found.layout.mail.tasks.is_dir() and not address.find(found.layout).exists():
        with Store.open(found.layout) as store:
            output.warn(*files.take_over_all(store, found.layout.mail, store.now()))
    return found


def list_tasks(args: Namespace) -> int:
    with Reader.open(_find().layout) as store:
        if args.ready:
            rows = store.ready_tasks(utc(store.now()))
        else:
            rows = store.tasks(lanes.parse(args.lane) if args.lane else None)
    table = [(row.task_id, row.lane, row.owner, row.goal) for row in rows]
    nothing = 'no tasks; add one with: treadle task add "GOAL" --verify "AC1=COMMAND"'
    heads = ["task", "lane", "owner", "goal"]
    return output.table(args.json, task.list_document(rows), heads, table, nothing)


def show_task(args: Namespace) -> int:
    # The file of a mission's task may have to be read first.
    if mission.is_mission_task(args.task, args.mission):
        return _changing()(_print)(args)
    with Reader.open(_find().layout) as store:
        return _print(store, args, store.now())


def _print(store: Reader, args: Namespace, now: datetime) -> int:
    row = find_task(store, args.task)
    kept = [it for it in store.reservations(utc(now)) if it.task_id == args.task]
    return output.say(
        args.json,
        task.whole_document(store, row, now),
        f"{row.task_id}  {row.lane}  {row.owner or 'nobody'}",
        row.goal,
        *(f"  {it.id} {it.text}{f'  $ {it.verify}' if it.verify else ''}" for it in row.criteria),
        *(f"  reserves {it.pattern} for {it.owner} until {it.until}" for it in kept),
        *(f"  waits for {other.task_id} ({other.lane})" for other in store.dependencies(args.task)),
        *(f"  run {past.run_id} {past.status}" for past in store.task_runs(args.task)),
    )


def _changing(*, moves: bool = False) -> Callable[[Change], Callable[[Namespace], int]]:
    """Make a command of a change; a mission's task moves only in a clean work tree."""

    def decorate(change_task: Change) -> Callable[[Namespace], int]:
        return lambda args: _change(args, change_task, moves)

    return decorate


def _change(args: Namespace, change_task: Change, moves: bool) -> int:
    found = _find()
    refuse_inside_run(os.environ)
    args.lease = found.lease
    with Store.open(found.layout) as store:
        now = store.now()
        if "task" in args:
            output.warn(*files.take_over(store, found.layout.mail, args.task, now))
            args.task = mission.resolve_task(found.layout, store, args.task, args.mission, now)
        if moves:
            mission.require_clean_tree(found.layout, store, args.task)
        code = change_task(store, args, now)
        if "who" in args:
            claim.renew_all(store, _owner(args), now)
    return code


@_changing()
def add_task(store: Store, args: Namespace, now: datetime) -> int:
    asked = task.criteria_from_flags(args.goal, args.ac, args.verify)
    if args.id is not None:
        task.check_id(args.id)
    new = TaskRow(args.id or "", args.goal, criteria=asked)
    for other in args.depends_on:
        find_task(store, other)
    row = task.add(store, new, now)
    task.link(store, row.task_id, args.depends_on)
    said = f"added {row.task_id}; run it: treadle run {row.task_id}"
    return output.say(args.json, {"task_id": row.task_id}, said)


@_changing()
def link_task(store: Store, args: Namespace, now: datetime) -> int:
    tie = task.unlink if args.remove else task.link
    tie(store, args.task, args.depends_on)
    verb = "no longer waits" if args.remove else "waits"
    waits_for = [row.task_id for row in store.dependencies(args.task)]
    told = {"task_id": args.task, "depends_on": waits_for}
    return output.say(args.json, told, f"{args.task} {verb} for {', '.join(args.depends_on)}")


@_changing(moves=True)
def claim_task(store: Store, args: Namespace, now: datetime) -> int:
    # A mission's task is claimed because `next` said so, and lent as `next` lends it.
    lease = args.lease if mission.is_mission_task(args.task, None) else claim.LEASE
    row = claim.claim(store, args.task, _owner(args), now, lease)
    told = task.brief_document(row) | {"claim_id": row.claim_id}
    return output.say(args.json, told, f"{row.task_id} is {row.owner}'s until {row.lease_until}")


@_changing()
def release_task(store: Store, args: Namespace, now: datetime) -> int:
    row = claim.release(store, args.task, _holder(args), now)
    return output.say(args.json, task.brief_document(row), f"{row.task_id} is planned again")


@_changing(moves=True)
def move_task(store: Store, args: Namespace, now: datetime) -> int:
    lane = lanes.parse(args.to)
    found = claim.move_task(store, args.task, lane, _holder(args), now, args.reason, args.force)
    return _tell_move(store, args, found)


@_changing(moves=True)
def finish_task(store: Store, args: Namespace, now: datetime) -> int:
    return _tell_move(store, args, claim.finish_task(store, args.task, _holder(args), now))


def _tell_move(store: Store, args: Namespace, found: Changed) -> int:
    before, after = found.before, found.after
    if after.lane == "done":
        effect.refresh(store, store.mail, store.now())
        letters.archive_task(store, store.mail, after.task_id)
    told = {"task_id": after.task_id, "from_lane": before.lane, "to_lane": after.lane}
    return output.say(args.json, told, f"{after.task_id}: {before.lane} → {after.lane}")


@_changing()
def reserve_files(store: Store, args: Namespace, now: datetime) -> int:
    if args.release:
        count = claim.give_back(store, args.task, _holder(args), now)
        said = f"{args.task}: released {plural(count, 'reservation')}"
        return output.say(args.json, {"task_id": args.task, "released": count}, said)
    if not args.patterns or not 0 < args.minutes <= claim.MAX_MINUTES:
        raise UsageError(
            f"say which files, and for how many minutes (at most {claim.MAX_MINUTES})",
            fix=[f"treadle task reserve {args.task} 'src/auth/**' --minutes 60"],
        )
    rows = claim.reserve(store, args.task, args.patterns, _holder(args), now, args.minutes)
    names = ", ".join(row.pattern for row in rows)
    told = {"task_id": args.task, "reservations": [row._asdict() for row in rows]}
    said = f"reserved {names} for {rows[0].owner} and {args.task} until {rows[0].until}"
    return output.say(args.json, told, said)


def _owner(args: Namespace) -> str:
    name = args.who or os.environ.get("TREADLE_AGENT") or HUMAN
    return acting_agent(name)


def _holder(args: Namespace) -> Holder:
    return Holder(_owner(args), args.claim_id)
