"""Drive runs and bring their work home: `run replay land undo`, `runs prune`."""

import contextlib
import os
import sys
import threading
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from treadle.cli import output
from treadle.config import agents
from treadle.config.load import Loaded, parse_budgets
from treadle.engine import goals, recording, session
from treadle.engine.elsewhere import fleet_run
from treadle.engine.goals import Refused
from treadle.engine.landing import land
from treadle.engine.landing.land import Landed, Undone
from treadle.engine.lock import is_abandoned as is_abandoned
from treadle.engine.prune import prune
from treadle.engine.run import begin, memory
from treadle.engine.run.memory import Progress, RunMemory, Watch
from treadle.engine.run.run import Tools
from treadle.engine.show.view import find_run
from treadle.engine.wheel import loop
from treadle.errors import BlockedError, ExitCode, LockedError, TreadleError, UsageError, argument
from treadle.git import repo
from treadle.layout import Layout
from treadle.missions import mission
from treadle.project import find_place, here, refuse_inside_run, trust
from treadle.project.context import Context, open_context
from treadle.project.trust import BroughtCommand
from treadle.store.runs import RunRow
from treadle.store.store import Reader, Store
from treadle.tasks import task
from treadle.text import line, plural

_WIDTH = 100
# What a run's document has of its row.
_TOLD = (
    *("run_id", "task_id", "status", "verdict", "iteration"),
    *("branch", "base_commit", "head_commit"),
)


def open_configured(
    settings: Mapping[str, object] | None = None, *, inside_run: bool = False
) -> tuple[Context, Loaded]:
    """Open the project with its configuration; `settings` go before all others."""
    if not inside_run:
        refuse_inside_run(os.environ)
    context = open_context(here(), os.environ, settings)
    return context, context.settings


