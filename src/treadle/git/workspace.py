"""Make, look at, restore, move and remove the private checkout a run works in."""

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from treadle.errors import GitError, argument
from treadle.files import beneath, walk
from treadle.git import call, confined, scratch, trees
from treadle.git.call import Reach, Runner
from treadle.git.repo import GitSettings, Repo, disabled_filters, filters_off
from treadle.git.trees import GITLINK
from treadle.layout import is_within
from treadle.proc import identity
from treadle.proc.helper import Captured

Kind = Literal["added", "modified", "deleted", "typechange", "repository", "folder"]
# The repository's own HEAD is another commit, so only the column that compares the work tree
# with the index counts. Submodules stay out: looking into one would run git by discovery.
_LIST = ("status", "--porcelain", "-z", "-uall", "--no-renames", "--ignore-submodules=all")
_KINDS: dict[str, Kind] = {"D": "deleted", "T": "typechange", "A": "added"}
_UNREADABLE = re.compile(
    rb"^warning: could not open directory '([^\n]*?)/?(?:': .*)?$", re.MULTILINE
)
_MAX_DEPTH = 64
_STRANGERS = ("added", "repository", "folder")
_PASSES = 4  # restoring a .gitignore can bring out files that the changed one had hidden
INCLUDE = ".worktreeinclude"
_LIST_IGNORED = ("ls-files", "-z", "--others", "--ignored")
# What decides how files look on disk must be the same for the agent's git, or every file
# would count as modified there.
_COPIED_NAMES = (
    "attributesfile autocrlf bigfilethreshold eol excludesfile filemode ignorecase"
    " precomposeunicode sparsecheckout sparsecheckoutcone symlinks"
)
_COPIED_KEYS = frozenset(f"core.{name}" for name in _COPIED_NAMES.split())
_COPIED_SECTIONS = ("filter.", "lfs.")
_OWN_SETTINGS = {
    "core.bare": "false",
    "core.repositoryformatversion": "0",
    "core.logallrefupdates": "true",
    "core.fsmonitor": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
_NO_IDENTITY = {"user.name": "treadle", "user.email": "treadle@localhost"}
_OBJECT_ID = re.compile(rb"[0-9a-f]{40,64}")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\b": "\\b"})


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """A private checkout; `index` is treadle's own and lies out of the agent's reach.

    Content filters of the user run in here among an agent's files, so `runner` confines git. The
    index has a folder of its own, since git replaces it by a new file. `kept` are new files and
    folders, in /, that the setup made: they count as ignored, whatever the project says.
    """

    repo: Repo
    path: Path
    index: Path
    branch: str | None
    config: GitSettings
    runner: Runner = call.unconfined
    kept: tuple[str, ...] = ()

    @property
    def place(self) -> dict[str, str]:
        """Return the variables that point git at this checkout."""
        return {
            "GIT_DIR": str(self.repo.git_dir),
            "GIT_WORK_TREE": str(self.path),
            "GIT_INDEX_FILE": str(self.index),
        }

    @property
    def marker(self) -> Path:
        """Return the file that says which commit the index holds."""
        return self.index.parent.with_name(f"{self.index.parent.name}.commit")

    def reach(self, *further: Path) -> Reach:
        """Say what git may write when it works here: the index, and what it is asked to make."""
        # Git alone reads what is large in parts.
        memory = call.MEMORY if self.config.filters() else None
        return Reach(self.runner, (self.index.parent, *further), memory=memory)


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


def create(ws: Workspace, commit: str) -> None:
    """Make the workspace at `commit`, or bring a half-made one there."""
    ws.index.parent.mkdir(parents=True, exist_ok=True)
    if _make_folder(ws.path):
        ws.index.unlink(missing_ok=True)
        follow(ws, commit)
    else:
        restore(ws, commit)


def changes(ws: Workspace) -> tuple[Change, ...]:
    """Return the files that differ from the index; ignored ones do not count."""
    return _listed(ws, ()).changes


def survey(ws: Workspace) -> Survey:
    """Return the files that differ and the ignored ones; a wholly ignored folder is one, in /."""
    return _listed(ws, ("--ignored=matching",))


def left_new(ws: Workspace, commit: str) -> tuple[str, ...]:
    """Return what is there and not in `commit`; of a folder without any file of it, the folder.

    What an earlier setup made counts again, if it is there.
    """
    new = [it.path for it in changes(replace(ws, kept=())) if it.kind in _STRANGERS]
    if not new:
        return ()
    known = {folder for name in trees.files(ws.repo, commit) for folder in trees.above(name)}
    tops = (
        next((f"{folder}/" for folder in trees.above(path) if folder not in known), path)
        for path in new
    )
    return tuple(dict.fromkeys(tops))


def parse(listing: bytes) -> Survey:
    """Read git's short format."""
    found: list[Change] = []
    ignored: list[str] = []
    for line in filter(None, os.fsdecode(listing).split("\0")):
        state, path = line[1], line[3:]
        if state == "?":
            found.append(Change(path, "repository" if path.endswith("/") else "added"))
        elif state == "!":
            ignored.append(path)
        elif state != " ":
            found.append(Change(path, _KINDS.get(state, "modified")))
    return Survey(tuple(found), tuple(ignored))


def restore(ws: Workspace, commit: str) -> tuple[Change, ...]:
    """Bring the files back to `commit` and return what differed; ignored files stay."""
    known = commit_of(ws) if ws.index.is_file() else None
    if known is None:
        ws.index.unlink(missing_ok=True)
    if known != commit:
        _check_out(ws, commit)
    first = found = _look(ws, commit)
    for _ in range(_PASSES):
        if not found:
            write_git_dir(ws, commit)
            return first
        _remove_strangers(ws, found)
        _check_out(ws, commit)
        found = changes(ws)
    raise GitError(
        f"{ws.path} cannot be brought back to its commit: {found[0].path!r} stays different",
        fix=[f"rm -rf {argument(str(ws.path))}"],
    )


def follow(ws: Workspace, commit: str) -> None:
    """Bring the tracked files to another commit, whatever is in the way; other files stay."""
    _check_out(ws, commit)
    write_git_dir(ws, commit)


def adopt(ws: Workspace, index: Path, commit: str) -> None:
    """Take over the index of `commit`, which was built out of the workspace's own files."""
    forget_commit(ws)
    copy_index(index, ws.index)
    mark_commit(ws, commit)
    write_git_dir(ws, commit)


def remove(ws: Workspace) -> None:
    """Remove the checkout and its index."""
    for path in (ws.path, ws.marker, ws.index.parent):
        beneath.remove_tree(path)


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


def run_git(ws: Workspace, *args: str, stdin: bytes | None = None) -> Captured:
    """Run git on the workspace, whatever its exit code; `-u` is the option that writes files."""
    writes = "-u" in args
    reach = ws.reach(*((ws.path,) if writes else ()))
    config = filter_settings(ws, None if writes else ws.index.parent)
    done = call.run(args, ws.place, stdin=stdin, config=config, reach=reach)
    if ws.runner is not call.unconfined:
        confined.require_plain(ws.index.parent)
    return done


def filter_settings(ws: Workspace, stored: Path | None) -> Sequence[str]:
    """Return what git must be told for every call that may run a content filter.

    What Git LFS cleans it keeps in `stored`, a folder that git may write; `scratch.keep` takes it.
    """
    off = filters_off(disabled_filters(ws.repo, ws.config))
    return (*off, f"lfs.storage={stored}/lfs") if stored and "lfs" in ws.config.filters() else off


def commit_of(ws: Workspace) -> str | None:
    """Return the commit the index is known to hold; nothing is known after a power loss."""
    try:
        commit, _, boot = ws.marker.read_text().partition(" ")
    except OSError:
        return None
    return commit if boot == _boot() else None


def mark_commit(ws: Workspace, commit: str) -> None:
    """Remember which commit the index holds now."""
    staged = ws.marker.with_name(f"{ws.marker.name}.tmp")
    staged.write_text(f"{commit} {_boot()}")
    staged.rename(ws.marker)


def forget_commit(ws: Workspace) -> None:
    """Trust the index no longer, before it is changed."""
    ws.marker.unlink(missing_ok=True)


def holds_commit(ws: Workspace, commit: str) -> bool:
    """Tell whether the index is whole and at `commit`; git itself does not check the former."""
    if commit_of(ws) != commit:
        return False
    digest = hashlib.new(ws.repo.object_format)
    data = ws.index.read_bytes()
    digest.update(memoryview(data)[: -digest.digest_size])
    return data.endswith(digest.digest())


def copy_index(source: Path, target: Path) -> None:
    """Copy an index with its time, by which git tells which files it must read again."""
    state = source.stat()
    target.unlink(missing_ok=True)
    shutil.copyfile(source, target)
    os.utime(target, ns=(state.st_atime_ns, state.st_mtime_ns))


def write_git_dir(ws: Workspace, commit: str) -> None:
    """Make the workspace's .git anew, whatever the agent left there."""
    folder = ws.path / ".git"
    beneath.remove_tree(folder)
    (folder / "refs" / "heads").mkdir(parents=True)
    scratch.write_alternates(folder / "objects", scratch.alternates(ws.repo.objects))
    (folder / "packed-refs").write_bytes(_references(ws, commit))
    (folder / "config").write_text(_own_settings(ws), errors="surrogateescape")
    _copy_state(ws.repo, folder)
    _exclude(folder / "info" / "exclude", ws.kept)
    copy_index(ws.index, folder / "index")
    head = f"ref: refs/heads/{ws.branch}" if ws.branch else commit
    (folder / "HEAD").write_bytes(os.fsencode(head) + b"\n")


def welcome(ws: Workspace, commit: str) -> None:
    """Leave no settings of an agent's where a person may look: git asks submodules for theirs."""
    write_git_dir(ws, commit)
    for name, leaf in trees.files(ws.repo, commit).items():
        if leaf.mode == GITLINK and walk.is_folder(ws.path / name) and is_within(ws.path, name):
            beneath.remove_tree(ws.path / name / ".git")


def _make_folder(path: Path) -> bool:
    """Make the workspace's folder; tell whether it is new."""
    try:
        if path.is_symlink() or not path.is_dir():
            beneath.remove_tree(path)
            path.mkdir(mode=0o700, parents=True)
            return True
        path.chmod(0o700)
        return not any(path.iterdir())
    except OSError as error:
        text = f"the workspace {path} cannot be made: {error.strerror}"
        raise GitError(text, fix=["treadle config show"]) from error


def _check_out(ws: Workspace, commit: str) -> None:
    """Write every tracked file that is not as in `commit`, never through a link."""
    confined.clear_special(ws.path)
    forget_commit(ws)
    args = ("read-tree", "--reset", "-u", commit)
    if run_git(ws, *args).returncode:
        ws.index.unlink(missing_ok=True)
        done = run_git(ws, *args)
        if done.returncode:
            raise call.failure(args, done)
    mark_commit(ws, commit)


def _look(ws: Workspace, commit: str) -> tuple[Change, ...]:
    """List the changes, with a new index if git cannot read the old one."""
    try:
        return changes(ws)
    except GitError:
        ws.index.unlink(missing_ok=True)
        _check_out(ws, commit)
        return changes(ws)


def _listed(ws: Workspace, options: tuple[str, ...]) -> Survey:
    args = (*_LIST, *options)
    removed = confined.clear_special(ws.path)
    done = run_git(ws, *args)
    if done.returncode:
        raise call.failure(args, done)
    found = parse(done.stdout)
    if any(not change.path for change in found.changes):
        raise GitError(f"{ws.index} is damaged", fix=[f"rm {argument(str(ws.index))}"])
    seen = (*found.changes, *_too_deep(done.stderr))
    ours = tuple(change for change in seen if not _is_kept(ws, change))
    ignored = found.ignored
    if options and ws.kept:
        ignored += tuple(name for name in ws.kept if os.path.lexists(ws.path / name))
    return Survey(ours, ignored, _unexpected(ws, removed))


def _is_kept(ws: Workspace, change: Change) -> bool:
    """Tell whether the setup made this; a link in the place of its folder is no folder."""
    folders = tuple(name for name in ws.kept if name.endswith("/"))
    is_ours = change.path in ws.kept or change.path.startswith(folders)
    return is_ours and change.kind in _STRANGERS


def _too_deep(stderr: bytes) -> list[Change]:
    paths = [os.fsdecode(path).split("/") for path in _UNREADABLE.findall(stderr)]
    tops = {"/".join(parts[:_MAX_DEPTH]) for parts in paths if len(parts) > _MAX_DEPTH}
    return [Change(top, "folder") for top in sorted(tops)]


def _unexpected(ws: Workspace, removed: tuple[str, ...]) -> tuple[str, ...]:
    """Return what the project does not ignore: programs leave sockets where they keep caches."""
    if not removed:
        return ()
    names = b"".join(os.fsencode(path) + b"\0" for path in removed)
    done = run_git(ws, "check-ignore", "-z", "--stdin", stdin=names)
    ignored = os.fsdecode(done.stdout).split("\0")
    return tuple(path for path in removed if path not in ignored)


def _remove_strangers(ws: Workspace, found: Iterable[Change]) -> None:
    """Remove what the commit does not know, and folders that are empty then."""
    for change in found:
        path = ws.path / change.path
        parents = [parent for parent in path.parents if parent.is_relative_to(ws.path)]
        is_real = parents and not any(parent.is_symlink() for parent in parents)
        if change.kind in _STRANGERS and is_real:
            beneath.remove_tree(path)
            beneath.empty_upwards(ws.path, path.parent)


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


def _exclude(path: Path, names: Iterable[str]) -> None:
    """Let the agent's own git ignore what the setup made."""
    lines = (re.sub(r"([\\*?\[ #!])", r"\\\1", name) for name in names if "\n" not in name)
    if words := "".join(f"\n/{line}" for line in lines):
        with path.open("a", errors="surrogateescape") as stream:
            stream.write(f"{words}\n")


@cache
def _boot() -> str:
    return identity.current().boot


def _references(ws: Workspace, commit: str) -> bytes:
    """Return the base branch and all tags, sorted as git wants them."""
    found = _tags(ws.repo)
    if ws.branch:
        found[os.fsencode(f"refs/heads/{ws.branch}")] = commit.encode("ascii")
    lines = [b"%s %s\n" % (found[name], name) for name in sorted(found)]
    return b"# pack-refs with: sorted \n" + b"".join(lines)


def _tags(repo: Repo) -> dict[bytes, bytes]:
    """Return the tags that name an object; files come first, as they may be packed meanwhile."""
    found: dict[bytes, bytes] = {}
    for folder, _, names in os.walk(repo.common_dir / "refs" / "tags"):
        for path in [Path(folder, name) for name in names if not name.endswith(".lock")]:
            with contextlib.suppress(OSError):
                found[os.fsencode(path.relative_to(repo.common_dir))] = path.read_bytes().strip()
    packed = repo.common_dir / "packed-refs"
    for line in packed.read_bytes().split(b"\n") if packed.is_file() else ():
        name, _, ref = line.partition(b" ")
        if ref.startswith(b"refs/tags/"):
            found.setdefault(ref, name)
    # A tag may be another name for a reference, or empty after a power loss: git would choke.
    return {ref: name for ref, name in found.items() if _OBJECT_ID.fullmatch(name)}


def _own_settings(ws: Workspace) -> str:
    wanted = [item for item in ws.config.entries if item.is_local]
    entries = [
        (item.key, item.value)
        for item in wanted
        if item.key in _COPIED_KEYS or item.key.startswith(_COPIED_SECTIONS)
    ]
    own = dict(_OWN_SETTINGS)
    if not any(item.key == "user.email" and not item.is_local for item in ws.config.entries):
        own |= _NO_IDENTITY
    if ws.repo.object_format != "sha1":
        own |= {
            "core.repositoryformatversion": "1",
            "extensions.objectformat": ws.repo.object_format,
        }
    return "".join(_setting(key, value) for key, value in (*entries, *own.items()))


def _setting(key: str, value: str) -> str:
    section, _, rest = key.partition(".")
    subsection, _, name = rest.rpartition(".")
    subsection = subsection.replace("\\", "\\\\").replace('"', '\\"')
    title = f'{section} "{subsection}"' if subsection else section
    return f'[{title}]\n\t{name} = "{value.translate(_ESCAPES)}"\n'


def _copy_state(repo: Repo, folder: Path) -> None:
    (folder / "info").mkdir()
    shared = [repo.common_dir / name for name in ("shallow", "info/exclude", "info/attributes")]
    for source in (*shared, repo.git_dir / "info" / "sparse-checkout"):
        if source.is_file():
            above = folder / "info" if source.parent.name == "info" else folder
            shutil.copyfile(source, above / source.name)
