"""Make, look at, restore, move and remove the private checkout a run works in."""

import os
import re
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from treadle.errors import GitError, argument
from treadle.files import remove as removal
from treadle.files import walk
from treadle.git import call, checkout, confined, settings, trees
from treadle.git.call import Reach, Runner, unconfined
from treadle.git.checkout import Workspace
from treadle.git.repo import Repo

Kind = Literal["added", "modified", "deleted", "typechange", "repository", "folder"]
# The repository's own HEAD is another commit, so only the column that compares the work tree
# with the index counts. Submodules stay out: looking into one would run git by discovery.
_LIST = ("status", "--porcelain=v2", "-z", "-uall", "--no-renames", "--ignore-submodules=all")
_KINDS: dict[str, Kind] = {"M": "modified", "D": "deleted", "T": "typechange", "A": "added"}
_TRACKED_FIELDS = 8
_UNMERGED_FIELDS = 10
_UNREADABLE = re.compile(
    rb"^warning: could not open directory '([^\n]*?)/?(?:': .*)?$", re.MULTILINE
)
MAX_DEPTH = 64
_STRANGERS = ("added", "repository", "folder")
_PASSES = 4  # restoring a .gitignore can bring out files that the changed one had hidden
INCLUDE = ".worktreeinclude"
_LIST_IGNORED = ("ls-files", "-z", "--others", "--ignored")


class Change(NamedTuple):
    """One path that differs.

    A `repository` is a folder with a .git of its own, its path ends in /; a `folder` is one so
    deep that git cannot look into it.
    """

    path: str
    kind: Kind


class Survey(NamedTuple):
    """Everything git sees in a workspace beyond the index."""

    changes: tuple[Change, ...]
    ignored: tuple[str, ...]
    special: tuple[str, ...] = ()  # pipes, sockets and devices that lay there, now removed


def changes(ws: Workspace) -> tuple[Change, ...]:
    """Return the files that differ from the index; ignored ones do not count."""
    return _listed(ws, ())[0]


def survey(ws: Workspace) -> Survey:
    """Return the files that differ and the ignored ones; a wholly ignored folder is one, in /."""
    return _listed(ws, ("--ignored=matching",))


def parse(listing: bytes) -> Survey:
    """Read the second porcelain format."""
    found: list[Change] = []
    ignored: list[str] = []
    for line in os.fsdecode(listing).split("\0"):
        sign, _, rest = line.partition(" ")
        if sign == "?":
            found.append(Change(rest, "repository" if rest.endswith("/") else "added"))
        elif sign == "!":
            ignored.append(rest)
        elif sign in ("1", "u"):
            found += _tracked(line, _TRACKED_FIELDS if sign == "1" else _UNMERGED_FIELDS)
    return Survey(tuple(found), tuple(ignored))


def open_up(ws: Workspace) -> None:
    """Give the owner back the rights to all folders, which an agent may have taken away."""
    pending = [(ws.path, 0)]
    while pending:
        folder, depth = pending.pop()
        open_folder(folder)
        if depth < MAX_DEPTH:
            pending += [(inner, depth + 1) for inner in _folders(folder)]


def open_folder(folder: Path) -> None:
    """Give the owner back the rights to one folder."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o700 != 0o700:
        folder.chmod(mode | 0o700)


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
        config=settings.read(repo),
        runner=runner,
    )
    index.parent.mkdir(parents=True, exist_ok=True)
    if _make_folder(path):
        checkout.forget(ws)
        index.unlink(missing_ok=True)
        _check_out(ws, commit)
        checkout.write_git_dir(ws, commit)
    else:
        restore(ws, commit)
    return ws


def restore(ws: Workspace, commit: str) -> tuple[Change, ...]:
    """Bring the files back to `commit` and return what differed; ignored files stay."""
    confined.clear_special(ws.path)
    known = checkout.commit_of(ws) if ws.index.is_file() else None
    if known is None:
        ws.index.unlink(missing_ok=True)
    if known != commit:
        _check_out(ws, commit)
    first = found = _look(ws, commit)
    for _ in range(_PASSES):
        if not found:
            checkout.write_git_dir(ws, commit)
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
            checkout.write_git_dir(ws, new)
            return
        checkout.mark(ws, old)
    restore(ws, new)


def adopt(ws: Workspace, index: Path, commit: str) -> None:
    """Take over the index of `commit`, which was built out of the workspace's own files."""
    checkout.forget(ws)
    checkout.copy_index(index, ws.index)
    checkout.mark(ws, commit)
    checkout.write_git_dir(ws, commit)


