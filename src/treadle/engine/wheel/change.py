"""Turn what an agent changed into a judged commit, or undo what it may not change."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from msgspec import structs

from treadle.agents import table
from treadle.contract import EventType, StepError
from treadle.engine.run.order import RISKY_FILES, Exceeded
from treadle.engine.run.run import Run, name_some
from treadle.engine.run.run_files import Snapshot
from treadle.engine.run.step_folder import Stage
from treadle.engine.wheel.judge import Finding
from treadle.errors import FormatError, GitError
from treadle.files import atomic, beneath, walk
from treadle.git import build, judge, workspace
from treadle.git.build import Built, PatchFailed
from treadle.git.judge import Judged
from treadle.git.scratch import Scratch
from treadle.git.workspace import Change, Survey
from treadle.ids import HUMAN, utc
from treadle.layout import PATCH
from treadle.tasks import claim, lanes
from treadle.text import plural

_NAMED = 20
_TRACKED = ("modified", "deleted", "typechange")


class Trespass(NamedTuple):
    """What an agent did in the workspace that no agent, or not this one, may do."""

    paths: tuple[str, ...]
    what: str = "changed files it may only read"

    @property
    def sentence(self) -> str:
        """Say it to the user."""
        return f"the agent {self.what}: {name_some(self.paths)}"


def mend_workspace(run: Run) -> Trespass | None:
    """Make the workspace anew if an agent removed it or put something in its place."""
    path = run.workspace.path
    if walk.is_folder(path):
        return None
    beneath.remove_tree(path)
    workspace.create(run.workspace, run.head)
    run.ignored = frozenset()
    return Trespass(("the workspace itself",))


def look(run: Run) -> Survey:
    """List what differs in the workspace, and remember what git ignores there."""
    found = workspace.survey(run.workspace)
    run.ignored = frozenset(found.ignored)
    return found


def look_after_agent(run: Run, stage: Stage) -> Survey:
    """List what differs; files of a working agent that git ignores are named, not taken."""
    before = run.ignored
    found = look(run)
    new = tuple(sorted(run.ignored - before)) if stage.role in ("do", "act") else ()
    if new:
        run.timeline.add(
            EventType.IGNORED_NOT_HARVESTED,
            f"git ignores these, so they stay in the workspace: {name_some(new)}",
            count=len(new),
            files=list(new[:_NAMED]),
        )
    return found


def special(found: Survey) -> Trespass | None:
    """Return the pipes, sockets and devices that an agent left; they are gone from the workspace.

    Git would wait for one of them for ever, or read without an end.
    """
    what = "left pipes, sockets or devices in the workspace, which were removed"
    return Trespass(found.special, what) if found.special else None


def undo_agents(run: Run, stage: Stage) -> Trespass | None:
    """Undo edits of an agent that may not edit; tracked files among them fail the step."""
    if lost := mend_workspace(run):
        return lost
    found = look_after_agent(run, stage)
    changes = found.changes
    if changes:
        _save_and_restore(run, stage, "workspace-changes.diff", changes)
    if left := special(found):
        return left
    if not changes:
        return None
    tracked = tuple(change.path for change in changes if change.kind in _TRACKED)
    if tracked:
        return Trespass(tracked)
    names = name_some(tuple(change.path for change in changes))
    run.timeline.add(EventType.WORKSPACE_RESTORED, f"new files were set aside: {names}")
    return None


def undo_commands(run: Run, stage: Stage, what: str) -> None:
    """Undo what check commands left behind; their ignored files stay."""
    found = look(run)
    if found.changes:
        _save_and_restore(run, stage, f"{what}-changes.diff", found.changes)
    paths = (*(change.path for change in found.changes), *found.special)
    if not paths:
        return
    run.timeline.add(
        EventType.COMMAND_CHANGED_FILES,
        f"{what} commands changed files, which were put back: {name_some(paths)}",
        files=list(paths[:_NAMED]),
    )


def set_aside(run: Run, stage: Stage) -> None:
    """Keep the edits of a failed turn as a diff and put the workspace back."""
    if changes := look_after_agent(run, stage).changes:
        _save_and_restore(run, stage, "workspace.diff", changes)


def _save_and_restore(run: Run, stage: Stage, name: str, changes: tuple[Change, ...]) -> None:
    build.write_patch(run.workspace, run.head, stage.live / name, changes)
    workspace.restore(run.workspace, run.head)


MAX_PATCH = 64 << 20


class RefusedChange(NamedTuple):
    """A change that does not come in, and why."""

    error: StepError
    message: str
    over: Exceeded | None = None


class Accepted(NamedTuple):
    """A change that became a commit; the branch does not stand on it yet.

    `built_in` is where it was built, if out of the workspace's own files.
    """

    after: Snapshot
    built_in: Scratch | None = None


def take(run: Run, stage: Stage, finding: Finding) -> tuple[Finding, Accepted]:
    """Bring in what the agent may change, put back what it may not."""
    if run.order.in_project:
        return finding, unchanged(run)
    if table.may_edit(run.order.agent(stage.role).config, stage.role):
        if lost := mend_workspace(run):
            finding = finding.failed(StepError.BOUNDARY_VIOLATION, lost.sentence)
        if finding.error:
            set_aside(run, stage)
            return finding, unchanged(run)
        found = _built(_from_edits, run, stage)
        edited = found is not None
    else:
        trespass = undo_agents(run, stage)
        if trespass:
            finding = finding.failed(StepError.BOUNDARY_VIOLATION, trespass.sentence)
        found, edited = None, False
    if stage.role == "act" and not finding.error and not finding.skipped:
        found = _with_patch(run, stage, found)
    return _settle(run, stage, finding, found, edited)


def _settle(
    run: Run, stage: Stage, finding: Finding, found: Accepted | RefusedChange | None, edited: bool
) -> tuple[Finding, Accepted]:
    if isinstance(found, Accepted):
        return finding, found
    if isinstance(found, RefusedChange):
        finding = replace(finding.failed(found.error, found.message), over=found.over)
        if edited:
            set_aside(run, stage)
    return finding, unchanged(run)


def unchanged(run: Run) -> Accepted:
    """Return what the run stood on before this step."""
    return Accepted(Snapshot(run.head, run.tree))


def _with_patch(
    run: Run, stage: Stage, edited: Accepted | RefusedChange | None
) -> Accepted | RefusedChange | None:
    if not stage.patch.is_file():
        if edited is None:
            run.timeline.add(EventType.NO_PATCH, "act proposed no change")
        return edited
    if edited is not None:
        text = "edits of the workspace and patch.diff together; an act step gives one of them"
        return RefusedChange(StepError.PROTOCOL_ERROR, text)
    return _built(_from_patch, run, stage)


def _built(
    build_change: Callable[[Run, Stage], Accepted | RefusedChange | None], run: Run, stage: Stage
) -> Accepted | RefusedChange | None:
    """Build a change; what git cannot build is the agent's failure, not treadle's."""
    try:
        return build_change(run, stage)
    except GitError as error:
        return RefusedChange(StepError.PATCH_FAILED, error.message)


def _from_edits(run: Run, stage: Stage) -> Accepted | RefusedChange | None:
    """Take over what an agent changed in the workspace; None if nothing."""
    found = look_after_agent(run, stage)
    if left := special(found):
        return RefusedChange(StepError.BOUNDARY_VIOLATION, left.sentence)
    if not found.changes:
        return None
    built = build.from_edits(run.workspace, run.head, stage.scratch, found.changes)
    judged = _judge(run, stage, built)
    atomic.create(stage.live / "workspace.diff", judged.diff)
    taken = _admit(run, stage, built, judged)
    return taken._replace(built_in=built.scratch) if isinstance(taken, Accepted) else taken


def _from_patch(run: Run, stage: Stage) -> Accepted | RefusedChange:
    """Build, judge and commit `patch.diff` without touching any work tree."""
    try:
        patch = walk.read(stage.patch, max_bytes=MAX_PATCH)
    except FormatError as error:
        return RefusedChange(StepError.PATCH_REFUSED, error.message)
    built = build.from_patch(
        run.tools.repo,
        run.head,
        patch,
        stage.scratch,
        subdir=run.order.agent(stage.role).config.path,
        ws=run.workspace,
    )
    if isinstance(built, PatchFailed) and built.rule:
        text = f"the change is refused ({built.rule}: {built.message})"
        return RefusedChange(StepError.PATCH_REFUSED, text)
    if isinstance(built, PatchFailed):
        return RefusedChange(StepError.PATCH_FAILED, f"patch.diff does not apply: {built.message}")
    for note in built.notes:
        run.timeline.add(EventType.PATCH_RETRIED, note)
    return _admit(run, stage, built, _judge(run, stage, built))


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


def _admit(run: Run, stage: Stage, built: Built, judged: Judged) -> Accepted | RefusedChange:
    if built.tree == run.tree:
        return unchanged(run)
    if judged.refusals:
        rules = "; ".join(f"{item.rule}: {item.message}" for item in judged.refusals[:5])
        return RefusedChange(StepError.PATCH_REFUSED, f"the change is refused ({rules})")
    if taken := _reserved(run, judged):
        return taken
    if judged.risky:
        files = [f"{item.path} ({item.reason})" for item in judged.risky]
        text = f"risky files: {_risky_names(judged)}"
        run.timeline.add(EventType.RISKY_CHANGE, text, files=files[:100])
    if over := _exceeded(run, judged):
        return _over_budget(run, stage, judged, over)
    return _commit(run, stage, built, judged)


def _reserved(run: Run, judged: Judged) -> RefusedChange | None:
    """Refuse a change of files that somebody else keeps to another task."""
    rows = run.tools.store.reservations(utc(run.tools.now()))
    task = run.tools.store.task(run.order.task_id or "") if rows else None
    owner = task.owner if task else HUMAN
    paths = [item.path for item in judged.files] if rows else []
    found = claim.conflicts(rows, paths, run.order.task_id, owner)
    if not found:
        return None
    named = "; ".join(lanes.reserved(path, row).message for path, row in found[:5])
    return RefusedChange(StepError.PATCH_REFUSED, f"the change is refused ({named})")


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
            return Exceeded(key=key, limit=limit, used=amount)
    return None


def _over_budget(run: Run, stage: Stage, judged: Judged, over: Exceeded) -> RefusedChange:
    """Let a change wait for a human who has looked at it."""
    kept = PATCH if stage.patch.is_file() else "files/workspace.diff"
    where = run.tools.layout.relative(run.folder.step(stage.index, stage.role))
    text = f"the change is over budget: {over.key} is {over.limit:g}, it has {over.used:g}"
    if over.key == RISKY_FILES:
        text += f": {_risky_names(judged)}"
    text += f"; look at {where}/{kept}, then allow it with --budget {over.needed}"
    data = structs.asdict(over)
    run.timeline.add(EventType.BUDGET_EXCEEDED, text, **data)
    return RefusedChange(StepError.BUDGET_EXCEEDED, text, over)


def _risky_names(judged: Judged) -> str:
    return name_some(tuple(f"{item.path} ({item.reason})" for item in judged.risky))


def _commit(run: Run, stage: Stage, built: Built, judged: Judged) -> Accepted:
    message = f"{stage.role} {stage.iteration}: {run.order.goal}\n\nTreadle-Run: {run.id}\n"
    author = build.author_of(run.workspace.config)
    new = build.commit(built, run.head, message, run.tools.now(), author)
    after = Snapshot(new, built.tree)
    run.timeline.add(
        EventType.PATCH_APPLIED,
        f"{plural(len(judged.files), 'file')} changed",
        before=Snapshot(run.head, run.tree)._asdict(),
        after=after._asdict(),
        files=[item.path for item in judged.files[:100]],
    )
    return Accepted(after)
