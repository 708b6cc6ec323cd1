"""What `treadle task` does with one task: show, add, link, claim, release, move, finish."""

import os
from argparse import Namespace
from datetime import datetime

from treadle.cli import output
from treadle.cli.place import Place
from treadle.errors import ExitCode, UsageError
from treadle.layout import Layout
from treadle.missions import change, taskfile
from treadle.project.root import refuse_inside_run
from treadle.store.store import Reader, Store
from treadle.tasks import claim, criteria, document, lanes, move, reserve, show, takeover, task
from treadle.tasks.change import Changed, find
from treadle.tasks.claim import Holder


def run(args: Namespace, found: Place) -> int:
    """Show without waiting for anyone; change in one transaction."""
    layout, args.lease = found.layout, found.lease
    is_look = args.action == "show"
    # The file of a mission's task may have to be read first.
    if is_look and not taskfile.is_mission_task(args.task, args.mission):
        with Reader.open(layout) as reader:
            _show(reader, args)
        return ExitCode.DONE
    refuse_inside_run(os.environ)
    with Store.open(layout) as store:
        now = store.now()
        _resolve(layout, store, args, now)
        if is_look:
            _show(store, args)
        else:
            _CHANGES[args.action](store, args, now)
        if "who" in args:
            claim.renew_all(store, claim.owner_id(args.who), now)
    return ExitCode.DONE


def find_again(layout: Layout) -> None:
    """Take over the tasks that their files tell of, when the store is lost."""
    with Store.open(layout) as store:
        output.warn(*takeover.take_over_all(store, layout.mail, store.now()))


def _resolve(layout: Layout, store: Store, args: Namespace, now: datetime) -> None:
    """Find the task that is meant; a mission's moves only in a clean work tree."""
    if "task" not in args:
        return
    args.task, said = change.find(layout, store, args.task, args.mission, now)
    output.warn(*said)
    if args.action in _MOVES:
        change.require_clean(layout, store, args.task)


def _show(store: Reader, args: Namespace) -> None:
    row, now = find(store, args.task), store.now()
    kept = reserve.live_of(store, args.task, now)
    output.say(
        args.json,
        show.document(store, row, now),
        f"{row.task_id}  {row.lane}  {row.owner or 'nobody'}",
        row.goal,
        *(f"  {it.id} {it.text}{f'  $ {it.verify}' if it.verify else ''}" for it in row.criteria),
        *(f"  keeps {it.pattern} for {it.owner} until {it.until}" for it in kept),
        *(f"  waits for {other.task_id} ({other.lane})" for other in store.dependencies(args.task)),
        *(f"  run {past.run_id} {past.status}" for past in store.task_runs(args.task)),
    )


def _add(store: Store, args: Namespace, now: datetime) -> None:
    asked = criteria.from_flags(args.goal, args.ac, args.verify)
    new = task.NewTask(goal=args.goal, criteria=asked, task_id=args.id)
    for other in args.depends_on:
        find(store, other)
    row = task.add(store, new, now)
    task.link(store, row.task_id, args.depends_on)
    said = f"added {row.task_id}; run it: treadle run {row.task_id}"
    output.say(args.json, {"task_id": row.task_id}, said)


def _link(store: Store, args: Namespace, now: datetime) -> None:
    tie = task.unlink if args.remove else task.link
    tie(store, args.task, args.depends_on)
    verb = "no longer waits" if args.remove else "waits"
    waits_for = [row.task_id for row in store.dependencies(args.task)]
    told = {"task_id": args.task, "depends_on": waits_for}
    output.say(args.json, told, f"{args.task} {verb} for {', '.join(args.depends_on)}")


def _claim(store: Store, args: Namespace, now: datetime) -> None:
    # A mission's task is claimed because `next` said so, and lent as `next` lends it.
    is_mission = taskfile.is_mission_task(args.task, None)
    row = claim.claim(store, args.task, args.who, now, args.lease if is_mission else claim.LEASE)
    told = document.brief(row) | {"claim_id": row.claim_id}
    output.say(args.json, told, f"{row.task_id} is {row.owner}'s until {row.lease_until}")


def _release(store: Store, args: Namespace, now: datetime) -> None:
    row = claim.release(store, args.task, _holder(args), now)
    output.say(args.json, document.brief(row), f"{row.task_id} is planned again")


def _move(store: Store, args: Namespace, now: datetime) -> None:
    lane = lanes.parse(args.to)
    found = move.move(store, args.task, lane, _holder(args), now, args.reason, args.force)
    _tell_move(store, args, found)


def _done(store: Store, args: Namespace, now: datetime) -> None:
    _tell_move(store, args, move.done(store, args.task, _holder(args), now))


def _reserve(store: Store, args: Namespace, now: datetime) -> None:
    if args.release:
        count = reserve.give_back(store, args.task, _holder(args), now)
        told: dict[str, object] = {"task_id": args.task, "released": count}
        output.say(args.json, told, f"{args.task}: {count} released")
        return
    if not args.patterns or not 0 < args.minutes <= reserve.MAX_MINUTES:
        raise UsageError(
            f"say which files, and for how many minutes (at most {reserve.MAX_MINUTES})",
            fix=[f"treadle task reserve {args.task} 'src/auth/**' --minutes 60"],
        )
    rows = reserve.reserve(store, args.task, args.patterns, _holder(args), now, args.minutes)
    names = ", ".join(row.pattern for row in rows)
    told = {"task_id": args.task, "reservations": [row._asdict() for row in rows]}
    until = f"for {args.task} until {rows[0].until}"
    output.say(args.json, told, f"{names} is {rows[0].owner}'s {until}")


_MOVES = ("claim", "move", "done")
_CHANGES = {
    "add": _add,
    "link": _link,
    "claim": _claim,
    "release": _release,
    "move": _move,
    "done": _done,
    "reserve": _reserve,
}


def _holder(args: Namespace) -> Holder:
    return Holder(args.who, args.claim_id)


def _tell_move(store: Store, args: Namespace, found: Changed) -> None:
    before, after = found.before, found.after
    change.finish(store, found, store.now())
    output.say(args.json, change.document(found), f"{after.task_id}: {before.lane} → {after.lane}")
