"""Build a tree from a patch or from edited files, without touching a checkout."""

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from treadle.errors import GitError, argument
from treadle.files import remove
from treadle.git import call, changes, checkout, plain, rules, scratch, trees
from treadle.git import patch as patch_text
from treadle.git.changes import Change
from treadle.git.checkout import Workspace
from treadle.git.repo import Repo
from treadle.git.scratch import Scratch
from treadle.proc.capture import Captured

MAX_EDIT_BYTES = 2 << 30

_APPLY = ("apply", "--cached", "--whitespace=nowarn")
_STAGE = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
OPAQUE = ("repository", "folder")
_NESTED = 8  # repositories inside repositories
_MESSAGES = 3
_NO_MEMORY = ("Out of memory", "cannot allocate", "unable to allocate", "too large to")


class Built(NamedTuple):
    """A tree that was built but not judged; its objects are still in the scratch place."""

    tree: str
    scratch: Scratch
    notes: tuple[str, ...] = ()


class PatchFailed(NamedTuple):
    """Why a patch could not be applied; `rule` is set if its own text breaks one."""

    message: str
    rule: str | None = None


def from_patch(
    repo: Repo,
    base_commit: str,
    patch: bytes,
    folder: Path,
    *,
    subdir: str | None = None,
    workspace: Workspace | None = None,
) -> Built | PatchFailed:
    """Apply a patch to a commit's tree in the scratch place `folder`.

    A workspace whose index holds the base saves reading it. Paths may be relative to the
    repository or to `subdir`.
    """
    odd = patch_text.oddity(patch)
    if odd:
        return PatchFailed(odd[1], odd[0])
    place = scratch.make(repo, folder, workspace.runner if workspace else call.unconfined)
    scratch.seed(place, base_commit, workspace)
    complaint = ""
    for text, options, notes in _attempts(patch, subdir):
        done = call.run(
            (*_APPLY, *options, "-"),
            place.place,
            stdin=text,
            config=(scratch.NO_SYNC,),
            reach=place.reach(_memory(text)),
        )
        if done.returncode == 0:
            return Built(_write_tree(place), place, notes)
        complaint = complaint or _complaint(done.stderr.decode(errors="replace"))
        if rule := _rule(patch, complaint):
            return PatchFailed(complaint, rule)
    return PatchFailed(complaint)


def from_edits(
    ws: Workspace,
    base_commit: str,
    folder: Path,
    found: Iterable[Change] | None = None,
) -> Built:
    """Build the tree of a commit with the workspace's own files, in the scratch place `folder`."""
    edits, notes = _absorb(ws, tuple(changes.changes(ws) if found is None else found))
    if sum(file_size(ws.path / change.path) for change in edits) > MAX_EDIT_BYTES:
        raise GitError(
            f"the changed files in {ws.path} are larger than {MAX_EDIT_BYTES >> 20} MB together",
            code="edits_too_big",
            fix=[f"du -ah {argument(str(ws.path))} | sort -h | tail"],
        )
    place = scratch.make(ws.repo, folder, ws.runner)
    names = _names(ws, edits)
    if tree := plain.write(ws, base_commit, place, names):
        return Built(tree, place, notes)
    scratch.seed(place, base_commit, ws)
    _stage(ws, place, names)
    return Built(_write_tree(place), place, notes)


def file_size(path: Path) -> int:
    """Return a file's own size; a missing one has none."""
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def stage(ws: Workspace, place: Scratch, edits: Iterable[Change]) -> None:
    """Bring the scratch index to the contents of the workspace's files."""
    _stage(ws, place, _names(ws, edits))


def _names(ws: Workspace, edits: Iterable[Change]) -> list[str]:
    """Return the paths git is to look at, each of them readable."""
    paths = {change.path for change in edits if change.kind not in OPAQUE}
    names = [path for path in sorted(paths) if _is_reachable(ws.path, path, paths)]
    for name in names:
        _make_readable(ws.path / name)
    return names


def _stage(ws: Workspace, place: Scratch, names: list[str]) -> None:
    if names and _update_index(ws, place, names).returncode:
        changes.open_up(ws)
        for name in names:
            _make_readable(ws.path / name)
        done = _update_index(ws, place, names)
        if done.returncode:
            raise call.failure(_STAGE, done)
    scratch.vouch(place)


