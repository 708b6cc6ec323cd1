"""Build a tree from a patch or from edited files, without touching a checkout."""

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from treadle.errors import GitError, argument
from treadle.files import remove
from treadle.git import call, checkout, rules, scratch, trees
from treadle.git import workspace as git_workspace
from treadle.git.checkout import Workspace
from treadle.git.repo import Repo
from treadle.git.scratch import Scratch
from treadle.git.workspace import Change
from treadle.proc.helper import Captured

_MODES = ("100644", "100755", "120000", "160000")
_MODE = re.compile(rb"^(?:new file|deleted file|new|old) mode (\d+)\r?$", re.MULTILINE)
_SIZE = re.compile(rb"^(?:literal|delta) (\d{1,18})\r?$", re.MULTILINE)
_NAMES = re.compile(rb"^--- ([^\r\n]+)\r?\n\+\+\+ ([^\r\n]+)\r?\n@@ ", re.MULTILINE)
_GIT_NAME = re.compile(rb"^(?:diff --git|(?:rename|copy) (?:from|to)) ([^\r\n]+)", re.MULTILINE)
# Two names that differ in their first folder and in nothing else.
_SIDES = re.compile(
    rb"^--- ([^/\r\n]+)/([^\t\r\n]+)(?:\t.*)?\r?\n\+\+\+ (?!\1/)[^/\r\n]+/\2(?:\t.*)?\r?\n@@ "
    rb"|^diff --git ([^/\r\n]{1,255})/([^\r\n]{1,4000}) (?!\3/)[^/ \r\n]{1,255}/\4\r?$",
    re.MULTILINE,
)
_PREFIX = re.compile(rb"^(?:diff --git|---|\+\+\+) \"?[abciow]/", re.MULTILINE)
_NOTHING = b"/dev/null"
_LOOKED_AT = 10_000  # names of a patch that is refused anyway
_WORD = re.compile(rb'"(?:[^"\\]|\\.)*"|[^ \t]+')
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)")
_SIDE = re.compile(r"[abciow]/")
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


def find_oddity(patch: bytes) -> tuple[str, str] | None:
    """Return the rule a patch breaks in its headers, and a sentence.

    Git makes a plain file of an odd mode and a path inside of an absolute one.
    """
    if sum(int(size) for size in _SIZE.findall(patch)) > rules.MAX_UNPACKED:
        return "patch_unpacks", rules.explain("patch_unpacks", "the patch")
    for mode in _MODE.findall(patch):
        if mode.decode("ascii") not in _MODES:
            return "mode", rules.explain("mode", "the patch", mode=mode.decode("ascii"))
    for name in _header_names(patch):
        if name.lstrip(b'"').startswith(b"/") and not name.startswith(_NOTHING):
            return "path_absolute", rules.explain("path_absolute", os.fsdecode(name))
    return None


def broken_rule(patch: bytes) -> str | None:
    """Return the rule that a name in the headers breaks, for a patch that git would not take."""
    # A name without quotes is the rest of its line; with one, only its words are names.
    words = (
        _unquoted(word)
        for name in _header_names(patch)
        for word in (b"" if b'"' in name else name, *_WORD.findall(name))
        if word
    )
    paths = (path for word in words for path in (word, _SIDE.sub("", word, count=1)))
    named = (path for path in islice(paths, _LOOKED_AT) if path != os.fsdecode(_NOTHING))
    return next(filter(None, map(rules.forbidden, named)), None)


