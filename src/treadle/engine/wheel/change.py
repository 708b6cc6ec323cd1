"""Turn what an agent changed into a judged commit, or undo what it may not change."""

from collections.abc import Sequence
from dataclasses import replace

from treadle.agents import table
from treadle.contract import EventType, NewEvent, StepError
from treadle.engine.run import begin
from treadle.engine.run.order import RISKY_FILES, Exceeded
from treadle.engine.run.run import Run
from treadle.engine.run.run_files import Snapshot
from treadle.engine.run.step_folder import Stage
from treadle.engine.wheel.judge import Finding
from treadle.errors import FormatError, GitError
from treadle.files import atomic, beneath, walk
from treadle.git import build, judge, workspace
from treadle.git.build import Built, PatchFailed
from treadle.git.judge import Judged
from treadle.git.workspace import Change, Survey
from treadle.ids import HUMAN, utc
from treadle.layout import PATCH
from treadle.tasks import claim, lanes
from treadle.text import name_some, plural

_NAMED = 20
_TRACKED = ("modified", "deleted", "typechange")
_MAX_PATCH = 64 << 20


def take(run: Run, stage: Stage, finding: Finding) -> Finding:
    """Bring in what the agent may change, put back what it may not."""
    if run.order.in_project:
        return finding
    if mend_workspace(run):
        return _trespassed(finding, "changed files it may only read", ("the workspace itself",))
    before, may_edit = run.ignored, table.may_edit(run.order.agent(stage.role).config, stage.role)
    if may_edit:
        found = begin.survey(run)
    else:
        found = begin.set_aside(run, stage.live / "workspace-changes.diff")
    new = tuple(sorted(run.ignored - before)) if stage.role in ("do", "act") else ()
    if new:
        text = f"git ignores these, so they stay in the workspace: {name_some(new)}"
        told = {"count": len(new), "files": list(new[:_NAMED])}
        finding = finding.noting(EventType.IGNORED_NOT_HARVESTED, text, **told)
    if may_edit:
        return _harvest(run, stage, finding, found)
    finding = _undone(finding, found)
    return _apply(run, stage, finding) if _proposes(stage, finding) else finding


def mend_workspace(run: Run) -> bool:
    """Make the workspace anew if an agent removed it or put something in its place."""
    ws = run.workspace
    if walk.is_folder(ws.path):
        return False
    beneath.remove_tree(ws.path)
    workspace.create(ws, run.head)
    run.ignored = frozenset()
    return True


def undo_commands(run: Run, stage: Stage) -> tuple[NewEvent, ...]:
    """Undo what check commands left behind; their ignored files stay."""
    found = begin.set_aside(run, stage.live / "check-changes.diff")
    paths = (*(change.path for change in found.changes), *found.special)
    if not paths:
        return ()
    text = f"check commands changed files, which were put back: {name_some(paths)}"
    files = {"files": list(paths[:_NAMED])}
    return (NewEvent(EventType.COMMAND_CHANGED_FILES, text, files),)


def _harvest(run: Run, stage: Stage, finding: Finding, found: Survey) -> Finding:
    """Take over what an agent changed where it may; what does not come in is kept as a diff."""
    taken = _without_special(finding, found)
    proposes = _proposes(stage, taken)
    if found.changes and proposes and stage.patch.is_file():
        text = "edits of the workspace and patch.diff together; an act step gives one of them"
        taken = taken.failed(StepError.PROTOCOL_ERROR, text)
    elif found.changes and not taken.error:
        taken = _built(run, stage, taken, found.changes)
    elif proposes:
        taken = _apply(run, stage, taken)
    if taken.error and found.changes:
        begin.set_aside(run, stage.live / "workspace.diff")
    return taken


def _undone(finding: Finding, found: Survey) -> Finding:
    """Judge what was undone, of an agent that may not edit; tracked files fail the step."""
    if found.special or not found.changes:
        return _without_special(finding, found)
    tracked = tuple(change.path for change in found.changes if change.kind in _TRACKED)
    if tracked:
        return _trespassed(finding, "changed files it may only read", tracked)
    names = name_some(tuple(change.path for change in found.changes))
    return finding.noting(EventType.WORKSPACE_RESTORED, f"new files were set aside: {names}")


def _without_special(finding: Finding, found: Survey) -> Finding:
    """Fail an agent that left what git would wait for, or read without an end; it is gone."""
    what = "left pipes, sockets or devices in the workspace, which were removed"
    return _trespassed(finding, what, found.special) if found.special else finding


def _trespassed(finding: Finding, what: str, paths: Sequence[str]) -> Finding:
    return finding.failed(StepError.BOUNDARY_VIOLATION, f"the agent {what}: {name_some(paths)}")


def _proposes(stage: Stage, finding: Finding) -> bool:
    return stage.role == "act" and not finding.error and not finding.skipped


def _apply(run: Run, stage: Stage, finding: Finding) -> Finding:
    if not stage.patch.is_file():
        return finding.noting(EventType.NO_PATCH, "act proposed no change")
    return _built(run, stage, finding)


def _built(run: Run, stage: Stage, finding: Finding, edits: tuple[Change, ...] = ()) -> Finding:
    """Build a change; what git cannot build is the agent's failure, not treadle's."""
    try:
        if edits:
            return _from_edits(run, stage, finding, edits)
        return _from_patch(run, stage, finding)
    except GitError as error:
        return finding.failed(StepError.PATCH_FAILED, error.message)


