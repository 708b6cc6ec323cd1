"""`treadle task`: add, list, show, link, claim, release, move and finish tasks."""

import os
from argparse import ArgumentParser, Namespace
from datetime import datetime

from treadle.cli import output, place
from treadle.errors import ExitCode, UsageError
from treadle.layout import Layout
from treadle.missions import adopt, change
from treadle.project.root import refuse_inside_run
from treadle.store import address
from treadle.store.reader import Reader
from treadle.store.writer import Store
from treadle.tasks import claim, criteria, document, lanes, move, reserve, show, takeover, task
from treadle.tasks.change import Changed, find
from treadle.tasks.claim import HUMAN, Holder


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    added = actions.add_parser("add", help="Add a task")
    added.add_argument("goal", help="What should be true")
    added.add_argument("--id", help="Your own id, such as AUTH-012")
    added.add_argument("--ac", action="append", default=[], help="Acceptance criterion")
    added.add_argument(
        "--verify", action="append", default=[], metavar="AC1=CMD", help="Command of a criterion"
    )
    added.add_argument(
        "--depends-on", action="append", default=[], metavar="TASK", help="Wait for this task"
    )
    listed = actions.add_parser("list", help="List tasks in order")
    listed.add_argument("--lane", help="Only tasks in this lane")
    listed.add_argument("--ready", action="store_true", help="Only tasks that can be run now")
    _named(actions.add_parser("show", help="Show a task with its runs"))
    linked = _named(actions.add_parser("link", help="Make a task wait for others"))
    linked.add_argument(
        "--depends-on", action="append", required=True, metavar="TASK", help="Which"
    )
    linked.add_argument("--remove", action="store_true", help="Let it wait no longer")
    _acting(_named(actions.add_parser("claim", help="Take a task")))
    _holding(actions.add_parser("release", help="Give a task back"))
    moved = _holding(actions.add_parser("move", help="Move a task to another lane"))
    moved.add_argument("--to", required=True, metavar="LANE", help="The new lane")
    moved.add_argument("--reason", help="Why; needed to send work back")
    moved.add_argument("--force", action="store_true", help="Skip the rules; needs --reason")
    _holding(actions.add_parser("done", help="Finish a task"))
    kept = _holding(actions.add_parser("reserve", help="Keep files to a task for a while"))
    kept.add_argument("patterns", nargs="*", metavar="PATTERN", help="Such as src/auth/**")
    kept.add_argument(
        "--minutes", type=float, default=reserve.MINUTES, metavar="N", help="For how long"
    )
    kept.add_argument("--release", action="store_true", help="Let the task's files go")


def run(args: Namespace) -> int:
    """Look without waiting for anyone; change in one transaction."""
    found = place.find(os.environ)
    layout, args.lease = found.layout, found.lease
    if layout.mail.tasks.is_dir() and not address.exists(layout):
        _find_again(layout)
    if args.action in _LOOKS and not _is_of_mission(args):
        with Reader.open(layout) as store:
            _LOOKS[args.action](store, args)
        return ExitCode.DONE
    refuse_inside_run(os.environ)
    with Store.open(layout) as store:
        now = store.now()
        _resolve(layout, store, args, now)
        if args.action in _LOOKS:
            _LOOKS[args.action](store, args)
        else:
            _CHANGES[args.action](store, args, now)
        if "who" in args:
            claim.renew_all(store, claim.owner_id(args.who), now)
    return ExitCode.DONE


def _find_again(layout: Layout) -> None:
    """Take over the tasks that their files tell of, when the store is lost."""
    with Store.open(layout) as store:
        output.warn(*takeover.take_over_all(store, layout.mail, store.now()))


def _is_of_mission(args: Namespace) -> bool:
    """Tell whether a look is at a mission's task, whose file may have to be read first."""
    return "task" in args and adopt.is_mission_task(args.task, args.mission)


def _resolve(layout: Layout, store: Store, args: Namespace, now: datetime) -> None:
    """Find the task that is meant; a mission's moves only in a clean work tree."""
    if "task" not in args:
        return
    args.task, said = change.find(layout, store, args.task, args.mission, now)
    output.warn(*said)
    if args.action in _MOVES:
        change.require_clean(layout, store, args.task)


