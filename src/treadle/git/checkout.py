"""Name a run's checkout, and point git at it without letting it search."""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from treadle.git import call, config, vouch
from treadle.git.call import Reach, Runner
from treadle.git.config import Config
from treadle.git.repo import Repo
from treadle.proc import identity
from treadle.proc.capture import Captured

MEMORY = 6 << 30  # three times the largest change: git and a filter hold a file as a whole


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
    config: Config
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
        memory = MEMORY if self.config.filters() else None  # git alone reads what is large in parts
        return Reach(self.runner, (self.index.parent, *further), memory=memory)


def run(ws: Workspace, *args: str, stdin: bytes | None = None) -> Captured:
    """Run git on the workspace, whatever its exit code; `-u` is the option that writes files."""
    writes = "-u" in args
    reach = ws.reach(*((ws.path,) if writes else ()))
    config = settings(ws) if writes else (*settings(ws), *lfs(ws, ws.index.parent))
    done = call.run(args, ws.place, stdin=stdin, config=config, lock=ws.lock, reach=reach)
    if ws.runner is not call.unconfined:
        vouch.plain(ws.index.parent)
    return done


def settings(ws: Workspace) -> Sequence[str]:
    """Return what git must be told for every call that may run a content filter."""
    return config.switches(config.disabled_filters(ws.repo, ws.config))


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


@cache
def _boot() -> str:
    return identity.current().boot


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
