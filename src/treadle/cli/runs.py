"""`treadle runs`: list, show, read the timeline of, and prune runs."""

import os
from argparse import ArgumentParser, Namespace

from treadle.cli import main, output
from treadle.engine import documents, protection, review, spending, weather, whereabouts
from treadle.engine.find import find, require_chain
from treadle.errors import ExitCode
from treadle.layout import Layout
from treadle.project.root import find_root, here
from treadle.store import address
from treadle.store.runs import RunRow, StepRow
from treadle.store.store import Reader

# What is asked for seldom is loaded only then.
_MODULES = {"prune": "prune", "cost": "runs_cost", "stop": "stop"}
_STATUSES = ("running", "passed", "failed", "stopped")


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listed = actions.add_parser("list", help="List runs, newest first")
    listed.add_argument("--limit", type=int, default=50, metavar="N", help="At most N of them")
    listed.add_argument("--before", metavar="RUN", help="Only runs older than this one")
    listed.add_argument("--status", choices=_STATUSES, help="Only runs with this status")
    listed.add_argument("--chain", metavar="CHAIN", help="Only runs of this chain of messages")
    shown = actions.add_parser("show", help="Show one run with steps, criteria and usage")
    shown.add_argument("run", metavar="RUN", help="Id of the run, or its beginning")
    events = actions.add_parser("events", help="Show the timeline of a run")
    events.add_argument("run", metavar="RUN", help="Id of the run, or its beginning")
    events.add_argument("--after", type=int, default=0, metavar="SEQ", help="Only later events")
    cost = actions.add_parser("cost", help="Show what agents have cost by agent, model and day")
    cost.add_argument("--days", type=int, default=30, metavar="N", help="Of the last N days")
    stopped = actions.add_parser("stop", help="Stop a run, or call it off while it waits")
    stopped.add_argument("run", metavar="RUN", help="Id of the run, or its beginning")
    stopped.add_argument("--reason", default="", help="Say why, for the timeline")
    pruned = actions.add_parser("prune", help="Remove workspaces of runs that have ended")
    pruned.add_argument("--older-than", type=float, default=0.0, metavar="DAYS", help="Only these")
    pruned.add_argument("--history", action="store_true", help="Remove folder, rows and branch too")
    pruned.add_argument("--dry-run", action="store_true", help="Only say what would go")


def run(args: Namespace) -> int:
    """Answer from the store; only pruning loads what changes things."""
    if args.action in _MODULES:
        code: int = main.load(_MODULES[args.action]).run(args)
        return code
    layout = Layout(find_root(here(), os.environ))
    with Reader.open(layout) as store:
        return _ACTIONS[args.action](layout, store, args)


def _list(layout: Layout, store: Reader, args: Namespace) -> int:
    rows = _rows(store, args)
    if not rows and layout.runs.exists() and not address.exists(layout):
        output.warn("the store is missing; rebuild it with: treadle doctor --repair")
    if args.json:
        output.print_json(documents.runs(store, rows))
        return ExitCode.DONE
    heads = ["run", "status", "verdict", "iteration", "task", "goal"]
    table = [
        (row.run_id, row.status, row.verdict, row.iteration, row.task_id, row.goal) for row in rows
    ]
    nothing = "no runs yet; start one with: treadle run --goal GOAL --verify AC1=COMMAND"
    output.table(False, {}, heads, table, nothing)
    output.warn(*(storm.sentence for storm in weather.storms(store, rows)))
    return ExitCode.DONE


def _rows(store: Reader, args: Namespace) -> list[RunRow]:
    limit = max(args.limit, 0)
    if args.chain is None:
        return store.runs(limit, args.before, args.status)
    require_chain(store, args.chain)
    rows = [
        row
        for row in store.chain_runs(args.chain)
        if args.status in (None, row.status) and (args.before is None or row.run_id < args.before)
    ]
    return rows[:limit]


def _show(layout: Layout, store: Reader, args: Namespace) -> int:
    row = find(store, args.run)
    if any(step.archive for step in store.steps(row.run_id)):
        main.load("fleet_queue").bring(layout, store, row)
    return output.tell(args.json, documents.run(layout, store, row), _print, layout, store, row)


def _print(layout: Layout, store: Reader, row: RunRow) -> None:
    steps = store.steps(row.run_id)
    views = review.criteria(layout, store, row)
    _print_head(row, store.kv(row.run_id))
    if used := spending.words(store.usage(row.run_id)):
        output.line(f"used       {used}")
        output.line()
    output.print_table(
        ["criterion", "claimed", "observed", "text"],
        [(view.id, _yes(view.claimed), _yes(view.observed), view.text) for view in views],
    )
    output.line()
    output.print_table(["step", "role", "status", "agent", "tier", "summary"], map(_line, steps))


def _events(layout: Layout, store: Reader, args: Namespace) -> int:
    row = find(store, args.run)
    told = documents.events(store, row.run_id, args.after)
    events = store.events(row.run_id, args.after)
    table = [(event.seq, event.ts[:19], event.type, event.message) for event in events]
    heads = ["seq", "time", "type", "message"]
    return output.tell(args.json, told, output.print_table, heads, table)


_ACTIONS = {"list": _list, "show": _show, "events": _events}


def _print_head(row: RunRow, kv: dict[str, object]) -> None:
    output.line(f"run        {row.run_id} ({row.status}, verdict {row.verdict or 'none yet'})")
    output.line(f"goal       {row.goal}")
    if kv.get("reason"):
        output.line(f"because    {kv['reason']}")
    if told := protection.words(kv):
        output.line(f"protected  {told}")
    if kv.get("resume_at"):
        output.line(f"goes on    {str(kv['resume_at'])[:19]}Z or later")
    output.line(f"branch     {row.branch} at {(row.head_commit or '')[:12]}")
    output.line(f"base       {(row.base_commit or '')[:12]} ({row.base_branch or 'detached'})")
    for word in whereabouts.words(kv):
        output.line(f"work       {word}")
    output.line(f"folder     {row.run_dir}")
    output.line()


def _line(step: StepRow) -> tuple[object, ...]:
    status = f"{step.status} ({step.error_code})" if step.error_code else step.status
    return step.step_index, step.role, status, step.agent, step.sandbox_tier, step.summary


def _yes(value: bool | None) -> str:
    return "–" if value is None else "yes" if value else "no"