def _from_edits(run: Run, stage: Stage, finding: Finding, edits: tuple[Change, ...]) -> Finding:
    built = build.from_edits(run.workspace, run.head, stage.scratch, edits)
    judged = _judge(run, stage, built)
    atomic.create(stage.live / "workspace.diff", judged.diff)
    return replace(_admit(run, stage, finding, built, judged), built_in=built.scratch)


def _from_patch(run: Run, stage: Stage, finding: Finding) -> Finding:
    """Build, judge and commit `patch.diff` without touching any work tree."""
    try:
        patch = walk.read(stage.patch, max_bytes=_MAX_PATCH)
    except FormatError as error:
        return finding.failed(StepError.PATCH_REFUSED, error.message)
    inside, ws = run.order.agent(stage.role).config.path, run.workspace
    built = build.from_patch(run.tools.repo, run.head, patch, stage.scratch, subdir=inside, ws=ws)
    if isinstance(built, PatchFailed) and built.rule:
        return _refused(finding, f"{built.rule}: {built.message}")
    if isinstance(built, PatchFailed):
        text = f"patch.diff does not apply: {built.message}"
        return finding.failed(StepError.PATCH_FAILED, text)
    for note in built.notes:
        finding = finding.noting(EventType.PATCH_RETRIED, note)
    return _admit(run, stage, finding, built, _judge(run, stage, built))


def _refused(finding: Finding, why: str) -> Finding:
    return finding.failed(StepError.PATCH_REFUSED, f"the change is refused ({why})")


def _judge(run: Run, stage: Stage, built: Built) -> Judged:
    inside = run.order.agent(stage.role).config.path
    return judge.judge(built.scratch, run.tree, built.tree, _commands(run), inside=inside)


def _commands(run: Run) -> set[str]:
    """Return the words of every agent's command: changing such a file is risky."""
    words = {
        word
        for agent in run.order.agents.values()
        for word in (*(agent.config.cmd or ()), *(agent.config.run or ()))
    }
    return {word.removeprefix("./") for word in words}


def _admit(run: Run, stage: Stage, finding: Finding, built: Built, judged: Judged) -> Finding:
    if built.tree == run.tree:
        return finding
    if judged.refusals:
        rules = (f"{item.rule}: {item.message}" for item in judged.refusals[:5])
        return _refused(finding, "; ".join(rules))
    if reserved := _reserved(run, judged):
        return _refused(finding, reserved)
    if judged.risky:
        risky = [f"{item.path} ({item.reason})" for item in judged.risky]
        text = f"risky files: {name_some(risky)}"
        finding = finding.noting(EventType.RISKY_CHANGE, text, files=risky[:100])
    if over := _exceeded(run, judged):
        return _over_budget(run, stage, finding, judged, over)
    return _commit(run, stage, finding, built, judged)


def _reserved(run: Run, judged: Judged) -> str:
    """Say which files of a change somebody else keeps to another task."""
    rows = run.tools.store.reservations(utc(run.tools.now()))
    if not rows:
        return ""
    task = run.tools.store.task(run.order.task_id or "")
    paths = [item.path for item in judged.files]
    found = claim.conflicts(rows, paths, run.order.task_id, task.owner if task else HUMAN)
    return "; ".join(lanes.reserved(path, row).message for path, row in found[:5])


def _exceeded(run: Run, judged: Judged) -> Exceeded | None:
    """Return the first budget of one change that is too small for this one."""
    used = {
        "max_changed_files": len(judged.files),
        "max_patch_kb": judged.patch_kb,
        RISKY_FILES: len(judged.risky),
    }
    for key, amount in used.items():
        limit = getattr(run.order.budgets, key)
        if limit is not None and amount > limit:
            return Exceeded(key, limit, amount)
    return None


def _over_budget(
    run: Run, stage: Stage, finding: Finding, judged: Judged, over: Exceeded
) -> Finding:
    """Let a change wait for a human who has looked at it."""
    kept = PATCH if stage.patch.is_file() else "files/workspace.diff"
    where = run.tools.layout.relative(stage.final)
    text = f"the change is over budget: {over.key} is {over.limit:g}, it has {over.used:g}"
    if over.key == RISKY_FILES:
        text += f": {name_some([f'{item.path} ({item.reason})' for item in judged.risky])}"
    text += f"; look at {where}/{kept}, then allow it with --budget {over.needed}"
    finding = finding.noting(EventType.BUDGET_EXCEEDED, text, **over._asdict())
    return replace(finding.failed(StepError.BUDGET_EXCEEDED, text), over=over)


def _commit(run: Run, stage: Stage, finding: Finding, built: Built, judged: Judged) -> Finding:
    message = f"{stage.role} {stage.iteration}: {run.order.goal}\n\nTreadle-Run: {run.id}\n"
    author = build.author_of(run.workspace.config)
    new = build.commit(built, run.head, message, run.tools.now(), author)
    after = Snapshot(new, built.tree)
    told = {
        "before": Snapshot(run.head, run.tree)._asdict(),
        "after": after._asdict(),
        "files": [item.path for item in judged.files[:100]],
    }
    text = f"{plural(len(judged.files), 'file')} changed"
    return replace(finding.noting(EventType.PATCH_APPLIED, text, **told), after=after)