def remove(ws: Workspace) -> None:
    """Remove the checkout and its index."""
    removal.remove_tree(ws.path)
    for path in (ws.marker, ws.lock, ws.index):
        path.unlink(missing_ok=True)


def copy_included(repo: Repo, target: Path) -> tuple[str, ...]:
    """Copy plain files that are ignored by git and named in `.worktreeinclude`; return them.

    The file has the form of a .gitignore. Links are not followed and files that are there
    already stay.
    """
    patterns = repo.root / INCLUDE
    if not patterns.is_file():
        return ()
    wanted = call.fields([*_LIST_IGNORED, f"--exclude-from={patterns}"], repo.place)
    ignored = set(call.fields([*_LIST_IGNORED, "--exclude-standard"], repo.place))
    return tuple(
        name for name in wanted if name in ignored and _copy_plain(repo.root, target, name)
    )


def apply_patch(repo: Repo, folder: Path, patch: bytes, runner: Runner) -> str | None:
    """Change the files of `folder`; return what git says if the patch does not fit them."""
    place = repo.place | {"GIT_WORK_TREE": str(folder)}
    args, reach = ["apply", "--whitespace=nowarn", "-"], Reach(runner, (folder,))
    done = call.run(args, place, stdin=patch, cwd=folder, reach=reach)
    return call.said(done) or "git apply failed" if done.returncode else None


def _listed(ws: Workspace, options: tuple[str, ...]) -> Survey:
    args = (*_LIST, *options)
    removed = confined.clear_special(ws.path)
    done = checkout.run(ws, *args)
    if _UNREADABLE.search(done.stderr):
        open_up(ws)
        done = checkout.run(ws, *args)
    if done.returncode:
        raise call.failure(args, done)
    found = parse(done.stdout)
    if any(not change.path for change in found.changes):
        raise GitError(f"{ws.index} is damaged", fix=[f"rm {argument(str(ws.index))}"])
    deep = _too_deep(done.stderr)
    return Survey((*found.changes, *deep), found.ignored, _unexpected(ws, removed))


def _too_deep(stderr: bytes) -> list[Change]:
    paths = [os.fsdecode(path).split("/") for path in _UNREADABLE.findall(stderr)]
    tops = {"/".join(parts[:MAX_DEPTH]) for parts in paths if len(parts) > MAX_DEPTH}
    return [Change(top, "folder") for top in sorted(tops)]


def _unexpected(ws: Workspace, removed: tuple[str, ...]) -> tuple[str, ...]:
    """Return what the project does not ignore: programs leave sockets where they keep caches."""
    if not removed:
        return ()
    names = b"".join(os.fsencode(path) + b"\0" for path in removed)
    done = checkout.run(ws, "check-ignore", "-z", "--stdin", stdin=names)
    ignored = os.fsdecode(done.stdout).split("\0")
    return tuple(path for path in removed if path not in ignored)


def _tracked(line: str, fields: int) -> list[Change]:
    words = line.split(" ", fields)
    state = words[1][1]
    return [Change(words[fields], _KINDS.get(state, "modified"))] if state != "." else []


def _folders(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        return [folder / item.name for item in entries if item.is_dir(follow_symlinks=False)]


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
        open_up(ws)
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
            open_folder(path.parent)
            removal.remove_tree(path)
            removal.empty_upwards(ws.path, path.parent)


def _has_real_parents(root: Path, path: Path) -> bool:
    parents = [parent for parent in path.parents if parent.is_relative_to(root)]
    return bool(parents) and not any(parent.is_symlink() for parent in parents)


def _copy_plain(root: Path, target: Path, name: str) -> bool:
    source, copied = root / name, target / name
    if source.is_symlink() or not source.is_file() or os.path.lexists(copied):
        return False
    above = [target / folder for folder in trees.above(name)]
    if any(os.path.lexists(path) and not walk.is_folder(path) for path in above):
        return False  # the commit has a file or a link where the user has a folder
    copied.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, copied, follow_symlinks=False)
    return True