def is_relative_to_root(patch: bytes, subdir: str) -> bool:
    """Tell whether any path in a patch names `subdir` itself, and so begins at the root."""
    prefix = re.escape(os.fsencode(subdir.strip("/")))
    header = rb"(?m)^(diff --git|---|\+\+\+|rename (from|to)) \"?([abciow]/)?" + prefix + rb"/"
    return re.search(header, patch) is not None


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
    odd = find_oddity(patch)
    if odd:
        return PatchFailed(odd[1], odd[0])
    place = scratch.make(repo, folder, workspace.runner if workspace else call.unconfined)
    seed(place, base_commit, workspace)
    complaint = ""
    for text, options, notes in _attempts(patch, subdir):
        done = call.run(
            (*_APPLY, *options, "-"),
            place.place,
            stdin=text,
            config=(scratch.NO_SYNC,),
            reach=place.reach(4 * len(text) + rules.MAX_UNPACKED),  # itself, and what it unpacks to
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
    edits, notes = _absorb(ws, tuple(git_workspace.changes(ws) if found is None else found))
    if sum(file_size(ws.path / change.path) for change in edits) > MAX_EDIT_BYTES:
        raise GitError(
            f"the changed files in {ws.path} are larger than {MAX_EDIT_BYTES >> 20} MB together",
            code="edits_too_big",
            fix=[f"du -ah {argument(str(ws.path))} | sort -h | tail"],
        )
    place = scratch.make(ws.repo, folder, ws.runner)
    seed(place, base_commit, ws)
    stage(ws, place, edits)
    return Built(_write_tree(place), place, notes)


def seed(place: Scratch, base: str, ws: Workspace | None) -> None:
    """Fill the scratch index with `base`, from the workspace's own index where that holds it."""
    if ws and checkout.holds(ws, base):
        checkout.copy_index(ws.index, place.index)
    else:
        scratch.out(place, "read-tree", base)


def file_size(path: Path) -> int:
    """Return a file's own size; a missing one has none."""
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def stage(ws: Workspace, place: Scratch, edits: Iterable[Change]) -> None:
    """Bring the scratch index to the contents of the workspace's files."""
    names = _names(ws, edits)
    if names and _update_index(ws, place, names).returncode:
        git_workspace.open_up(ws)
        for name in names:
            _make_readable(ws.path / name)
        done = _update_index(ws, place, names)
        if done.returncode:
            raise call.failure(_STAGE, done)
    scratch.vouch(place)


def _unquoted(word: bytes) -> str:
    if not word.startswith(b'"'):
        return os.fsdecode(word)
    return os.fsdecode(_ESCAPE.sub(_unescaped, word.strip(b'"')))


def _unescaped(found: re.Match[bytes]) -> bytes:
    text = found[1]
    return bytes([int(text, 8) & 255]) if text[:1] in b"01234567" else text


def _header_names(patch: bytes) -> list[bytes]:
    pairs = _NAMES.findall(patch)
    return [name for pair in pairs for name in pair] + _GIT_NAME.findall(patch)


def _attempts(
    patch: bytes, subdir: str | None
) -> Iterator[tuple[bytes, tuple[str, ...], tuple[str, ...]]]:
    """Yield the ways in which a patch may be meant, the likeliest first."""
    options: tuple[str, ...] = ()
    if subdir and not is_relative_to_root(patch, subdir):
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
    if _PREFIX.search(patch):  # one letter stands for each side
        return [one]
    none = ("-p0", ("its paths were taken whole",))
    return [one, none] if _SIDES.search(patch) else [none, one]


def _write_tree(place: Scratch) -> str:
    """Write the index as a tree; what it names comes from the base or was written just now.

    Looking for each blob would cost as much again, and fetch them all in a partial clone.
    """
    return scratch.out(place, "write-tree", "--missing-ok").decode("ascii").strip()


def _complaint(stderr: str) -> str:
    lines = [line.removeprefix("error: ").removeprefix("fatal: ") for line in stderr.splitlines()]
    lines = [line for line in lines if line and not line.startswith("hint: ")]
    if any(line.startswith("No valid patches in input") for line in lines):
        return "there is no diff in it"
    return "; ".join(lines[:_MESSAGES]) or "git refused it"


def _rule(patch: bytes, complaint: str) -> str | None:
    """Name the rule behind what git refused by itself."""
    if any(sign in complaint for sign in _NO_MEMORY):
        return "patch_unpacks"
    if "is beyond a symbolic link" in complaint:
        return "parent_symlink"
    return broken_rule(patch)


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
        edits = git_workspace.changes(ws)
    left = [change.path for change in edits if change.kind in OPAQUE]
    return edits, (*notes, *(f"{name} could not be read and was not taken" for name in left))


def _names(ws: Workspace, edits: Iterable[Change]) -> list[str]:
    """Return the paths git is to look at, each of them readable."""
    paths = {change.path for change in edits if change.kind not in OPAQUE}
    names = [path for path in sorted(paths) if _is_reachable(ws.path, path, paths)]
    for name in names:
        _make_readable(ws.path / name)
    return names


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


def _update_index(ws: Workspace, place: Scratch, names: list[str]) -> Captured:
    return call.run(
        _STAGE,
        place.place | {"GIT_WORK_TREE": str(ws.path)},
        stdin=b"\0".join(os.fsencode(name) for name in names),
        config=(*checkout.settings(ws), *checkout.lfs(ws, place.folder), scratch.NO_SYNC),
        reach=place.reach(),
    )
