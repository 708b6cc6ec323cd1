"""The list of finished specs, `specs/processed-spec.md`, and the specs, as part of what lands."""

import contextlib
import os
import shlex
from collections.abc import Callable, Iterator

from treadle.engine.run.run import Run, Tools
from treadle.errors import FormatError, GitError
from treadle.files import atomic, walk
from treadle.git import call, repo, trees
from treadle.git.repo import Repo
from treadle.git.scratch import Scratch
from treadle.layout import Layout

_MAX = 8 << 20


def names(content: bytes) -> set[str]:
    """Return the specs that are listed."""
    return {line.strip() for line in content.decode(errors="replace").splitlines()} - {""}


def add(content: bytes, name: str) -> bytes:
    """Return the list with one more line."""
    eol = b"\r\n" if b"\r\n" in content else b"\n"
    gap = b"" if not content or content.endswith(b"\n") else eol
    return content + gap + name.encode() + eol


def without(content: bytes, gone: set[str]) -> bytes:
    """Return the list without these specs; everything else stays as it is."""
    lines = content.splitlines(keepends=True)
    return b"".join(line for line in lines if line.decode(errors="replace").strip() not in gone)


def merged(base: bytes | None, ours: bytes | None, theirs: bytes | None) -> bytes | None:
    """Return our list with what happened between the other two, line by line: no conflict ever."""
    old, new = names(base or b""), names(theirs or b"")
    found = without(ours or b"", old - new)
    for line in (theirs or b"").decode(errors="replace").splitlines():
        if (name := line.strip()) and name not in old | names(found):
            found = add(found, name)
    return found or (b"" if b"" in (base, theirs) else None)


def alike(place: Scratch, path: str, base: str, ours: str, theirs: str) -> tuple[str, str, str]:
    """Return three trees that have one list in common, the merged one, to be merged in peace."""
    sides = base, ours, theirs
    found = [trees.read_blob(place, f"{tree}:{path}") for tree in sides]
    if found[0] == found[1] == found[2]:
        return sides
    content = merged(found[0], found[1], found[2])
    base, ours, theirs = (_with(place, tree, path, content) for tree in sides)
    return base, ours, theirs


def _with(place: Scratch, tree: str, path: str, content: bytes | None) -> str:
    if content is None:
        return trees.edited(place, tree, {path: None})
    return trees.put_file(place, tree, path, content)


def read(layout: Layout) -> bytes:
    """Return the list as it stands in the user's checkout; a missing one is empty."""
    try:
        return walk.read(layout.tracker, max_bytes=_MAX)
    except FormatError:
        if layout.tracker.is_symlink() or layout.tracker.exists():
            raise
        return b""


def spec_of(run: Run) -> str | None:
    """Return the spec that the run's landing takes into the list, and its undoing out of it."""
    message = run.order.message
    return message.spec if message and not run.order.in_project else None


def name_in_git(run: Run) -> str:
    """Return what git calls the list."""
    return run.tools.repo.prefix + run.tools.layout.relative(run.tools.layout.tracker)


def listed(run: Run, place: Scratch, name: str, tip: str, tree: str) -> str:
    """Return the tree of a landing on the branch `name` with the run's spec, also in the list.

    A list that the user has changed and not committed stays out of it: landing must not
    stumble over it, and the line is added to the user's file afterwards.
    """
    spec, path = spec_of(run), name_in_git(run)
    if spec is None:
        return tree
    tree = _with_spec(run, place, name, tip, tree)
    committed = trees.read_blob(place, f"{tip}:{path}") or b""
    if _is_edited(run, name, committed) or spec in names(committed):
        return tree
    inside = trees.read_blob(place, f"{tree}:{path}")
    content = committed if inside is None else inside
    return trees.put_file(place, tree, path, add(content, spec))


def unlisted(run: Run, place: Scratch, name: str, tip: str, tree: str) -> str:
    """Return the tree of an undoing on the branch `name` without the run's spec in the list.

    A list that the user has changed stays as it is, and `relist` takes the line out of the file.
    """
    spec, path = spec_of(run), name_in_git(run)
    if spec is None:
        return tree
    committed = trees.read_blob(place, f"{tip}:{path}")
    if _is_edited(run, name, committed or b""):
        return _with(place, tree, path, committed)
    inside = trees.read_blob(place, f"{tree}:{path}") or b""
    kept = without(inside, {spec})
    return tree if kept == inside else _with(place, tree, path, kept or None)


