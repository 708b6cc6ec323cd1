"""Drive runs and bring their work home: `run replay land rebase review undo`, `runs prune`."""

import contextlib
import os
import signal
import sys
import threading
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from treadle.cli import invoke, main, output
from treadle.cli.runs import print_failed, print_tries
from treadle.config import agents
from treadle.config.load import Loaded, parse_limits
from treadle.engine import goals, recording, session
from treadle.engine.approval import Entered, enter
from treadle.engine.elsewhere import fleet_run
from treadle.engine.goals import Refused
from treadle.engine.landing import land, several
from treadle.engine.landing.land import Landed, Undone
from treadle.engine.landing.rebase import Rebased
from treadle.engine.landing.several import Left
from treadle.engine.lock import call_off_waiter as call_off_waiter
from treadle.engine.lock import is_abandoned as is_abandoned
from treadle.engine.prune import UnlandedWork, prune
from treadle.engine.run import begin, comments, days, memory, order
from treadle.engine.run.comments import Comment
from treadle.engine.run.memory import Progress, RunMemory, Watch
from treadle.engine.run.run import Tools
from treadle.engine.show import compare, ends
from treadle.engine.show.ends import FailedCommand, failed_commands
from treadle.engine.show.view import find_run
from treadle.engine.wheel import end, loop
from treadle.errors import (
    BlockedError,
    ExitCode,
    LockedError,
    TreadleError,
    UsageError,
    argument,
    stop_code,
)
from treadle.git import repo
from treadle.ids import utc
from treadle.layout import Layout
from treadle.missions import adopt, merge
from treadle.proc import helper
from treadle.project import find_place, here, refuse_inside_run, trust
from treadle.project.context import Context, open_context
from treadle.project.trust import BroughtCommand
from treadle.store.runs import RunRow
from treadle.store.store import Reader, Store
from treadle.tasks import task
from treadle.tasks.waiting import WaitingTask, waiting_tasks
from treadle.text import line, name_some, plural

_WIDTH = 100
CI = "@ci"  # as a note: what the red checks of the run's pull request say
_SHOWN = 3  # failed commands of one run; `why` shows all of them
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


@contextlib.contextmanager
def working(
    args: Namespace, settings: Mapping[str, object] | None = None, *, asks_agents: bool = True
) -> Iterator[tuple[Tools, Loaded]]:
    """Hold the project as a command does that runs what the repository brings."""
    project, loaded = open_configured(settings)
    require_trust(args, project)
    if asks_agents:
        goals.require_sandbox(loaded.config)
    with session.opened(project, watch=watcher(args.json), wait=args.wait) as tools:
        yield tools, loaded


