"""Turn what an agent changed into a judged commit, or undo what it may not change."""

import time
from collections.abc import Sequence

from msgspec.structs import replace

from treadle.agents import table
from treadle.contract.events import EventType, NewEvent, StepError
from treadle.engine.checks import clean, policy
from treadle.engine.run import begin, held
from treadle.engine.run.order import RISKY_FILES
from treadle.engine.run.run import Run
from treadle.engine.run.run_files import Snapshot
from treadle.engine.run.step_folder import Stage
from treadle.engine.wheel.judge import Finding
from treadle.errors import FormatError, GitError
from treadle.files import atomic, beneath, walk
from treadle.git import build, call, judge, workspace
from treadle.git.build import Built, PatchFailed
from treadle.git.judge import Judged
from treadle.git.workspace import Change, Survey
from treadle.layout import WORKSPACE_DIFF
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
        seen = clean.edited_submodules(run, time.time() - stage.seconds())
        finding = replace(finding, happened=(*finding.happened, *seen))
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
    elif found.changes and (taken.unread or not taken.error):
        taken = _built(run, stage, taken, found.changes)
    elif proposes:
        taken = _apply(run, stage, taken)
    if taken.error and found.changes and not taken.after:
        begin.set_aside(run, stage.live / WORKSPACE_DIFF)
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
    is_good = finding.unread or not (finding.error or finding.skipped)
    return stage.role == "act" and is_good


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
        if error.code in call.BEFALLS:
            raise
        return finding.failed(StepError.PATCH_FAILED, error.message)


def _from_edits(run: Run, stage: Stage, finding: Finding, edits: tuple[Change, ...]) -> Finding:
    built = build.from_edits(run.workspace, run.head, stage.scratch, edits)
    judged = _judge(run, stage, built)
    atomic.create(stage.live / WORKSPACE_DIFF, judged.diff)
    return replace(_admit(run, stage, finding, built, judged), built_in=built.scratch)


def _from_patch(run: Run, stage: Stage, finding: Finding) -> Finding:
    """Build, judge and commit `patch.diff` without touching any work tree."""
    try:
        patch = walk.read(stage.patch, max_bytes=_MAX_PATCH)
    except FormatError as error:
        return finding.failed(StepError.PATCH_REFUSED, error.message)
    within = run.tools.repo.prefix + (run.order.agent(stage.role).config.path or "")
    built = build.from_patch(
        run.tools.repo, run.head, patch, stage.scratch, subdir=within, ws=run.workspace
    )
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
    path = run.order.agent(stage.role).config.path
    inside = run.tools.repo.prefix + path if path else run.bounds
    named = policy.commands(run)
    judged = judge.judge(built.scratch, run.tree, built.tree, named, inside=inside)
    return policy.rate(run, stage.role, built.scratch, judged)


def _admit(run: Run, stage: Stage, finding: Finding, built: Built, judged: Judged) -> Finding:
    if built.tree == run.tree:
        return finding
    if judged.refusals:
        rules = (f"{item.rule}: {item.message}" for item in judged.refusals[:5])
        return _refused(finding, "; ".join(rules))
    if risky := [f"{item.path} ({item.reason})" for item in judged.risky]:
        text = f"risky files: {name_some(risky)}"
        finding = finding.noting(EventType.RISKY_CHANGE, text, files=risky[:100])
    if over := policy.exceeded(run.order.budgets, judged):
        why = f"the change is over budget: {over.key} is {over.limit:g}, it has {over.used:g}"
        why += f": {name_some(risky)}" if over.key == RISKY_FILES else ""
        kept = held.hold_change(run, stage, built, judged.diff, why)
        finding = finding.noting(EventType.BUDGET_EXCEEDED, why, **over._asdict())
        return replace(finding.failed(StepError.BUDGET_EXCEEDED, why), held=kept)
    return _commit(run, stage, finding, built, judged)


def _commit(run: Run, stage: Stage, finding: Finding, built: Built, judged: Judged) -> Finding:
    message, author = held.message_of(run, stage), held.author_of(run)
    new = build.commit(built, run.head, message, run.tools.now(), author)
    after = Snapshot(new, built.tree)
    told = {
        "before": Snapshot(run.head, run.tree)._asdict(),
        "after": after._asdict(),
        "files": [item.path for item in judged.files[:100]],
    }
    text = f"{plural(len(judged.files), 'file')} changed"
    finding = finding.noting(EventType.PATCH_APPLIED, text, **told)
    if finding.unread:
        finding = replace(finding, message=f"{finding.message}; what it changed is taken over")
    return replace(finding, after=after)