def spec_in_git(run: Run) -> str | None:
    """Return what git calls the file of the run's spec."""
    spec, here = spec_of(run), run.tools
    return here.repo.prefix + here.layout.relative(here.layout.specs / spec) if spec else None


def _with_spec(run: Run, place: Scratch, name: str, tip: str, tree: str) -> str:
    """Return the tree with the run's spec as it was processed, if nobody has committed it.

    One that somebody took out of the branch stays out, and one that is staged is the user's.
    """
    path, here = spec_in_git(run), run.tools.repo
    text = run.order.message.spec_text if run.order.message else None
    if path is None or text is None:
        return tree
    sides = tree, tip, run.row.base_commit
    if any(trees.read_blob(place, f"{side}:{path}") is not None for side in sides):
        return tree
    if call.run(["check-ignore", "-q", "--", path], here.place, cwd=here.root).returncode == 0:
        run.tools.note(run.id, f"git ignores {path}: it is listed as done, and not committed")
        return tree
    if repo.head(here).branch == name:
        staged = _staged(here, path)
        if staged and trees.read_blob(here, staged) != text.encode():
            return tree
    elif ways := ways_clear(run.tools, spec_of(run)):
        told = f"{name} has {path} too, which is not committed here; before git merges it:"
        run.tools.note(run.id, f"{told} {ways[0]}")
    return trees.put_file(place, tree, path, text.encode())


def ways_clear(tools: Tools, spec: str | None) -> list[str]:
    """Return what lets git bring a spec that lies here and that it does not know."""
    path = tools.layout.specs / (spec or "")
    name = tools.layout.relative(path)
    if not spec or not os.path.lexists(path) or _staged(tools.repo, tools.repo.prefix + name):
        return []
    return [f"git stash push -u -- {shlex.quote(name)}"]


def _staged(here: Repo, path: str) -> str | None:
    """Return the id of what is staged under this name."""
    args = ["--literal-pathspecs", "ls-files", "-s", "-z", "--", path]
    rows = call.fields(args, here.place, here.root)
    return rows[0].split()[1] if rows else None


def keeping_spec(run: Run, place: Scratch, before: str, after: str) -> str:
    """Return the tree from before a landing with the spec that only the landing brought."""
    path = spec_in_git(run)
    if path is None:
        return before
    there, *others = (trees.files(place.repo, tree, [path]) for tree in (after, before, run.tree))
    return trees.edited(place, before, there) if there and not any(others) else before


@contextlib.contextmanager
def spec_known(run: Run, here: Repo, old: str, new: str) -> Iterator[None]:
    """Let git know a spec that comes to a checkout where it lies already: the file stays as it is.

    If the block fails, git forgets it again.
    """
    path = spec_in_git(run)
    if path is None or not os.path.lexists(here.root / path):
        yield
        return
    before, after = (trees.files(here, commit, [path]) for commit in (old, new))
    if before or not after or _staged(here, path):
        yield
        return
    leaf = after[path]
    row = os.fsencode(f"{leaf.mode} {leaf.id}\t{path}\0")
    call.out(["update-index", "-z", "--index-info"], here.place, stdin=row)
    try:
        yield
    except BaseException:
        with contextlib.suppress(GitError):
            call.out(["update-index", "--force-remove", "--", path], here.place, cwd=here.root)
        raise


def relist(run: Run, name: str, change: Callable[[Layout, str], None]) -> None:
    """Put the run's spec into the list in the user's checkout of this branch, or take it out."""
    spec = spec_of(run)
    if spec and repo.head(run.tools.repo).branch == name:
        change(run.tools.layout, spec)


def put_in(layout: Layout, spec: str) -> None:
    """List a spec in the user's checkout, once and for good: its message goes only after that."""
    content = read(layout)
    if spec in names(content):
        return
    added = add(content, spec)[len(content) :]
    layout.specs.mkdir(exist_ok=True)  # its routine may have taken the folder away
    atomic.append(layout.tracker, added)
    atomic.sync(layout.tracker)


def take_out(layout: Layout, spec: str) -> None:
    """Take a spec out of the list in the user's checkout."""
    content = read(layout)
    if spec in names(content):
        atomic.write(layout.tracker, without(content, {spec}))


def _is_edited(run: Run, name: str, committed: bytes) -> bool:
    """Tell whether the list in the user's checkout of this branch is not the committed one."""
    return repo.head(run.tools.repo).branch == name and read(run.tools.layout) != committed
