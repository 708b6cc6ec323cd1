"""`treadle task`: add, list, show, change, remove, claim, move, finish and reserve for tasks."""

import os
from argparse import Namespace
from collections.abc import Callable
from datetime import UTC, datetime

from treadle.cli import context, output
from treadle.errors import UsageError
from treadle.ids import HUMAN, local, utc
from treadle.mail import claim as letters
from treadle.mail import effect, index
from treadle.missions import adopt
from treadle.project import Place, here, refuse_inside_run
from treadle.store.store import Reader, Store
from treadle.store.tasks import TaskRow
from treadle.tasks import claim, edit, images, lanes, task, waiting
from treadle.tasks.claim import Holder
from treadle.tasks.task import Changed, find_task
from treadle.tasks.tries import is_landed, word
from treadle.text import plural

Change = Callable[[Store, Namespace, datetime], int]


def take_in_files(found: Place) -> None:
    """Take in what other programs wrote about tasks, for commands that seldom have to."""
    context.fresh(found, datetime.now(UTC)).close()


def list_tasks(args: Namespace) -> int:
    found = context.find_project()
    context.follow_missions(found)
    with context.fresh(found, datetime.now(UTC)) as store:
        if args.ready:
            rows = store.ready_tasks(utc(store.now()))
        else:
            rows = store.tasks(lanes.parse(args.lane) if args.lane else None)
    hidden = 0 if args.lane else sum(row.lane == "canceled" for row in rows)
    shown = [row for row in rows if not hidden or row.lane != "canceled"]
    table = [(row.task_id, lanes.words(row), row.owner, row.goal) for row in shown]
    nothing = "no tasks; treadle task add --help shows how to add one"
    nothing = "no such tasks; treadle task list shows all" if args.ready or args.lane else nothing
    heads = ["task", "lane", "owner", "goal"]
    code = output.table(args.json, task.list_document(rows), heads, table, nothing)
    if hidden and not args.json:
        output.line(f"{plural(hidden, 'canceled task')}: treadle task list --lane canceled")
    return code


def show_task(args: Namespace) -> int:
    # The file of a mission's task may have to be read first.
    if adopt.is_mission_task(args.task, args.mission):
        return _changing()(_print)(args)
    with context.fresh(context.find_project(), datetime.now(UTC)) as store:
        return _print(store, args, store.now())


def _print(store: Reader, args: Namespace, now: datetime) -> int:
    row = find_task(store, args.task)
    shown = images.names(context.find_project().layout, args.task)
    kept = [it for it in store.reservations(utc(now)) if it.task_id == args.task]
    return output.say(
        args.json,
        task.whole_document(store, row, now) | {"images": shown},
        f"{row.task_id}  {lanes.words(row)}  {row.owner or 'nobody'}",
        row.goal,
        *(f"  {it.id} {it.text}{f'  $ {it.verify}' if it.verify else ''}" for it in row.criteria),
        *(f"  image {name}" for name in shown),
        *(f"  reserves {it.pattern} for {it.owner} until {local(it.until)}" for it in kept),
        *(
            f"  waits for {other.task_id} ({other.lane})"
            for other in waiting.unmet(store, row, stacks=True)
        ),
        *(f"  run {past.run_id} {word(store, past)}" for past in store.task_runs(args.task)),
    )


def _changing(*, moves: bool = False) -> Callable[[Change], Callable[[Namespace], int]]:
    """Make a command of a change; a mission's task moves only in a clean work tree."""

    def decorate(change_task: Change) -> Callable[[Namespace], int]:
        return lambda args: _change(args, change_task, moves)

    return decorate


def _change(args: Namespace, change_task: Change, moves: bool) -> int:
    found = context.find_project()
    refuse_inside_run(os.environ)
    args.lease = found.lease
    with Store.open(found.layout) as store:
        now = store.now()
        if index.is_stale(store, found.layout.mail):
            output.warn(*effect.refresh(store, found.layout.mail, now, reading=True))
        if "task" in args:
            args.task = adopt.resolve_task(found.layout, store, args.task, args.mission, now)
        if moves:
            adopt.require_clean_tree(found.layout, store, args.task)
        code = change_task(store, args, now)
        index.give_back(store, found.layout.mail, now)
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
    shown = images.load([here() / name for name in args.image])
    if shown and not new.task_id:  # they lie under its name before there is a task
        new = new._replace(task_id=store.reserve_task_id())
    if new.task_id and store.task(new.task_id) is None:
        images.keep(context.find_project().layout, new.task_id, shown)
    row = task.add(store, new, now)
    task.link(store, row.task_id, args.depends_on)
    said = f"added {row.task_id}; run it: treadle run {row.task_id}"
    return output.say(args.json, {"task_id": row.task_id}, said)


@_changing()
def edit_task(store: Store, args: Namespace, now: datetime) -> int:
    if args.goal is None and not (args.ac or args.verify or args.depends_on):
        raise UsageError(
            "say what should change: --goal, --ac, --verify or --depends-on",
            fix=[f"treadle task show {args.task}"],
        )
    row = edit.edit_task(store, args.task, args.goal, args.ac, args.verify, now)
    task.link(store, args.task, args.depends_on)
    stopped = [it.run_id for it in store.task_runs(args.task) if it.status != "passed"][-1:]
    lines = [f"edited {row.task_id}; run it: treadle run {row.task_id}"]
    lines += [f"run {id_} would go on with what was asked before" for id_ in stopped]
    return output.say(args.json, task.brief_document(row), *lines)


@_changing(moves=True)
def remove_task(store: Store, args: Namespace, now: datetime) -> int:
    found = edit.remove_task(store, args.task, now, force=args.force)
    open_ = [it.run_id for it in found.runs if it.status == "passed" and not is_landed(store, it)]
    count, freed = len(found.runs), ", ".join(found.freed)
    lines = [f"removed {args.task}: treadle task list --lane canceled still shows it"]
    lines += [f"{freed} no longer waits for it"] if freed else []
    lines += [f"kept {plural(count, 'run')} of it: treadle runs list"] if count else []
    lines += [f"run {id_} passed and can still land: treadle land {id_}" for id_ in open_]
    told = task.brief_document(found.row) | {"freed": list(found.freed)}
    return output.say(args.json, told | {"runs": [it.run_id for it in found.runs]}, *lines)


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
    lease = args.lease if adopt.is_mission_task(args.task, None) else claim.LEASE
    row = claim.claim(store, args.task, _owner(args), now, lease)
    told = task.brief_document(row) | {"claim_id": row.claim_id}
    return output.say(
        args.json, told, f"{row.task_id} is {row.owner}'s until {local(row.lease_until or '')}"
    )


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
    said = f"reserved {names} for {rows[0].owner} and {args.task} until {local(rows[0].until)}"
    return output.say(args.json, told, said)


def _owner(args: Namespace) -> str:
    return context.who(args) or HUMAN


def _holder(args: Namespace) -> Holder:
    return Holder(_owner(args), args.claim_id)
