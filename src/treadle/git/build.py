"""Build a tree from a patch or from edited files and commit it, without touching a checkout."""

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from treadle.errors import GitError, argument
from treadle.files import beneath
from treadle.git import call, judge, scratch, trees, workspace
from treadle.git.repo import GitSettings, Repo, plain_merges
from treadle.git.scratch import Scratch
from treadle.git.workspace import Change, Workspace

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
_SIDE = re.compile(r"[abciow]/")
MAX_EDIT_BYTES = 2 << 30
_APPLY = ("apply", "--cached", "--whitespace=nowarn")
_STAGE = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
_OPAQUE = ("repository", "folder")
_NESTED = 8  # repositories inside repositories
_MESSAGES = 3
_NO_MEMORY = ("Out of memory", "cannot allocate", "unable to allocate", "too large to")
_UNSAFE = str.maketrans("", "", "<>\n\r\0")
_YES = ("true", "yes", "on", "1")
_UTF8 = "i18n.commitEncoding=UTF-8"  # what treadle writes, whatever the user's editor does
_MERGE_TREE = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages")
_NEVER = datetime.fromtimestamp(0, UTC)
MAX_FILE_BYTES = 10_000_000
MAX_BYTES = 50_000_000
MAX_FILES = 5_000
_NAMED = 200

_INDEX = (
    "diff-index --cached -p --binary --full-index --no-renames"
    " --no-ext-diff --no-textconv --no-color --ignore-submodules=none"
)


class Built(NamedTuple):
    """A tree that was built but not judged; its objects are still in the scratch place."""

    tree: str
    scratch: Scratch
    notes: tuple[str, ...] = ()


class PatchFailed(NamedTuple):
    """Why a patch could not be applied; `rule` is set if its own text breaks one."""

    message: str
    rule: str | None = None


class Author(NamedTuple):
    """Who is named in a commit."""

    name: str
    email: str


class Conflict(NamedTuple):
    """The files on which the sides disagree, and the tree that has both, with markers."""

    paths: tuple[str, ...]
    tree: str


FALLBACK_AUTHOR = Author("treadle", "treadle@localhost")


def find_oddity(patch: bytes) -> PatchFailed | None:
    """Return which rule a patch breaks in its headers.

    Git makes a plain file of an odd mode and a path inside of an absolute one.
    """
    if sum(int(size) for size in _SIZE.findall(patch)) > judge.MAX_UNPACKED:
        return _broken("patch_unpacks", "the patch")
    for mode in map(bytes.decode, _MODE.findall(patch)):
        if mode not in _MODES:
            return _broken("mode", "the patch", mode=mode)
    for name in _header_names(patch):
        if name.lstrip(b'"').startswith(b"/") and not name.startswith(_NOTHING):
            return _broken("path_absolute", os.fsdecode(name))
    return None


