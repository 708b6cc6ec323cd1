"""Deal with what an agent or a command did to the workspace."""

from typing import NamedTuple

from treadle.contract.event import EventType
from treadle.engine.run.run import Run, name_some
from treadle.engine.run.step_folder import Stage
from treadle.files import remove, walk
from treadle.git import diff, workspace
from treadle.git.workspace import Change, Survey

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
    remove.remove_tree(path)
    old = run.workspace
    run.workspace = workspace.create(old.repo, path, old.index, run.head, old.branch, old.runner)
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
    diff.write(run.workspace, run.head, stage.live / name, changes)
    workspace.restore(run.workspace, run.head)