def require_trust(args: Namespace, project: Context, more: Sequence[BroughtCommand] = ()) -> None:
    """Stop unless this repository is trusted as it is now; on a terminal, ask."""
    try:
        trust.require(project, more)
    except BlockedError as error:
        if error.code != "trust_changed" or args.json or not output.can_ask():
            raise
        output.print_error(error, as_json=False)
        output.line("Trust it from now on? [y/N]", error=True, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise
        trust.grant(project)


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
    if quiet and not sys.stderr.isatty() and not os.environ.get("TREADLE_PROGRESS"):
        return lambda moment: None
    return _Screen(moving=sys.stderr.isatty()).show


class _Screen:
    """Writes one moving line on a terminal, one line per step elsewhere; parallel runs share it."""

    def __init__(self, moving: bool) -> None:
        self._moving = moving
        self._turn = threading.Lock()
        self._open = False
        self._names: dict[str, str] = {}  # of what each run works on

    def show(self, moment: Progress) -> None:
        """Show one moment."""
        if moment.name:
            self._names[moment.run_id] = moment.name
        if moment.kind in ("step", "tick") and not self._moving:
            return
        # Whoever looked may have gone: `| head` ends the show and not the work.
        with self._turn, contextlib.suppress(OSError):
            self._write(moment)

    def _write(self, moment: Progress) -> None:
        text = _progress_line(moment, self._names.get(moment.run_id))
        if self._open:
            sys.stderr.write("\r\x1b[K")
        passing = self._moving and moment.kind in ("step", "tick")
        sys.stderr.write(text[:_WIDTH] if passing else text + "\n")
        sys.stderr.flush()
        self._open = passing


def _progress_line(moment: Progress, name: str | None) -> str:
    text = line(moment.message)
    if moment.kind == "run":
        return f"run {moment.run_id}: {f'{line(name)}: ' if name else ''}{text}"
    whose = f"{line(name)}  " if name else ""
    if moment.kind == "note":
        return f"note: {whose}{text}"
    score = f"criteria {moment.passed}/{moment.total}"
    if moment.kind == "ended":
        return f"run {moment.run_id} ended, {whose}{score}: {text}"
    minutes, seconds = divmod(int(moment.elapsed), 60)
    turn = f"{moment.iteration}/{moment.max_iterations}"
    head = f"  {whose}{moment.role:<5} {turn}  {minutes}:{seconds:02d}  {score}"
    return f"{head}  {text}" if text else head


def call_off(store: Store, row: RunRow, reason: str) -> bool:
    """Take a waiting run out of the queue and let go of its task; False if a worker has it now."""
    is_off = fleet_run.call_off(store, row, reason)
    if is_off:
        end.tell_desk(store, row, memory.recall(store, row.run_id), store.now())
    return is_off


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


NOTHING_READY = "nothing is ready to run; treadle task add --help shows how to add a task"
_CODES = {
    "budget_exceeded": ExitCode.BUDGET,
    "night_limit": ExitCode.BUDGET,
    "no_progress": ExitCode.BUDGET,
    "usage_limit": ExitCode.BUDGET,
    "protected_changed": ExitCode.BLOCKED,
    "check_broken": ExitCode.BLOCKED,
    "plan_waits": ExitCode.BLOCKED,
}


def run_tasks(args: Namespace) -> int:
    check(args)
    limits = parse_limits(args.budget)
    with working(args, asked_settings(args, limits)) as (tools, loaded):
        found = _work(tools, args, loaded, limits.get("budgets", {}))
        refused = [item for item in found if isinstance(item, Refused)]
        if len(found) == 1 and refused:
            raise refused[0].error
        rows = [item for item in found if not isinstance(item, Refused)]
        results = [(row, days.recall(tools.store, row.run_id)) for row in rows]
        failed = {
            row.run_id: failed_commands(tools.layout, tools.store, row)[:_SHOWN] for row in rows
        }
        waits = [] if found else waiting_tasks(tools.store, tools.now())
        tried = compare.document(tools.layout, tools.store, rows[0]) if args.tried and rows else {}
    codes = [_code(row, known) for row, known in results] + [
        item.error.exit_code for item in refused
    ]
    _render(args, results, refused, failed, waits, tried)
    if best := tried.get("winner"):  # one that passed is what was wanted
        return next(_code(row, known) for row, known in results if row.run_id == best)
    stuck = [item for item in waits if item.is_stuck]
    return max(codes, default=ExitCode.BLOCKED if stuck else ExitCode.DONE)


def asked_settings(args: Namespace, limits: Mapping[str, object]) -> dict[str, object]:
    """Return what the flags of a run say about the configuration."""
    found: dict[str, object] = {**limits}
    if args.approve and not args.resume:
        found["approve"] = [args.approve]
    return found | ({"checks": {"anyway": True}} if args.anyway else {})


def check(args: Namespace, *, fleet: bool = False) -> None:
    """Refuse what does not go together."""
    asked = [bool(args.tasks), *(it is not None for it in (args.goal, args.resume, args.again))]
    if sum(asked) > 1:
        raise UsageError("give only one of tasks, --goal, --resume and --again")
    if args.again and fleet:
        raise UsageError("--again belongs to runs on this machine, without --fleet")
    if (args.ac or args.verify) and args.goal is None:
        raise UsageError("--ac and --verify belong to --goal; a task has its own criteria")
    if args.goal is not None and not args.goal.strip():
        raise UsageError("--goal must not be empty")
    _check_approval(args, fleet)
    _check_note(args, fleet)
    if args.mission and not args.tasks:
        raise UsageError("--mission needs a task of it, such as WP01")
    if args.tried:
        _check_tries(args, fleet)
    if args.parallel is not None and args.parallel < 1:
        raise UsageError("--parallel must be 1 or more")
    if args.priority is not None and not (fleet and 0 <= args.priority <= 1000):
        raise UsageError("--priority belongs to --fleet and must be from 0 to 1000")


def _check_note(args: Namespace, fleet: bool) -> None:
    if args.note is not None and not args.note.strip():
        raise UsageError("--note must not be empty")
    if args.note == CI and (fleet or not args.resume):
        raise UsageError(f"--note {CI} belongs to --resume, without --fleet")


def _check_tries(args: Namespace, fleet: bool) -> None:
    if fleet:
        raise UsageError("--try belongs to runs on this machine, without --fleet")
    if args.goal is None and len(args.tasks) != 1:
        raise UsageError("--try needs one task, or --goal: several agents do the same")


def _check_approval(args: Namespace, fleet: bool) -> None:
    if fleet and (args.approve or args.reject is not None):
        raise UsageError("--approve and --reject do not go with --fleet")
    if fleet and args.anyway and args.resume:
        raise UsageError("--anyway does not go with --resume and --fleet: resume the run here")
    if args.approve and args.reject is not None:
        raise UsageError("give only one of --approve and --reject")
    if args.approve not in (None, "plan") and not args.resume:
        raise UsageError(f"--approve {args.approve} belongs to --resume")
    if args.reject is not None and not args.resume:
        raise UsageError("--reject belongs to --resume")


def _work(
    tools: Tools, args: Namespace, loaded: Loaded, budgets: dict[str, float]
) -> Sequence[RunRow | Refused]:
    swaps = agents.parse_swaps(args.agent)
    if args.resume and args.note:
        note = main.call("pr.send_back", tools, args.resume) if args.note == CI else args.note
        leave_note(tools.layout, tools.store, args.resume, note)
    if args.resume:
        words = {"approve": args.approve, "reject": args.reject}
        row = goals.resume_run(tools, loaded.config, args.resume, budgets, swaps, **words)
        if row.message_id and row.status == "passed":
            main.call("process.carry_on", tools, loaded.config, row)
        return [row]
    if args.again:
        return [goals.run_again(tools, loaded.config, args.again, swaps, args.note)]
    if args.goal is not None:
        asked = task.criteria_from_flags(args.goal, args.ac, args.verify)
        goal = order.with_note(args.goal, args.note)
        if args.tried:
            config = loaded.config
            one = order.freeze(config, text=goal, criteria=asked, swaps=swaps, task_id=None)
            return goals.run_tries(tools, loaded.config, one, args.tried, args.parallel)
        return [goals.run_goal(tools, loaded.config, goal, asked, swaps)]
    ids = [
        adopt.resolve_task(tools.layout, tools.store, word, args.mission, tools.now())
        for word in args.tasks
    ]
    if args.tried:
        one = goals.asked_of_task(tools, loaded.config, ids[0], swaps, args.note)
        return goals.run_tries(tools, loaded.config, one, args.tried, args.parallel)
    return goals.run_tasks(tools, loaded.config, ids, swaps, args.parallel or 1, args.note)


def leave_note(layout: Layout, store: Store, text: str, note: str) -> None:
    """Leave a person's words for every step that a run still takes."""
    row, said = find_run(store, text), Comment(utc(store.now()), 0, note)
    comments.add(store, layout.run(row.run_id), row, said)


def _refusal(item: Refused) -> dict[str, object]:
    return {"task_id": item.task_id} | _error(item.error)


def _error(error: TreadleError) -> dict[str, object]:
    return {"code": error.code, "message": error.message, "fix": list(error.fix)}


def _code(row: RunRow, known: RunMemory) -> ExitCode:
    if row.status == "passed":
        return ExitCode.BLOCKED if known.land_refused else ExitCode.DONE
    if row.status == "failed":
        return ExitCode.FAILED
    if known.reason_code == "interrupted":
        return stop_code(str(known.reason))
    return _CODES.get(str(known.reason_code), ExitCode.FAILED)


def _render(
    args: Namespace,
    results: list[tuple[RunRow, RunMemory]],
    refused: list[Refused],
    failed: Mapping[str, Sequence[FailedCommand]],
    waits: list[WaitingTask],
    tried: dict[str, object],
) -> None:
    if args.json:
        documents = [run_document(row, known) for row, known in results]
        told = runs_document(documents, args.tasks, [_refusal(i) for i in refused])
        more = {"waiting": [item._asdict() for item in waits]} if not results else {}
        output.print_json(
            told | more | {it: tried[it] for it in ("winner", "tries") if it in tried}
        )
        return
    for item in refused:
        output.line(output.paint("REFUSED", "red"), item.task_id)
        output.print_error(item.error, as_json=False)
    if not results and not refused:
        print_waiting(waits)
    for row, known in results:
        _print_run(row, known, failed[row.run_id])
    if tried:
        print_tries(tried)


def print_waiting(waits: Sequence[WaitingTask]) -> None:
    """Say that nothing is ready, and what each task waits for."""
    output.line("nothing is ready to run:" if waits else NOTHING_READY)
    for task_id, reason, command, _ in waits:
        output.line(f"  {task_id} {reason}")
        output.line(f"  next: {command}")


def _print_run(row: RunRow, known: RunMemory, failed: Sequence[FailedCommand]) -> None:
    colour: output.Colour = "green" if row.status == "passed" else "red"
    verdict = output.paint(row.status.upper(), colour)
    output.line(verdict, f"{row.run_id} {row.goal} ({known.reason or ''})")
    print_failed(failed)
    for command in memory.next_commands(row, known):
        output.line(f"  next: {command}")


def enter_run(args: Namespace) -> int:
    """Let the user into a run's workspace; what they change is a step of it afterwards."""
    project, _ = open_configured()
    require_trust(args, project)
    with session.opened(project, watch=watcher(args.json)) as tools:
        row = find_run(tools.store, args.run)
        found = enter(tools, row, partial(_work_in, args, row.run_id))
    row, known = found.row, found.known
    if not args.json:
        _print_entered(found)
    if args.resume and found.step and known.reason_code == "interrupted":
        code, told = invoke.carry_out(f"treadle run --resume {row.run_id}", args.json, False)
    else:
        code, told = (ExitCode.FAILED if row.status == "failed" else ExitCode.DONE), None
    if args.json:
        taken = {"step": found.step, "files": list(found.files), "resumed": told}
        output.print_json(run_document(row, known) | taken)
    return code


def _work_in(args: Namespace, run_id: str, place: Path) -> None:
    """Run the user's shell, or a command of theirs, in a folder."""
    argv = args.command or [os.environ.get("SHELL") or "sh"]
    if not args.command and not args.json:
        output.line(f"the workspace of run {run_id}; what you change here becomes a step of it")
        output.line("leave it with: exit", flush=True)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the program's in there
    try:
        words = ("/bin/sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", str(place), *argv)
        helper.foreground(words, os.environ, 2 if args.json else 1)
    finally:
        signal.signal(signal.SIGINT, before)


def _print_entered(found: Entered) -> None:
    row = found.row
    if found.step is None:
        output.line(f"nothing was changed; run {row.run_id} is as it was")
    elif found.known.reason_code == "interrupted":
        files = f"{plural(len(found.files), 'file')}: {name_some(found.files)}"
        output.line(f"step {found.step} of run {row.run_id} by human took {files}")
    else:
        output.line(f"step {found.step} was not taken: {found.known.reason}")
    for command in memory.next_commands(row, found.known):
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
            recording.require_known(found, store, source)
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
_NOTHING_TO_LAND = "nothing waits to land: what passed has landed, was undone, or changed nothing"


def land_run(args: Namespace) -> int:
    if bool(args.runs) == args.all:
        fix = ["treadle land --all", "treadle runs list --status passed"]
        raise UsageError("name the runs to land, or give --all", fix=fix)
    with working(args, asks_agents=False) as (tools, _):
        rows = [compare.landing_run(tools.store, word) for word in args.runs]
        if len(rows) == 1 and not args.dry_run:
            options = {"onto": args.onto, "keep_steps": args.keep_steps, "branch": args.branch}
            found = land.land(tools, rows[0], **options)
            return output.tell(args.json, found.document, _print_landed, found)
        rows = several.in_order(tools.store, rows or ends.unlanded(tools.store))
        if args.dry_run:
            return _print_order(args.json, rows)
        landed, left = several.land_several(tools, rows, args.onto, args.branch)
    told = {
        "landed": [item.document for item in landed],
        "left": [{"run_id": row.run_id} | _error(error) for row, error in left],
    }
    output.tell(args.json, told, _print_all_landed, landed, left)
    return ExitCode.BLOCKED if left else ExitCode.DONE


def _print_order(as_json: bool, rows: Sequence[RunRow]) -> int:
    lines = [f"{row.run_id} {row.goal}" for row in rows]
    told = {"order": [row.run_id for row in rows]}
    return output.say(as_json, told, *(lines or [_NOTHING_TO_LAND]))


def _print_all_landed(landed: Sequence[Landed], left: Sequence[Left]) -> None:
    if not landed and not left:
        output.line(_NOTHING_TO_LAND)
    for found in landed:
        _print_landed(found)
    for row, error in left:
        output.line(output.paint("LEFT", "red"), f"{row.run_id} {row.goal}: {error.message}")
        for command in error.fix:
            output.line(f"  next: {command}")


def _print_landed(found: Landed) -> None:
    for below in found.below:
        _print_landed(below)
    if found.commit is None:
        output.line(
            f"nothing to land: {found.branch} already has all changes of run {found.run_id}"
        )
        return
    how = ", merged with what came meanwhile" if found.merged else ""
    how = ", where it was merged by hand" if found.by_hand else how
    landed = output.paint("LANDED", "green")
    output.line(landed, f"{found.commit[:12]} on {found.branch}{how}")
    output.line(f"  next: git show {found.commit[:12]}")
    output.line(f"  next: treadle undo {found.run_id}")


def rebase_run(args: Namespace) -> int:
    with working(args) as (tools, loaded):
        found, row = goals.rebase_run(tools, loaded.config, args.run)
        known = memory.recall(tools.store, row.run_id)
        failed = failed_commands(tools.layout, tools.store, row)[:_SHOWN]
    told = run_document(row, known) | {"conflicts": list(found.files)}
    output.tell(args.json, told, _print_rebased, (found, row, known, failed))
    return _code(row, known) if row.verdict else ExitCode.DONE


def _print_rebased(
    told: tuple[Rebased, RunRow, RunMemory, Sequence[FailedCommand]],
) -> None:
    found, row, known, failed = told
    output.line(output.paint("REBASED", "green"), f"{found.commit[:12]} on {found.base[:12]}")
    if found.files:
        output.line(f"  conflicts for the agents to resolve: {name_some(found.files)}")
    _print_run(row, known, failed)


def review_run(args: Namespace) -> int:
    refuse_inside_run(os.environ)
    if not args.back:
        return _leave_review(args)
    with working(args) as (tools, loaded):
        row = find_run(tools.store, args.run)
        said = comments.review(row.current_step_index, args.text, args.on, tools.now())
        row = goals.send_back(tools, loaded.config, row, said)
        known = memory.recall(tools.store, row.run_id)
        failed = failed_commands(tools.layout, tools.store, row)[:_SHOWN]
    output.tell(args.json, run_document(row, known), _print_run, row, known, failed)
    return _code(row, known)


def _leave_review(args: Namespace) -> int:
    layout = find_place(here(), os.environ).layout
    with Store.open(layout) as store:
        row = find_run(store, args.run)
        said = comments.review(row.current_step_index, args.text, args.on, store.now())
        for comment in said:
            comments.add(store, layout.run(row.run_id), row, comment)
    told = f"the next act step of {row.run_id} will read {plural(len(said), 'comment')}"
    found = {"run_id": row.run_id, "comments": [it._asdict() for it in said]}
    return output.say(args.json, found, told)


def undo_run(args: Namespace) -> int:
    project, _ = open_configured()
    with session.opened(project, watch=watcher(args.json), wait=args.wait) as tools:
        row = find_run(tools.store, args.run)
        found = land.undo(tools, row, with_later=args.with_later)
    return output.tell(args.json, found._asdict(), _print_undone, found)


def _print_undone(found: Undone) -> None:
    if found.above:
        output.line(f"undone first, because of the same lines: {', '.join(found.above)}")
    if found.undone is None:
        output.line(f"nothing to undo: {found.branch} has nothing of run {found.run_id} any more")
        return
    same = "the tree is as it was before" if found.exact else "later changes of other lines stay"
    output.line(output.paint("UNDONE", "green"), f"{found.undone[:12]} on {found.branch}; {same}")
    output.line(f"  next: treadle land {found.run_id}")


def prune_runs(args: Namespace) -> int:
    """Remove the workspaces of runs that have ended, and with --history the runs themselves."""
    project, _ = open_configured()
    with session.opened(project, watch=watcher(args.json)) as tools:
        days = min(args.older_than, _CENTURY)
        found = prune(
            tools,
            older_than=days,
            history=args.history,
            dry_run=args.dry_run,
            unlanded=args.unlanded,
        )
        trees = merge.tidy_all(project, tools.store, dry_run=args.dry_run)
    verb = "would remove" if args.dry_run else "removed"
    lines = [
        *(f"{verb} the workspace of {run_id}" for run_id in found.workspaces),
        *(f"{verb} run {run_id} with its branch" for run_id in found.runs),
        *(f"{verb} {name}, which no step needs" for name in found.archives),
        *(f"{verb} the worktree and branch of {task_id}" for task_id in trees.removed),
        *(f"kept {path}: {reason}" for path, reason, _ in trees.kept),
        *(line_ for work in found.unlanded for line_ in _lost(work, found.runs, args.dry_run)),
    ]
    told = {**found._asdict(), "dry_run": args.dry_run}
    told["unlanded"] = [work._asdict() for work in found.unlanded]
    told["worktrees"] = list(trees.removed)
    return output.say(args.json, told, *lines or ["nothing to remove"])


def _lost(work: UnlandedWork, gone: Sequence[str], dry_run: bool) -> Iterator[str]:
    """Say what goes with a run that passed and has not landed, or that it stays."""
    changed = name_some(work.files) or "its work"
    what = f"run {work.run_id} ({work.goal}) passed and has not landed: {changed}"
    if work.run_id in gone:
        yield f"{what} {'would be' if dry_run else 'is'} lost"
        return
    yield f"kept {what}"
    yield f"  next: treadle land {work.run_id}"