def broken_rule(patch: bytes) -> str | None:
    """Return the rule that a name in the headers breaks, for a patch that git would not take."""
    # A name without quotes is the rest of its line; with one, only its words are names.
    words = (
        os.fsdecode(scratch.unquoted(word))
        for name in _header_names(patch)
        for word in (b"" if b'"' in name else name, *_WORD.findall(name))
        if word
    )
    paths = (path for word in words for path in (word, _SIDE.sub("", word, count=1)))
    named = (path for path in islice(paths, _LOOKED_AT) if path != os.fsdecode(_NOTHING))
    return next(filter(None, map(judge.forbidden, named)), None)


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
    ws: Workspace | None = None,
) -> Built | PatchFailed:
    """Apply a patch to a commit's tree in the scratch place `folder`.

    A workspace whose index holds the base saves reading it. Paths may be relative to the
    repository or to `subdir`.
    """
    if odd := find_oddity(patch):
        return odd
    place = scratch.make(repo, folder, ws.runner if ws else call.unconfined)
    _seed(place, base_commit, ws)
    complaint = ""
    for text, options, notes in _attempts(patch, subdir):
        done = call.run(
            (*_APPLY, *options, "-"),
            place.place,
            stdin=text,
            config=(scratch.NO_SYNC,),
            reach=place.reach(4 * len(text) + judge.MAX_UNPACKED),  # itself, and what it unpacks to
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
    edits, notes = _absorb(ws, tuple(workspace.changes(ws) if found is None else found))
    if sum(_size(ws.path / change.path) for change in edits) > MAX_EDIT_BYTES:
        raise GitError(
            f"the changed files in {ws.path} are larger than {MAX_EDIT_BYTES >> 20} MB together",
            code="edits_too_big",
            fix=[f"du -ah {argument(str(ws.path))} | sort -h | tail"],
        )
    place = _staged(ws, base_commit, folder, edits)
    return Built(_write_tree(place), place, notes)


def write_patch(
    ws: Workspace, commit: str, target: Path, found: Iterable[Change] | None = None
) -> tuple[Change, ...]:
    """Write the differences to `commit` as a diff git can apply; return what it is about.

    Nothing reaches the repository's object store. What is too big is only named.
    """
    edits = tuple(workspace.changes(ws) if found is None else found)
    taken = _small_ones(ws, edits)
    folder = target.with_name(f".{target.name}.scratch")
    try:
        place = _staged(ws, commit, folder, taken)
        target.write_bytes(scratch.out(place, *_INDEX.split(), commit))
    finally:
        beneath.remove_tree(folder)
    left_out = [change for change in edits if change not in taken]
    lines = [f"# not shown: {change.path!r} ({change.kind})\n" for change in left_out[:_NAMED]]
    if len(left_out) > _NAMED:
        lines.append(f"# not shown: {len(left_out) - _NAMED} more\n")
    with target.open("a") as handle:
        handle.writelines(lines)
    return edits


def author_of(config: GitSettings, env: Mapping[str, str] | None = None) -> Author:
    """Return who commits: git's own variables, if they count, else the settings, else treadle."""
    known = env or {}
    return Author(
        known.get("GIT_AUTHOR_NAME") or config.get("user.name") or FALLBACK_AUTHOR.name,
        known.get("GIT_AUTHOR_EMAIL") or config.get("user.email") or FALLBACK_AUTHOR.email,
    )


def commit(built: Built, parent: str, message: str, when: datetime, author: Author) -> str:
    """Commit a built tree, durably, and return the commit's id; no branch moves.

    The object is written here rather than by `git commit-tree`: that saves a process in every
    step and keeps signing, encodings and dates of the user's settings out of the id.
    """
    place = built.scratch
    content = encode_commit(built.tree, [parent], message, when, author)
    name = scratch.write_object(place.store, "commit", content, place.repo.object_format)
    scratch.keep(place)
    return name


def encode_commit(
    tree: str, parents: list[str], message: str, when: datetime, author: Author
) -> bytes:
    """Return a commit object's content."""
    offset = when.strftime("%z") or "+0000"
    person = f"{_clean(author.name)} <{_clean(author.email)}> {int(when.timestamp())} {offset}"
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
    lines += [f"author {person}", f"committer {person}", "", message.replace("\0", "").strip()]
    return "\n".join(lines).encode(errors="replace") + b"\n"


def signs_commits(config: GitSettings) -> bool:
    """Tell whether the user wants commits to be signed."""
    return (config.get("commit.gpgsign") or "").lower() in _YES


def commit_tree(
    place: Scratch,
    tree: str,
    parents: Iterable[str],
    message: str,
    *,
    when: datetime,
    who: Author,
    sign: bool,
) -> str:
    """Commit a tree in the scratch place and return the commit's id; no branch moves."""
    args = ["commit-tree", *(f"-p{it}" for it in parents), *(["-S"] if sign else []), tree]
    stamp = f"{int(when.timestamp())} +0000"
    names = {
        f"GIT_{role}_{part}": value
        for role in ("AUTHOR", "COMMITTER")
        for part, value in (("NAME", who.name), ("EMAIL", who.email), ("DATE", stamp))
    }
    text = message.replace("\0", "").encode(errors="replace")
    config = (scratch.NO_SYNC, _UTF8)
    done = call.out(args, place.place | names, stdin=text, config=config)
    return done.decode("ascii").strip()


def three_way(place: Scratch, base: str, ours: str, theirs: str) -> str | Conflict:
    """Return the tree `ours` with what happened between the trees `base` and `theirs`.

    Git 2.38 finds the base of a merge only through history, so the trees get commits that say
    just this; the histories they really have, cut off or rewritten, do not matter.
    """
    root = _point(place, base)
    sides = [_point(place, tree, root) for tree in (ours, theirs)]
    try:
        return merge_commits(place, *sides)
    finally:
        for name in (root, *sides):
            (place.store / name[:2] / name[2:]).unlink(missing_ok=True)


def merge_commits(place: Scratch, ours: str, theirs: str) -> str | Conflict:
    """Return the tree of two commits merged from where their histories part."""
    # Git puts what it merges where it stands, and "/" is nobody's but root's.
    args = (f"--work-tree={place.folder}", *_MERGE_TREE, ours, theirs)
    config = (scratch.NO_SYNC, "merge.renormalize=false", *plain_merges(place.repo))
    done = call.run(args, place.place, config=config, cwd=place.folder)
    if done.returncode not in (0, 1) or not done.stdout:  # 1 also says that a name is unknown
        raise call.failure(args, done)
    tree, *names = os.fsdecode(done.stdout).split("\0")
    if done.returncode == 0:
        return tree
    return Conflict(tuple(dict.fromkeys(name for name in names if name)), tree)


def _broken(rule: str, what: str, **values: str) -> PatchFailed:
    return PatchFailed(judge.explain(rule, what, **values), rule)


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
            beneath.remove_tree(ws.path / name / ".git")
            notes.append(f"{name} was a repository of its own; only its files were taken")
        edits = workspace.changes(ws)
    left = [change.path for change in edits if change.kind in _OPAQUE]
    return edits, (*notes, *(f"{name} could not be read and was not taken" for name in left))


def _staged(ws: Workspace, base: str, folder: Path, edits: Iterable[Change]) -> Scratch:
    """Return a scratch place whose index is `base` with the contents of the workspace's files."""
    place = scratch.make(ws.repo, folder, ws.runner)
    _seed(place, base, ws)
    if names := _names(ws, edits):
        done = call.run(
            _STAGE,
            place.place | {"GIT_WORK_TREE": str(ws.path)},
            stdin=b"\0".join(os.fsencode(name) for name in names),
            config=(*workspace.filter_settings(ws, place.folder), scratch.NO_SYNC),
            reach=place.reach(),
        )
        if done.returncode:
            raise call.failure(_STAGE, done)
    scratch.vouch(place)
    return place


def _seed(place: Scratch, base: str, ws: Workspace | None) -> None:
    """Fill the scratch index with `base`, from the workspace's own index where that holds it."""
    if ws and workspace.holds_commit(ws, base):
        workspace.copy_index(ws.index, place.index)
    else:
        scratch.out(place, "read-tree", base)


def _size(path: Path) -> int:
    """Return a file's own size; a missing one has none."""
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _names(ws: Workspace, edits: Iterable[Change]) -> list[str]:
    """Return the paths git is to look at, each of them readable."""
    paths = {change.path for change in edits if change.kind not in _OPAQUE}
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


def _small_ones(ws: Workspace, edits: tuple[Change, ...]) -> set[Change]:
    """Choose what a diff for people can hold."""
    taken: set[Change] = set()
    left = MAX_BYTES
    for change in edits:
        size = _size(ws.path / change.path)
        fits = len(taken) < MAX_FILES and size <= min(left, MAX_FILE_BYTES)
        if fits and change.kind not in _OPAQUE:
            taken.add(change)
            left -= size
    return taken


def _clean(text: str) -> str:
    """Drop what git does not allow in a name, as git does itself."""
    return text.translate(_UNSAFE).strip(" .,:;\"'\\") or FALLBACK_AUTHOR.name


def _point(place: Scratch, tree: str, *parents: str) -> str:
    content = encode_commit(tree, list(parents), "", _NEVER, FALLBACK_AUTHOR)
    return scratch.write_object(place.store, "commit", content, place.repo.object_format)
