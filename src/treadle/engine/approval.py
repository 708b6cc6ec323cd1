"""What a person approves or changes by hand, as a step of the run."""

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from treadle.agents.backend import AgentResult
from treadle.config.schema import AgentConfig, Config
from treadle.contract import messages
from treadle.contract.events import EventType, NewEvent
from treadle.engine import prompt
from treadle.engine.checks import observe
from treadle.engine.run import begin, comments, held, memory, resume
from treadle.engine.run.comments import Comment
from treadle.engine.run.memory import Held
from treadle.engine.run.order import RISKY_FILES, NamedAgent
from treadle.engine.run.run import Run, Tools, reach
from treadle.engine.run.run_files import Snapshot
from treadle.engine.run.step_folder import Stage, close_stage, open_stage
from treadle.engine.wheel import change, commit, decide, end, loop
from treadle.engine.wheel.decide import Turn
from treadle.engine.wheel.judge import Finding
from treadle.errors import (
    BlockedError,
    FormatError,
    GitError,
    InterruptedRun,
    TreadleError,
    stop_code,
)
from treadle.files import atomic, walk
from treadle.git import build, refs, repo, trees, workspace
from treadle.git.build import PatchFailed
from treadle.ids import HUMAN, local, utc
from treadle.layout import PLAN, WORKSPACE_DIFF
from treadle.store.runs import RunRow
from treadle.text import name_some, plural

_MAX_PLAN = 1 << 20
_MAX_DIFF = 64 << 20
_NAMED = 100


def require_decided(tools: Tools, row: RunRow, budgets: Collection[str]) -> None:
    """Refuse to raise the limit of risky files while a change over it waits to be looked at."""
    known = memory.recall(tools.store, row.run_id)
    if RISKY_FILES in budgets and known.waiting and known.waiting.what == "change":
        raise BlockedError(
            f"run {row.run_id} holds a change that nobody has looked at; a higher limit approves"
            " nothing",
            code="approval_waits",
            fix=memory.next_commands(row, known),
        )


def require_waiting(tools: Tools, row: RunRow, what: str | None = None) -> Held | None:
    """Return what a run waits for; refuse an approval or a rejection of anything else."""
    known = memory.recall(tools.store, row.run_id)
    waits, is_protected = (
        known.waiting,
        known.reason_code == memory.WAITS_FOR_APPROVAL and known.protected,
    )
    found = waits.what if waits else "protected" if is_protected else None
    if found is not None and row.status in ("stopped", "failed") and what in (None, found):
        return waits
    words = _ASKED.get(what or "", "your word")
    earlier = [event for event in tools.store.events(row.run_id) if event.type in _DECIDED]
    told = f"; {earlier[-1].type} at {local(earlier[-1].ts)}" if earlier else ""
    fix = memory.next_commands(row, known) or (f"treadle why {row.run_id}",)
    text = f"run {row.run_id} is not waiting for {words}{told}"
    raise TreadleError(text, code="nothing_to_approve", fix=fix)


_ASKED = {
    "change": "approval of a change",
    "plan": "approval of its plan",
    "protected": "approval of protected files",
}
_DECIDED = (
    *(EventType.CHANGE_APPROVED, EventType.PLAN_APPROVED),
    *(EventType.PROTECTED_APPROVED, EventType.REJECTED),
)


def reject(tools: Tools, row: RunRow, words: str) -> None:
    """Leave a person's words for the step that is taken again."""
    require_waiting(tools, row)
    if not words:
        return
    comment = Comment(utc(tools.now()), row.current_step_index, tools.mask.text(words))
    comments.add(tools.store, tools.layout.run(row.run_id), row, comment)


def approve(
    tools: Tools,
    row: RunRow,
    config: Config,
    what: str,
    *,
    budgets: Mapping[str, float],
    swaps: Mapping[str, str],
    lands: bool,
) -> Run:
    """Return the run, going on with what was approved; no agent is asked for it again."""
    waits = require_waiting(tools, row, what)
    if waits is None:
        return resume.resume_run(
            tools, row, config, budgets={}, swaps={}, approve=True, lands=lands
        )
    plan = _read_plan(tools, waits) if waits.what == "plan" else None
    run = resume.open_stopped(tools, row)
    resume.change_order(run, config, budgets, swaps)
    after = _bring_commit(run, waits) if plan is None else None
    reach("before_approval")
    run.record(*resume.raised(budgets), lands=lands)
    resume.make_ready(run)
    if run.row.status != row.status:  # something stood in the way
        return run
    if plan is not None:
        _take(run, waits, _plan_finding(waits, plan), plan)
    elif after is not None:
        _take(run, waits, _change_finding(run, after))
    return run


