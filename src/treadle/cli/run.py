"""`treadle run`: turn the wheel on tasks or on a goal."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from treadle.cli import consent, main, output, shape
from treadle.cli.progress import watcher
from treadle.config import agents
from treadle.config.load import Loaded, load, parse_budgets
from treadle.engine import explain, orchestrator, work
from treadle.engine.run import Tools
from treadle.engine.work import Refused
from treadle.errors import ExitCode, UsageError
from treadle.missions import taskfile
from treadle.project.project import open_project, place_mail
from treadle.project.root import here, refuse_inside_run
from treadle.store.runs import RunRow
from treadle.tasks import criteria

_CODES = {
    "budget_exceeded": ExitCode.BUDGET,
    "no_progress": ExitCode.BUDGET,
    "usage_limit": ExitCode.BUDGET,
    "protected_changed": ExitCode.BLOCKED,
    "SIGINT": ExitCode.INTERRUPTED,
    "interrupted": ExitCode.TERMINATED,
}


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="Tasks; without any, all ready")
    parser.add_argument("--mission", metavar="SLUG", help="The mission of tasks such as WP01")
    parser.add_argument("--goal", help="Run this goal without making a task of it")
    parser.add_argument("--ac", action="append", default=[], help="Acceptance criterion of --goal")
    parser.add_argument(
        "--verify", action="append", default=[], metavar="AC1=CMD", help="Command of a criterion"
    )
    parser.add_argument("--resume", metavar="RUN", help="Continue a stopped run")
    parser.add_argument(
        "--approve",
        choices=("protected",),
        help="With --resume: accept the changed protected files it waits for",
    )
    parser.add_argument(
        "--budget", action="append", default=[], metavar="KEY=N", help="Set or raise a budget"
    )
    parser.add_argument(
        "--agent", action="append", default=[], metavar="ROLE=NAME", help="Give a role to an agent"
    )
    parser.add_argument("--parallel", type=int, default=1, metavar="N", help="Runs side by side")
    parser.add_argument("--wait", action="store_true", help="Wait for another treadle to finish")
    parser.add_argument("--fleet", action="store_true", help="Let workers do it, here or elsewhere")
    parser.add_argument(
        "--priority", type=int, metavar="N", help="With --fleet: smaller numbers come first"
    )


def run(args: Namespace) -> int:
    """Open the project, run what was asked, say how it went."""
    _check(args)
    refuse_inside_run(os.environ)
    if args.fleet:
        code: int = main.load("worker").load("submit").run(args)
        return code
    project = open_project(here(), os.environ)
    budgets = parse_budgets(args.budget)
    loaded = load(project.layout, project.env, {"budgets": budgets} if budgets else None)
    place_mail(project, loaded.config)
    consent.require(args, project, loaded)
    work.require_sandbox(loaded.config)
    with orchestrator.opened(project, watch=watcher(args.json), wait=args.wait) as tools:
        found = _work(tools, args, loaded, budgets)
        refused = [item for item in found if isinstance(item, Refused)]
        if len(found) == 1 and refused:
            raise refused[0].error
        rows = [item for item in found if not isinstance(item, Refused)]
        results = [(row, tools.store.kv(row.run_id)) for row in rows]
    codes = [_code(row, kv) for row, kv in results] + [item.error.exit_code for item in refused]
    _render(args, results, refused)
    return max(codes, default=ExitCode.DONE)


def _check(args: Namespace) -> None:
    asked = [bool(args.tasks), args.goal is not None, args.resume is not None]
    if sum(asked) > 1:
        raise UsageError("give tasks, --goal or --resume, one of them")
    if (args.ac or args.verify) and args.goal is None:
        raise UsageError("--ac and --verify belong to --goal; a task has its own criteria")
    if args.goal is not None and not args.goal.strip():
        raise UsageError("--goal must say something")
    if args.approve and (args.fleet or not args.resume):
        raise UsageError("--approve belongs to --resume, without --fleet")
    if args.mission and not args.tasks:
        raise UsageError("--mission needs a task of it, such as WP01")
    if args.parallel < 1:
        raise UsageError("--parallel must be 1 or more")
    if args.priority is not None and not (args.fleet and 0 <= args.priority <= 1000):
        raise UsageError("--priority belongs to --fleet and is from 0 to 1000")


def _work(
    tools: Tools, args: Namespace, loaded: Loaded, budgets: dict[str, float]
) -> Sequence[RunRow | Refused]:
    swaps = agents.parse_swaps(args.agent)
    if args.resume:
        approve = args.approve == "protected"
        return [work.resume_run(tools, loaded.config, args.resume, budgets, swaps, approve=approve)]
    if args.goal is not None:
        asked = criteria.from_flags(args.goal, args.ac, args.verify)
        return [work.run_goal(tools, loaded.config, args.goal, asked, swaps)]
    ids = [
        taskfile.resolve(tools.layout, tools.store, word, args.mission, tools.now())
        for word in args.tasks
    ]
    return work.run_tasks(tools, loaded.config, ids, swaps, args.parallel)


def _refusal(item: Refused) -> dict[str, object]:
    error = item.error
    told = {"task_id": item.task_id, "code": error.code, "message": error.message}
    return told | {"fix": list(error.fix)}


def _code(row: RunRow, kv: dict[str, object]) -> ExitCode:
    if row.status == "passed":
        return ExitCode.BLOCKED if "land_refused" in kv else ExitCode.DONE
    if row.status == "failed":
        return ExitCode.FAILED
    reason = str(kv.get("reason_code"))
    if reason == "interrupted" and "SIGINT" in str(kv.get("reason")):
        reason = "SIGINT"
    return _CODES.get(reason, ExitCode.FAILED)


def _render(
    args: Namespace, results: list[tuple[RunRow, dict[str, object]]], refused: list[Refused]
) -> None:
    if args.json:
        documents = [shape.run_result(row, kv) for row, kv in results]
        output.print_json(shape.results(documents, args.tasks, [_refusal(i) for i in refused]))
        return
    for item in refused:
        output.line(output.paint("REFUSED", "red"), item.task_id)
        output.print_error(item.error, as_json=False)
    if not results and not refused:
        output.line(
            "nothing is ready to run; add a task with: treadle task add GOAL --verify AC1=CMD"
        )
    for row, kv in results:
        colour: output.Colour = "green" if row.status == "passed" else "red"
        verdict = output.paint(row.status.upper(), colour)
        output.line(verdict, f"{row.run_id} {row.goal} ({kv.get('reason') or ''})")
        for command in explain.next_commands(row, kv):
            output.line(f"  next: {command}")