def require_trust(args: Namespace, project: Context, more: Sequence[BroughtCommand] = ()) -> None:
    """Stop unless this repository is trusted as it is now; on a terminal, ask."""
    try:
        trust.require(project, more)
    except BlockedError as error:
        if error.code != "trust_changed" or args.json or not _can_ask():
            raise
        output.print_error(error, as_json=False)
        output.line("Trust it from now on? [y/N]", error=True, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise
        trust.grant(project)


def _can_ask() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def runs_document(
    found: list[dict[str, object]], tasks: Sequence[str], refused: Sequence[dict[str, object]] = ()
) -> dict[str, object]:
    """Return the document of runs: of one that was asked for alone, its own."""
    if len(found) == 1 and len(tasks) < 2 and not refused:
        return found[0]
    return {"runs": found, "refused": list(refused)}


def run_document(row: RunRow, known: RunMemory) -> dict[str, object]:
    """Return the document of one run."""
    told = {name: getattr(row, name) for name in _TOLD}
    return told | {
        "steps": row.current_step_index,
        "landed": known.landed and known.landed.commit,
        "undone": known.undone and known.undone.commit,
        "reason": known.reason,
        "reason_code": known.reason_code,
    }


def watcher(quiet: bool) -> Watch:
    """Return what tells the user how the work goes, on stderr."""
    if quiet and not sys.stderr.isatty():
        return lambda moment: None
    return _Screen(moving=sys.stderr.isatty()).show


class _Screen:
    """Writes one moving line on a terminal, one line per step elsewhere; parallel runs share it."""

    def __init__(self, moving: bool) -> None:
        self._moving = moving
        self._turn = threading.Lock()
        self._open = False

    def show(self, moment: Progress) -> None:
        """Show one moment."""
        if moment.kind in ("step", "tick") and not self._moving:
            return
        # Whoever looked may have gone: `| head` ends the show and not the work.
        with self._turn, contextlib.suppress(OSError):
            self._write(moment)

    def _write(self, moment: Progress) -> None:
        text = _progress_line(moment)
        if self._open:
            sys.stderr.write("\r\x1b[K")
        passing = self._moving and moment.kind in ("step", "tick")
        sys.stderr.write(text[:_WIDTH] if passing else text + "\n")
        sys.stderr.flush()
        self._open = passing


def _progress_line(moment: Progress) -> str:
    text = line(moment.message)
    if moment.kind == "run":
        return f"run {moment.run_id}: {text}"
    if moment.kind == "note":
        return f"note: {text}"
    score = f"criteria {moment.passed}/{moment.total}"
    if moment.kind == "ended":
        return f"run {moment.run_id} ended, {score}: {text}"
    minutes, seconds = divmod(int(moment.elapsed), 60)
    turn = f"{moment.iteration}/{moment.max_iterations}"
    head = f"  {moment.role:<5} {turn}  {minutes}:{seconds:02d}  {score}"
    return f"{head}  {text}" if text else head


def call_off(store: Store, row: RunRow, reason: str) -> None:
    """Take a waiting run out of the queue."""
    fleet_run.call_off(store, row, reason)


def bring_steps(layout: Layout, store: Reader, row: RunRow) -> None:
    """Fetch the step folders that are not here; without them there is less to show."""
    try:
        fleet_run.look(layout, store, row)
    except TreadleError as error:
        output.warn(f"its files are elsewhere and cannot be fetched: {error.message}")


def bring_letters() -> None:
    """Let recovery send them; whoever works in the project right now has done it on entry."""
    project = open_context(here(), os.environ)
    try:
        with session.opened(project, watch=watcher(True)):
            pass
    except LockedError:
        return
    except TreadleError as error:
        output.warn(f"letters of the fleet are not here yet: {error.message}")


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


_CENTURY = 36_500.0


def land_run(args: Namespace) -> int:
    project, _ = open_configured()
    require_trust(args, project)
    with session.opened(project, watch=watcher(args.json), wait=args.wait) as tools:
        row = find_run(tools.store, args.run)
        found = land.land(tools, row, onto=args.onto, keep_steps=args.keep_steps)
    told = {"run_id": found.run_id, "landed": found.commit, "branch": found.branch}
    return output.tell(args.json, told | {"merged": found.merged}, _print_landed, found)


def _print_landed(found: Landed) -> None:
    if found.commit is None:
        output.line(
            f"nothing to land: {found.branch} already has all changes of run {found.run_id}"
        )
        return
    how = ", merged with what came meanwhile" if found.merged else ""
    landed = output.paint("LANDED", "green")
    output.line(landed, f"{found.commit[:12]} on {found.branch}{how}")
    output.line(f"  next: git show {found.commit[:12]}")
    output.line(f"  next: treadle undo {found.run_id}")


def undo_run(args: Namespace) -> int:
    project, _ = open_configured()
    with session.opened(project, watch=watcher(args.json), wait=args.wait) as tools:
        found = land.undo(tools, find_run(tools.store, args.run))
    told = {"run_id": found.run_id, "undone": found.commit, "branch": found.branch}
    return output.tell(args.json, told | {"exact": found.exact}, _print_undone, found)


def _print_undone(found: Undone) -> None:
    if found.commit is None:
        output.line(f"nothing to undo: {found.branch} has nothing of run {found.run_id} any more")
        return
    same = "the tree is as it was before" if found.exact else "later changes stay"
    output.line(output.paint("UNDONE", "green"), f"{found.commit[:12]} on {found.branch}; {same}")
    output.line(f"  next: treadle land {found.run_id}")


def prune_runs(args: Namespace) -> int:
    """Remove the workspaces of runs that have ended, and with --history the runs themselves."""
    project, _ = open_configured()
    with session.opened(project, watch=watcher(args.json)) as tools:
        days = min(args.older_than, _CENTURY)
        found = prune(tools, older_than=days, history=args.history, dry_run=args.dry_run)
    verb = "would remove" if args.dry_run else "removed"
    lines = [
        *(f"{verb} the workspace of {run_id}" for run_id in found.workspaces),
        *(f"{verb} run {run_id} with its branch" for run_id in found.runs),
        *(f"{verb} {name}, which no step needs" for name in found.archives),
    ]
    told = {**found._asdict(), "dry_run": args.dry_run}
    return output.say(args.json, told, *lines or ["nothing to remove"])
