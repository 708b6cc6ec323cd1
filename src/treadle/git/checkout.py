"""Point git at a run's checkout without letting it search; the agent's .git is its own."""

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from treadle.files import remove
from treadle.git import call, confined, scratch
from treadle.git import settings as git_settings
from treadle.git.call import Reach, Runner
from treadle.git.repo import Repo
from treadle.git.settings import GitSettings
from treadle.proc import identity
from treadle.proc.helper import Captured

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
    index has a folder of its own, since git replaces it by a new file.
    """

    repo: Repo
    path: Path
    index: Path
    branch: str | None
    config: GitSettings
    runner: Runner = call.unconfined

    @property
    def place(self) -> dict[str, str]:
        """Return the variables that point git at this checkout."""
        return {
            "GIT_DIR": str(self.repo.git_dir),
            "GIT_WORK_TREE": str(self.path),
            "GIT_INDEX_FILE": str(self.index),
        }

    @property
    def lock(self) -> Path:
        """Return the lock file git makes while it writes the index."""
        return self.index.with_name(f"{self.index.name}.lock")

    @property
    def marker(self) -> Path:
        """Return the file that says which commit the index holds."""
        return self.index.parent.with_name(f"{self.index.parent.name}.commit")

    def reach(self, *further: Path) -> Reach:
        """Say what git may write when it works here: the index, and what it is asked to make."""
        # Git alone reads what is large in parts.
        memory = call.MEMORY if self.config.filters() else None
        return Reach(self.runner, (self.index.parent, *further), memory=memory)


def run(ws: Workspace, *args: str, stdin: bytes | None = None) -> Captured:
    """Run git on the workspace, whatever its exit code; `-u` is the option that writes files."""
    writes = "-u" in args
    reach = ws.reach(*((ws.path,) if writes else ()))
    config = settings(ws) if writes else (*settings(ws), *lfs(ws, ws.index.parent))
    done = call.run(args, ws.place, stdin=stdin, config=config, lock=ws.lock, reach=reach)
    if ws.runner is not call.unconfined:
        confined.require_plain(ws.index.parent)
    return done


def settings(ws: Workspace) -> Sequence[str]:
    """Return what git must be told for every call that may run a content filter."""
    return git_settings.switches(git_settings.disabled_filters(ws.repo, ws.config))


def lfs(ws: Workspace, folder: Path) -> Sequence[str]:
    """Let Git LFS store what it cleans in a folder that git may write; `scratch.keep` takes it."""
    return (f"lfs.storage={folder}/lfs",) if "lfs" in ws.config.filters() else ()


def commit_of(ws: Workspace) -> str | None:
    """Return the commit the index is known to hold; nothing is known after a power loss."""
    try:
        commit, _, boot = ws.marker.read_text().partition(" ")
    except OSError:
        return None
    return commit if boot == _boot() else None


def mark(ws: Workspace, commit: str) -> None:
    """Remember which commit the index holds now."""
    staged = ws.marker.with_name(f"{ws.marker.name}.tmp")
    staged.write_text(f"{commit} {_boot()}")
    staged.rename(ws.marker)


def forget(ws: Workspace) -> None:
    """Trust the index no longer, before it is changed."""
    ws.marker.unlink(missing_ok=True)


def holds(ws: Workspace, commit: str) -> bool:
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
    with contextlib.suppress(FileNotFoundError):
        target.unlink()
    shutil.copyfile(source, target)
    os.utime(target, ns=(state.st_atime_ns, state.st_mtime_ns))


def write_git_dir(ws: Workspace, commit: str) -> None:
    """Make the workspace's .git anew, whatever the agent left there."""
    folder = ws.path / ".git"
    remove.remove_tree(folder)
    (folder / "refs" / "heads").mkdir(parents=True)
    scratch.write_alternates(folder / "objects", scratch.alternates(ws.repo.objects))
    (folder / "packed-refs").write_bytes(_references(ws, commit))
    (folder / "config").write_text(_own_settings(ws), errors="surrogateescape")
    _copy_state(ws.repo, folder)
    copy_index(ws.index, folder / "index")
    head = f"ref: refs/heads/{ws.branch}" if ws.branch else commit
    (folder / "HEAD").write_bytes(os.fsencode(head) + b"\n")


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
    copies = {
        repo.common_dir / "shallow": folder / "shallow",
        repo.common_dir / "info" / "exclude": folder / "info" / "exclude",
        repo.common_dir / "info" / "attributes": folder / "info" / "attributes",
        repo.git_dir / "info" / "sparse-checkout": folder / "info" / "sparse-checkout",
    }
    for source, target in copies.items():
        if source.is_file():
            shutil.copyfile(source, target)
