"""See whether accepted work still holds: `verify`."""

import os
from argparse import Namespace
from collections.abc import Sequence

from treadle.cli import output
from treadle.cli.run import working
from treadle.cli.runs import print_failed
from treadle.engine import verify
from treadle.engine.show.ends import FailedCommand, last_lines
from treadle.engine.verify import Accepted, Verified
from treadle.errors import ExitCode, UsageError
from treadle.missions import observed
from treadle.missions.report import Report
from treadle.missions.state import At, Halt, State
from treadle.project import here
from treadle.project.context import open_context
from treadle.store.store import Store
from treadle.store.tasks import WorkRow
from treadle.text import plural

_COLOURS: dict[str, output.Colour] = {"green": "green", "red": "red", "cannot run": "yellow"}


def verify_work(args: Namespace) -> int:
    """Run the criteria of what landed; exit 1 if something is red, 3 if something cannot run."""
    if args.all and args.names:
        raise UsageError("give names or --all, not both")
    with working(args) as (tools, loaded):
        found = verify.accepted(tools, args.names)
        told = verify.verify(tools, loaded.config, found, makes_tasks=args.task)
    silent = [item.name for item in found if not item.criteria]
    output.tell(args.json, _document(told, silent), _print, told, found, silent)
    states = {item.state for item in told}
    if "red" in states:
        return ExitCode.FAILED
    return ExitCode.BLOCKED if "cannot run" in states else ExitCode.DONE


def judge(found: State, store: Store, at: At, word: Report) -> WorkRow | Halt:
    """Hold a reported success against what can be seen; say what was not."""
    told = observed.judge(open_context(here(), os.environ), found, store, at, word)
    if isinstance(told, WorkRow) and any(it.state == observed.CLAIMED for it in told.observed):
        output.warn(
            f"{at.task_id}: its commands were not run, because this repository is not trusted yet;"
            " trust it with: treadle trust"
        )
    return told


def _document(told: Sequence[Verified], silent: Sequence[str]) -> dict[str, object]:
    work = [
        {"state": item.state, **item._asdict(), "seen": [it._asdict() for it in item.seen]}
        for item in told
    ]
    names = {state: [it.name for it in told if it.state == state] for state in _COLOURS}
    return {**{key.replace(" ", "_"): value for key, value in names.items()}, "work": work} | {
        "without_command": list(silent)
    }


def _print(told: Sequence[Verified], found: Sequence[Accepted], silent: Sequence[str]) -> None:
    for item in told:
        output.line(output.paint(item.state.upper(), _COLOURS[item.state]), item.name, item.goal)
        bad = [seen for seen in item.seen if seen.state != "green"]
        print_failed(
            [
                FailedCommand(seen.id, seen.command, seen.log, last_lines(seen.log), seen.note)
                for seen in bad
            ]
        )
        if item.state == "red":
            go_on = f"treadle run {item.task_id}" if item.task_id else "treadle desk"
            output.line(f"  next: {go_on}")
    if silent:
        output.line(f"without a command to run: {', '.join(silent)}")
    counts = [f"{sum(it.state == state for it in told)} {state}" for state in _COLOURS]
    said = f"{plural(len(found), 'landed piece')} of work: {', '.join(counts)}"
    output.line(said if found else "nothing has landed on the commit that is checked out yet")