def _named(parser: ArgumentParser) -> ArgumentParser:
    parser.add_argument("task", metavar="TASK", help="Id of the task")
    parser.add_argument("--mission", metavar="SLUG", help="The mission of a task such as WP01")
    return parser


def _acting(parser: ArgumentParser) -> ArgumentParser:
    default = os.environ.get("TREADLE_AGENT") or HUMAN
    parser.add_argument("--as", dest="who", default=default, metavar="AGENT", help="Who acts")
    return parser


def _holding(parser: ArgumentParser) -> ArgumentParser:
    parser.add_argument("--claim-id", metavar="ID", help="The claim under which to act")
    return _acting(_named(parser))


def _list(store: Reader, args: Namespace) -> None:
    if args.ready:
        rows = task.ready(store, store.now())
    else:
        rows = store.tasks(lanes.parse(args.lane) if args.lane else None)
    if args.json:
        output.print_json(document.listed(rows))
    elif not rows:
        print('no tasks; add one with: treadle task add "GOAL" --verify "AC1=COMMAND"')
    else:
        table = [(row.task_id, row.lane, row.owner, row.goal) for row in rows]
        output.print_table(["task", "lane", "owner", "goal"], table)


def _show(store: Reader, args: Namespace) -> None:
    found = show.show(store, args.task)
    now = store.now()
    if args.json:
        output.print_json(document.whole(store, found, now))
        return
    row = found.task
    print(f"{row.task_id}  {row.lane}  {row.owner or 'nobody'}")
    print(output.clean(row.goal))
    for item in row.criteria:
        command = f"  $ {item.verify}" if item.verify else ""
        print(f"  {item.id} {output.clean(item.text)}{output.clean(command)}")
    for kept in reserve.live_of(store, args.task, now):
        print(f"  keeps {output.clean(kept.pattern)} for {kept.owner} until {kept.until}")
    for other in found.depends_on:
        print(f"  waits for {other.task_id} ({other.lane})")
    for past in found.runs:
        print(f"  run {past.run_id} {past.status}")


def _add(store: Store, args: Namespace, now: datetime) -> None:
    asked = criteria.from_flags(args.goal, args.ac, args.verify)
    new = task.NewTask(goal=args.goal, criteria=asked, task_id=args.id)
    for other in args.depends_on:
        find(store, other)
    row = task.add(store, new, now)
    task.link(store, row.task_id, args.depends_on)
    output.say(
        args.json,
        {"task_id": row.task_id},
        f"added {row.task_id}; run it: treadle run {row.task_id}",
    )


def _link(store: Store, args: Namespace, now: datetime) -> None:
    tie = task.unlink if args.remove else task.link
    tie(store, args.task, args.depends_on)
    verb = "no longer waits" if args.remove else "waits"
    names = ", ".join(args.depends_on)
    told = {
        "task_id": args.task,
        "depends_on": [r.task_id for r in store.dependencies(args.task)],
    }
    output.say(args.json, told, f"{args.task} {verb} for {names}")


def _claim(store: Store, args: Namespace, now: datetime) -> None:
    # A mission's task is claimed because `next` said so, and lent as `next` lends it.
    is_mission = adopt.is_mission_task(args.task, None)
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
        output.say(
            args.json, {"task_id": args.task, "released": count}, f"{args.task}: {count} released"
        )
        return
    if not args.patterns or not 0 < args.minutes <= reserve.MAX_MINUTES:
        raise UsageError(
            f"say which files, and for how many minutes (at most {reserve.MAX_MINUTES})",
            fix=[f"treadle task reserve {args.task} 'src/auth/**' --minutes 60"],
        )
    rows = reserve.reserve(store, args.task, args.patterns, _holder(args), now, args.minutes)
    names = ", ".join(row.pattern for row in rows)
    told = {"task_id": args.task, "reservations": [row._asdict() for row in rows]}
    output.say(
        args.json, told, f"{names} is {rows[0].owner}'s for {args.task} until {rows[0].until}"
    )


_LOOKS = {"list": _list, "show": _show}
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