def _take(run: Run, waits: Held, finding: Finding, plan: str | None = None) -> None:
    """Commit the approval as a step by a human: folder, branch and store as with any other."""
    stage = open_stage(run, waits.role)
    if plan is not None:
        atomic.create(stage.folder / PLAN, plan.encode())
    elif finding.after:
        diff = trees.compare(run.tools.repo, run.tree, finding.after.tree).diff
        atomic.create(stage.live / WORKSPACE_DIFF, diff)
    is_edited = plan is not None and held.digest(plan) != waits.mark
    learnt = {"plan": plan} if is_edited else {}
    commit_step(run, stage, finding, f"with the {waits.what}", learnt)
    reach("after_approval")


def commit_step(
    run: Run, stage: Stage, finding: Finding, how: str, learnt: Mapping[str, object]
) -> None:
    """Commit a step that is a human's, with which the run goes on."""
    request = messages.encode(prompt.build_request(run, stage, observe.NOTHING, ""))
    answer = {"version": 1, "status": "ok", "summary": finding.message}
    entries = close_stage(stage, request, json.dumps(answer).encode() + b"\n", run.tools.mask)
    happened = (*finding.happened, NewEvent(EventType.RUN_RESUMED, how))
    events, given = run.events(happened), run.memory.letters_given
    turn = Turn(stage, AgentResult(message=finding.message), finding, (), events, given)
    found = decide.manifest(run, turn)
    kv = {**dict.fromkeys(resume.OF_ONE_END), **found.kv, **learnt}
    found = found._replace(row=found.row._replace(agent=HUMAN), kv=kv)
    done = commit.put_in_place(run, stage, entries, found, finding.built_in)
    loop.record_step(run, done._replace(told=finding.message))


def _read_plan(tools: Tools, waits: Held) -> str:
    """Return the plan as it lies there now; a person may have edited it."""
    data = walk.read(tools.layout.shared / waits.file, max_bytes=_MAX_PLAN)
    return tools.mask.text(data.decode(errors="replace"))


def _plan_finding(waits: Held, plan: str) -> Finding:
    is_edited = held.digest(plan) != waits.mark
    text = f"plan {'edited and ' if is_edited else ''}approved by a person"
    return Finding(message=text).noting(EventType.PLAN_APPROVED, text, edited=is_edited)


def _change_finding(run: Run, after: Snapshot) -> Finding:
    files = trees.changed_files(run.tools.repo.place, run.head, after.commit)
    told = {
        "before": Snapshot(run.head, run.tree)._asdict(),
        "after": after._asdict(),
        "files": [item.path for item in files[:_NAMED]],
    }
    text = f"{plural(len(files), 'changed file')} approved by a person"
    finding = Finding(message=text, after=after)
    finding = finding.noting(EventType.CHANGE_APPROVED, text, **after._asdict())
    return finding.noting(EventType.PATCH_APPLIED, text, **told)


def _bring_commit(run: Run, waits: Held) -> Snapshot:
    """Return the commit that was shown; where it is gone, it is made again out of its diff."""
    name, place = waits.commit, run.tools.repo
    try:
        if repo.tree_of(place, name) != waits.mark:
            raise GitError(f"{name} is another tree")
    except GitError:
        name = _made_again(run, waits)
    if waits.base == run.head and name:
        return Snapshot(name, waits.mark)
    run.tools.store.release(run.id, run.row.claim_epoch)
    text = f"the change that run {run.id} held is gone"
    raise BlockedError(text, code="held_lost", fix=[f"treadle run --resume {run.id} --reject"])


