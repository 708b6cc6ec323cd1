"""Make, restore, move and remove the private checkout a run works in."""

from collections.abc import Iterable
from pathlib import Path

from treadle.errors import GitError, argument
from treadle.files import remove as removal
from treadle.git import call, checkout, config, gitdir, plain, special
from treadle.git import changes as listing
from treadle.git.call import Runner, unconfined
from treadle.git.changes import Change as Change
from treadle.git.changes import changes as changes
from treadle.git.changes import survey as survey
from treadle.git.checkout import Workspace as Workspace
from treadle.git.repo import Repo
from treadle.git.scratch import Scratch

_STRANGERS = ("added", "repository", "folder")
_PASSES = 4  # restoring a .gitignore can bring out files that the changed one had hidden


def create(
    repo: Repo,
    path: Path,
    index: Path,
    commit: str,
    base_branch: str | None,
    runner: Runner = unconfined,
) -> Workspace:
    """Make the workspace at `commit`, or bring a half-made one there; `runner` confines git."""
    ws = Workspace(
        repo=repo,
        path=path,
        index=index,
        branch=base_branch,
        config=config.read(repo),
        runner=runner,
    )
    index.parent.mkdir(parents=True, exist_ok=True)
    if _make_folder(path):
        checkout.forget(ws)
        index.unlink(missing_ok=True)
        _check_out(ws, commit)
        gitdir.write(ws, commit)
    else:
        restore(ws, commit)
    return ws


def restore(ws: Workspace, commit: str) -> tuple[Change, ...]:
    """Bring the files back to `commit` and return what differed; ignored files stay."""
    special.clear(ws.path)
    known = checkout.commit_of(ws) if ws.index.is_file() else None
    if known is None:
        ws.index.unlink(missing_ok=True)
    if known != commit:
        _check_out(ws, commit)
    first = found = _look(ws, commit)
    for _ in range(_PASSES):
        if not found:
            gitdir.write(ws, commit)
            return first
        _remove_strangers(ws, found)
        _check_out(ws, commit)
        found = changes(ws)
    raise GitError(
        f"{ws.path} cannot be brought back to its commit: {found[0].path!r} stays different",
        fix=[f"rm -rf {argument(str(ws.path))}"],
    )


def follow(ws: Workspace, old: str, new: str) -> None:
    """Bring the files from one commit to the next after the run's branch moved."""
    if checkout.commit_of(ws) == old:
        checkout.forget(ws)
        done = checkout.run(ws, "read-tree", "-m", "-u", old, new)
        if done.returncode == 0:
            checkout.mark(ws, new)
            gitdir.write(ws, new)
            return
        checkout.mark(ws, old)
    restore(ws, new)


def adopt(ws: Workspace, place: Scratch, commit: str) -> None:
    """Bring the index to `commit`, which was built out of the workspace's own files."""
    if place.listing.is_file():
        if not plain.bring(ws, place.listing):
            restore(ws, commit)
            return
    else:
        checkout.forget(ws)
        checkout.copy_index(place.index, ws.index)
    checkout.mark(ws, commit)
    gitdir.write(ws, commit)


def remove(ws: Workspace) -> None:
    """Remove the checkout and its index."""
    removal.remove_tree(ws.path)
    for path in (ws.marker, ws.lock, ws.index):
        path.unlink(missing_ok=True)


def _make_folder(path: Path) -> bool:
    """Make the workspace's folder; tell whether it is new."""
    try:
        if path.is_symlink() or not path.is_dir():
            removal.remove_tree(path)
            path.mkdir(mode=0o700, parents=True)
            return True
        path.chmod(0o700)
        return not any(path.iterdir())
    except OSError as error:
        text = f"the workspace {path} cannot be made: {error.strerror}"
        raise GitError(text, fix=["treadle config show"]) from error


def _check_out(ws: Workspace, commit: str) -> None:
    """Write every tracked file that is not as in `commit`, never through a link."""
    checkout.forget(ws)
    args = ("read-tree", "--reset", "-u", commit)
    if checkout.run(ws, *args).returncode:
        listing.open_up(ws)
        ws.index.unlink(missing_ok=True)
        done = checkout.run(ws, *args)
        if done.returncode:
            raise call.failure(args, done)
    checkout.mark(ws, commit)


def _look(ws: Workspace, commit: str) -> tuple[Change, ...]:
    """List the changes, with a new index if git cannot read the old one."""
    try:
        return changes(ws)
    except GitError:
        ws.index.unlink(missing_ok=True)
        _check_out(ws, commit)
        return changes(ws)


def _remove_strangers(ws: Workspace, found: Iterable[Change]) -> None:
    """Remove what the commit does not know, and folders that are empty then."""
    for change in found:
        path = ws.path / change.path
        if change.kind in _STRANGERS and _has_real_parents(ws.path, path):
            listing.open_folder(path.parent)
            removal.remove_tree(path)
            removal.empty_upwards(ws.path, path.parent)


def _has_real_parents(root: Path, path: Path) -> bool:
    parents = [parent for parent in path.parents if parent.is_relative_to(root)]
    return bool(parents) and not any(parent.is_symlink() for parent in parents)
