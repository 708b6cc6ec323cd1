"""`treadle next`: tell a host agent what to do now, and take its reports."""

import os
from argparse import ArgumentParser, Namespace

from treadle.cli import main, output, place
from treadle.cli.place import Place
from treadle.errors import UsageError
from treadle.missions import mission as missions
from treadle.missions import next, state
from treadle.missions.state import Asking, Decision, Step
from treadle.project.root import here
from treadle.store.store import Reader
from treadle.tasks.owner import HUMAN, owner_id


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("--mission", metavar="SLUG", help="Which mission, if there are several")
    default = os.environ.get("TREADLE_AGENT") or HUMAN
    parser.add_argument("--agent", default=default, metavar="NAME", help="Who asks")
    parser.add_argument("--result", choices=state.RESULTS, help="Report how a step went")
    parser.add_argument("--note", metavar="TEXT", help="What went wrong or is in the way")
    parser.add_argument(
        "--step", metavar="STEP", help="The step that is reported; by default the last one given"
    )
    parser.add_argument("--retry", action="store_true", help="Try again what failed or is blocked")
    parser.add_argument("--query", action="store_true", help="Only say where the mission stands")


def run(args: Namespace) -> int:
    """Answer with one decision; every decision is a success."""
    _check(args)
    found = _decide(args, place.find(os.environ))
    return output.tell(args.json, state.document(found), _print, found)


def _check(args: Namespace) -> None:
    if sum((args.result is not None, args.retry, args.query)) > 1:
        raise UsageError("give --result, --retry or --query, one of them")
    if args.result is None and (args.note is not None or args.step is not None):
        raise UsageError("--note and --step belong to --result")


def _decide(args: Namespace, found: Place) -> Decision:
    mission = missions.choose(found.layout, args.mission, here())
    agent = owner_id(args.agent)
    if args.result is None and not args.retry:
        with Reader.open(found.layout) as store:
            asking = Asking(found.layout, mission, agent, store.now())
            if args.query:
                return next.query(asking, store)
            decided = next.decide(asking, store)
            if os.environ.get("TREADLE_RUN") or next.is_lent(asking, store, decided, found.lease):
                return decided
    answered: Decision = main.load("next_report").answer(args, found, mission, agent)
    return answered


def _print(found: Decision) -> None:
    where = found.where
    output.line(f"{where.mission_slug}: {where.phase} {where.task_id or ''}".rstrip())
    if isinstance(found, Step):
        output.line(f"  {found.prompt_file}")
        return
    output.line(f"  {found.kind}: {found.reason}")
    for command in found.unblock:
        output.line(f"  try: {command}")