def _update_index(ws: Workspace, place: Scratch, names: list[str]) -> Captured:
    return call.run(
        _STAGE,
        place.place | {"GIT_WORK_TREE": str(ws.path)},
        stdin=b"\0".join(os.fsencode(name) for name in names),
        config=(*checkout.settings(ws), *checkout.lfs(ws, place.folder), scratch.NO_SYNC),
        reach=place.reach(),
    )


def _is_reachable(root: Path, path: str, changed: Collection[str]) -> bool:
    """Tell whether no link stands above a path; a link that git ignores is removed.

    Git refuses to look behind a link. What lay there before goes when the link itself is added.
    """
    for above in trees.above(path):
        if (root / above).is_symlink():
            if above in changed:
                return False
            (root / above).unlink()
    return True


def _attempts(
    patch: bytes, subdir: str | None
) -> Iterator[tuple[bytes, tuple[str, ...], tuple[str, ...]]]:
    """Yield the ways in which a patch may be meant, the likeliest first."""
    options: tuple[str, ...] = ()
    if subdir and not patch_text.is_relative_to_root(patch, subdir):
        options = (f"--directory={subdir}",)
    for strip, notes in _depths(patch):
        yield patch, (*options, strip), notes
        if b"\r\n" in patch:
            bare = patch.replace(b"\r\n", b"\n")
            note = "applied after removing carriage returns from the patch"
            yield bare, (*options, strip), (*notes, note)


def _depths(patch: bytes) -> list[tuple[str, tuple[str, ...]]]:
    """Return how much of its paths a patch may want to lose, the likeliest first."""
    one: tuple[str, tuple[str, ...]] = ("-p1", ())
    if patch_text.has_prefixes(patch):
        return [one]
    none = ("-p0", ("its paths were taken whole",))
    return [none, one] if patch_text.is_bare(patch) else [one, none]


def _memory(patch: bytes) -> int:
    """Return what git gets to apply a patch: what it says, and what it may unpack to."""
    return 4 * len(patch) + rules.MAX_UNPACKED


def _rule(patch: bytes, complaint: str) -> str | None:
    """Name the rule behind what git refused by itself."""
    if any(sign in complaint for sign in _NO_MEMORY):
        return "patch_unpacks"
    if "is beyond a symbolic link" in complaint:
        return "parent_symlink"
    return patch_text.broken_rule(patch)


def _complaint(stderr: str) -> str:
    lines = [line.removeprefix("error: ").removeprefix("fatal: ") for line in stderr.splitlines()]
    lines = [line for line in lines if line and not line.startswith("hint: ")]
    if any(line.startswith("No valid patches in input") for line in lines):
        return "there is no diff in it"
    return "; ".join(lines[:_MESSAGES]) or "git refused it"


def _write_tree(place: Scratch) -> str:
    """Write the index as a tree; what it names comes from the base or was written just now.

    Looking for each blob would cost as much again, and fetch them all in a partial clone.
    """
    return scratch.out(place, "write-tree", "--missing-ok").decode("ascii").strip()


def _absorb(ws: Workspace, edits: tuple[Change, ...]) -> tuple[tuple[Change, ...], tuple[str, ...]]:
    """Turn repositories that an agent made in the workspace into plain folders."""
    notes: list[str] = []
    for _ in range(_NESTED):
        names = [change.path for change in edits if change.kind == "repository"]
        if not names:
            break
        for name in names:
            remove.remove_tree(ws.path / name / ".git")
            notes.append(f"{name} was a repository of its own; only its files were taken")
        edits = changes.changes(ws)
    left = [change.path for change in edits if change.kind in OPAQUE]
    return edits, (*notes, *(f"{name} could not be read and was not taken" for name in left))


def _make_readable(path: Path) -> None:
    """Give the owner back the right to read; drop what is neither file, link nor folder."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return
    if stat.S_ISREG(mode) and not mode & stat.S_IRUSR:
        path.chmod(stat.S_IMODE(mode) | stat.S_IRUSR)
    elif not stat.S_ISREG(mode) and not stat.S_ISLNK(mode) and not stat.S_ISDIR(mode):
        path.unlink()
