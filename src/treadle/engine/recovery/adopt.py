"""Take over a step that was finished and uploaded, but whose worker died before its row."""

import hashlib

from treadle.contract.event import EventType
from treadle.engine.elsewhere import archive
from treadle.engine.elsewhere.archive import Shelf
from treadle.engine.run import run_files
from treadle.engine.run.run import Archive, Run
from treadle.engine.run.run_files import RECONCILED, Manifest
from treadle.engine.wheel import commit
from treadle.errors import FormatError, GitError
from treadle.files import remove, sync
from treadle.git import refs, remote
from treadle.layout import step_name
from treadle.project import key


def adopt(run: Run, shelf: Shelf) -> bool:
    """Commit the step that an earlier owner left, if it is whole and the very next one."""
    prefix = f"{archive.folder(run.id)}{step_name(run.row.current_step_index + 1, '')}"
    return any(_adopt(run, shelf, name) for name in reversed(shelf.names(prefix)))


def _adopt(run: Run, shelf: Shelf, name: str) -> bool:
    data = shelf.get(name)
    staged = run.folder.steps / f"{name.rpartition('/')[2]}.tmp-adopted"
    try:
        body = archive.opened(data, archive.step_of(name), key.read(run.tools.env))
        archive.unpack(body, staged)
        found, digest = run_files.read_step(staged)
        pack = archive.held(body)
    except FormatError as error:
        run.timeline.add(EventType.ARCHIVE_REFUSED, error.message, archive=name, code=error.code)
        remove.remove_tree(staged)
        return False
    if found.before.commit != run.head or not _is_of(run, found, name):
        remove.remove_tree(staged)
        return False
    if pack:
        remote.unpack(run.tools.repo, pack)
    sync.rename_new(staged, run.folder.step(found.row.step_index, found.row.role))
    problem = _move_branch(run, found)
    sealed = Archive(name, hashlib.sha256(data).hexdigest())
    commit.settle(run, _renumbered(run, found), digest, sealed)
    commit.stand_still(run, problem)
    return True


def _move_branch(run: Run, found: Manifest) -> GitError | None:
    """Bring the run's branch to the step's commit; a fresh clone does not have it yet."""
    name = run.row.branch or ""
    if name and refs.resolve(run.tools.repo, name) is None:
        refs.create(run.tools.repo, name, found.before.commit)
    return commit.move_branch(run, found.before, found.after)


def _is_of(run: Run, found: Manifest, name: str) -> bool:
    row = found.row
    return archive.of_step(row.run_id, row.step_index, row.role) == archive.step_of(name)


def _renumbered(run: Run, found: Manifest) -> Manifest:
    """Put the step's events behind what the timeline has had since."""
    for event in found.events:
        run.timeline.add(EventType(event.type), event.message, **dict(event.data or {}))
    run.timeline.add(EventType.RECONCILED_STEP, RECONCILED, step=found.row.step_dir)
    return found._replace(events=run.timeline.take())
