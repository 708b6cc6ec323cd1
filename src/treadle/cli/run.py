"""`treadle run` and `treadle replay`: work on tasks, on a goal, or through a recording."""

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from treadle.cli import output
from treadle.cli.project import (
    open_configured,
    require_trust,
    run_document,
    runs_document,
    watcher,
)
from treadle.config import agents
from treadle.config.load import Loaded, parse_budgets
from treadle.engine import goals, recording, session
from treadle.engine.goals import Refused
from treadle.engine.run import begin, memory
from treadle.engine.run.memory import RunMemory
from treadle.engine.run.run import Tools
from treadle.engine.show.view import find_run
from treadle.engine.wheel import loop
from treadle.errors import ExitCode, UsageError, argument
from treadle.git import repo
from treadle.missions import mission
from treadle.project import find_place, here
from treadle.store.runs import RunRow
from treadle.store.store import Reader
from treadle.tasks import task
from treadle.text import plural

NOTHING_READY = "nothing is ready to run; add a task with: treadle task add GOAL --verify AC1=CMD"
_CODES = {
    "budget_exceeded": ExitCode.BUDGET,
    "no_progress": ExitCode.BUDGET,
    "usage_limit": ExitCode.BUDGET,
    "protected_changed": ExitCode.BLOCKED,
    "SIGINT": ExitCode.INTERRUPTED,
    "interrupted": ExitCode.TERMINATED,
}


def run_tasks(args: Namespace) -> int:
    check(args)
    budgets = parse_budgets(args.budget)
    project, loaded = open_configured({"budgets": budgets} if budgets else None)
    require_trust(args, project)
    goals.require_sandbox(loaded.config)
    with session.opened(project, watch=watcher(args.json), wait=args.wait) as tools:
        found = _work(tools, args, loaded, budgets)
        refused = [item for item in found if isinstance(item, Refused)]
        if len(found) == 1 and refused:
            raise refused[0].error
        rows = [item for item in found if not isinstance(item, Refused)]
        results = [(row, memory.recall(tools.store, row.run_id)) for row in rows]
    codes = [_code(row, known) for row, known in results] + [
        item.error.exit_code for item in refused
    ]
    _render(args, results, refused)
    return max(codes, default=ExitCode.DONE)


def check(args: Namespace, *, fleet: bool = False) -> None:
    """Refuse what does not go together."""
    asked = [bool(args.tasks), args.goal is not None, args.resume is not None]
    if sum(asked) > 1:
        raise UsageError("give only one of tasks, --goal and --resume")
    if (args.ac or args.verify) and args.goal is None:
        raise UsageError("--ac and --verify belong to --goal; a task has its own criteria")
    if args.goal is not None and not args.goal.strip():
        raise UsageError("--goal must not be empty")
    if args.approve and (fleet or not args.resume):
        raise UsageError("--approve belongs to --resume, without --fleet")
    if args.mission and not args.tasks:
        raise UsageError("--mission needs a task of it, such as WP01")
    if args.parallel < 1:
        raise UsageError("--parallel must be 1 or more")
    if args.priority is not None and not (fleet and 0 <= args.priority <= 1000):
        raise UsageError("--priority belongs to --fleet and must be from 0 to 1000")


def _work(
    tools: Tools, args: Namespace, loaded: Loaded, budgets: dict[str, float]
) -> Sequence[RunRow | Refused]:
    swaps = agents.parse_swaps(args.agent)
    if args.resume:
        approve = args.approve == "protected"
        return [
            goals.resume_run(tools, loaded.config, args.resume, budgets, swaps, approve=approve)
        ]
    if args.goal is not None:
        asked = task.criteria_from_flags(args.goal, args.ac, args.verify)
        return [goals.run_goal(tools, loaded.config, args.goal, asked, swaps)]
    ids = [
        mission.resolve_task(tools.layout, tools.store, word, args.mission, tools.now())
        for word in args.tasks
    ]
    return goals.run_tasks(tools, loaded.config, ids, swaps, args.parallel)


def _refusal(item: Refused) -> dict[str, object]:
    error = item.error
    told = {"task_id": item.task_id, "code": error.code, "message": error.message}
    return told | {"fix": list(error.fix)}


def _code(row: RunRow, known: RunMemory) -> ExitCode:
    if row.status == "passed":
        return ExitCode.BLOCKED if known.land_refused else ExitCode.DONE
    if row.status == "failed":
        return ExitCode.FAILED
    reason = str(known.reason_code)
    if reason == "interrupted" and "SIGINT" in str(known.reason):
        reason = "SIGINT"
    return _CODES.get(reason, ExitCode.FAILED)


def _render(
    args: Namespace, results: list[tuple[RunRow, RunMemory]], refused: list[Refused]
) -> None:
    if args.json:
        documents = [run_document(row, known) for row, known in results]
        output.print_json(runs_document(documents, args.tasks, [_refusal(i) for i in refused]))
        return
    for item in refused:
        output.line(output.paint("REFUSED", "red"), item.task_id)
        output.print_error(item.error, as_json=False)
    if not results and not refused:
        output.line(NOTHING_READY)
    for row, known in results:
        colour: output.Colour = "green" if row.status == "passed" else "red"
        verdict = output.paint(row.status.upper(), colour)
        output.line(verdict, f"{row.run_id} {row.goal} ({known.reason or ''})")
        for command in memory.next_commands(row, known):
            output.line(f"  next: {command}")


def replay(args: Namespace) -> int:
    if args.words[0] == "export":
        if len(args.words) != 3 or args.swap:
            raise UsageError("write it as: treadle replay export RUN FILE")
        return _export(args.words[1], here() / args.words[2], args.json)
    if len(args.words) != 1:
        raise UsageError("give one recording, or: treadle replay export RUN FILE")
    return _replay(here() / args.words[0], args)


def _export(run_id: str, target: Path, as_json: bool) -> int:
    layout = find_place(here(), os.environ).layout
    with Reader.open(layout) as store:
        row = find_run(store, run_id)
        count = recording.export(layout, row, target)
    told = {"run_id": row.run_id, "file": str(target), "files": count}
    again = f"treadle replay {argument(str(target))}"
    said = f"wrote {target} with {plural(count, 'file')}; replay it with: {again}"
    return output.say(as_json, told, said)


def _replay(source: Path, args: Namespace) -> int:
    swaps = agents.parse_swaps(args.swap, "--swap")
    project, loaded = open_configured()
    require_trust(args, project)
    found = recording.unpack(project.layout, source)
    if not args.allow_commands:
        with Reader.open(project.layout) as store:
            recording.require_known(found, store)
    if found.asked.base_commit != repo.head(project.repo).commit:
        base = (found.asked.base_commit or "")[:12]
        output.warn(f"it was recorded on {base}, not on your HEAD; its changes may not apply")
    asked = recording.order(loaded.config, found, swaps)
    with session.opened(project, watch=watcher(args.json)) as tools:
        row = loop.drive_run(begin.begin_run(tools, asked))
        known = memory.recall(tools.store, row.run_id)
    said = f"{row.status.upper()} {row.run_id} {row.goal} ({known.reason or ''})"
    output.say(args.json, run_document(row, known), said)
    return ExitCode.DONE if row.status == "passed" else ExitCode.FAILED
