"""Change a task, whether it is a mission's or one of its own."""

from datetime import datetime

from treadle.layout import Layout
from treadle.mail import claim, effect
from treadle.missions import taskfile
from treadle.store.store import Store
from treadle.tasks import files, worktree
from treadle.tasks.task import Changed


def find(
    layout: Layout, store: Store, task: str, mission: str | None, now: datetime
) -> tuple[str, list[str]]:
    """Return the id of the task that is meant, and what was wrong with files on the way."""
    said = files.take_over(store, layout.mail, task, now)
    return taskfile.resolve(layout, store, task, mission, now), said


def require_clean(layout: Layout, store: Store, task_id: str) -> None:
    """Refuse to move a mission's task while the work tree is not clean."""
    row = store.task(task_id)
    if row and row.mission:
        worktree.require_clean(layout.root)


def finish(store: Store, found: Changed, now: datetime) -> None:
    """Put the letters about a task that is done away."""
    if found.after.lane == "done":
        effect.refresh(store, store.mail, now)
        claim.archive_task(store, store.mail, found.after.task_id)


def document(found: Changed) -> dict[str, object]:
    """Return a move as programs get it."""
    before, after = found.before, found.after
    return {"task_id": after.task_id, "from_lane": before.lane, "to_lane": after.lane}