def _made_again(run: Run, waits: Held) -> str:
    place = run.folder.live / "held"
    try:
        patch = walk.read(run.tools.layout.shared / waits.file, max_bytes=_MAX_DIFF)
        built = build.from_patch(run.tools.repo, waits.base, patch, place, ws=None)
        if isinstance(built, PatchFailed) or built.tree != waits.mark:
            return ""
        text = f"{waits.role} {run.row.iteration}: {run.order.goal}\n\nTreadle-Run: {run.id}\n"
        name = build.commit(built, waits.base, text, run.tools.now(), held.author_of(run))
        refs.hold(run.tools.repo, run.id, name)
        return name
    except (FormatError, GitError, OSError):
        return ""


_SHOWN = 20


class Entered(NamedTuple):
    """How a run stands after a person was in it, and what was taken as which step."""

    row: RunRow
    known: memory.RunMemory
    step: int | None = None
    files: tuple[str, ...] = ()


def enter(tools: Tools, row: RunRow, work: Callable[[Path], None]) -> Entered:
    """Let `work` have the workspace of a run that waits; what it changes is judged as any step is.

    Whoever is killed in there finds everything as it was when they enter again.
    """
    _require_open(tools, row)
    try:
        run = resume.open_stopped(tools, row)
    except GitError as error:
        text = f"the work of run {row.run_id} is gone: {error.message}"
        fix = [memory.again(row) or "treadle process"]
        raise BlockedError(text, code="run_pruned", fix=fix) from error
    try:
        _make_ready(run)
        run.record(NewEvent(EventType.RUN_ENTERED, "a person works in the workspace"))
        reach("after_entered")
        work(run.workspace.path)
        reach("after_left")
        found = _take_changes(run)
    except BaseException:
        tools.store.release(run.id, run.row.claim_epoch)
        raise
    end.end_run(run)
    return found


def _require_open(tools: Tools, row: RunRow) -> None:
    """Refuse a run that has no workspace here, or that has passed."""
    known, name = memory.recall(tools.store, row.run_id), row.run_id
    if known.is_of_fleet:
        raise BlockedError(
            f"run {name} is of the fleet and has no workspace on this machine",
            code="run_elsewhere",
            fix=memory.next_commands(row, known),
        )
    if row.branch is None:
        raise BlockedError(
            f"run {name} works in the project itself",
            code="no_workspace",
            fix=[f"treadle why {name}"],
        )
    if row.status == "passed":
        where = "has landed" if known.landed_commit else "has passed"
        text = f"run {name} {where}; there is nothing to mend in it"
        fix = memory.next_commands(row, known)
        raise BlockedError(text, code="not_resumable", fix=fix)


def _make_ready(run: Run) -> None:
    """Bring branch and workspace to the run's head, unless a person was killed in there."""
    found = refs.resolve(run.tools.repo, run.row.branch or "")
    if found not in (None, run.head):
        put_back = f"git branch -f {run.row.branch} {run.head[:12]}"
        text = f"branch {run.row.branch} was moved by someone else"
        raise BlockedError(text, code="branch_moved", fix=[put_back])
    last = run.tools.store.events(run.id)[-1:]
    if last and last[0].type == EventType.RUN_ENTERED and run.workspace.path.is_dir():
        return
    resume.keep_interrupted(run)
    if failed := begin.reopen(run):
        run.tools.note(run.id, begin.setup_failure(run, failed))
        if failed.reason == "stopped":  # by a person, or nobody knows if all of it has ended
            raise InterruptedRun(failed.detail, exit_code=stop_code(failed.detail))
    workspace.welcome(run.workspace, run.head)


def _take_changes(run: Run) -> Entered:
    """Commit what was changed as a do step by a human: a check comes next."""
    files = tuple(item.path for item in workspace.changes(run.workspace))
    if not files:
        return Entered(run.row, run.memory)
    asked, human = run.order, NamedAgent(name=HUMAN, config=AgentConfig(edits=True))
    run.order = structs.replace(asked, agents=asked.agents | {"do": human})
    text = f"{plural(len(files), 'file')} changed by a person: {name_some(files[:_SHOWN])}"
    stage = open_stage(run, "do")
    finding = change.take(run, stage, Finding(message=text))
    commit_step(run, stage, finding, "with what a person changed", {})
    run.order = asked
    if run.row.status == "running":
        run.end("stopped", "interrupted", f"a person took step {stage.index}")
    return Entered(run.row, run.memory, stage.index, files)
