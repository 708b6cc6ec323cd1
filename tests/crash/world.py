"""Give each worker its own world: the same absolute path, a private file system behind it."""

import ctypes
import json
import os
import shutil
from pathlib import Path

from tests.crash.seccomp import libc
from treadle.config import identity

_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_PRIVATE_RECURSIVE = (1 << 18) | (1 << 14)
_DETACH = 2


class World:
    """A folder that can be emptied at once and filled from a kept copy.

    Programs write absolute paths into their files, so a copy elsewhere would not be the same
    project; with a mount namespace per worker all of them can use one path at the same time.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.is_private = _leave_shared_mounts()
        self.is_mounted = False

    def clear(self, size: int | None = None) -> None:
        """Empty the world; with `size`, give it a disk of that many bytes."""
        if not self.is_private:
            shutil.rmtree(self.root, ignore_errors=True)
            self.root.mkdir(parents=True)
            return
        if self.is_mounted:
            _checked(libc.umount2(os.fsencode(self.root), _DETACH), "umount2")
        self.root.mkdir(parents=True, exist_ok=True)
        options = f"size={size}".encode() if size else None
        _checked(libc.mount(b"world", os.fsencode(self.root), b"tmpfs", 0, options), "mount")
        self.is_mounted = True

    def used(self) -> int:
        """Return how many bytes the world takes on its disk."""
        disk = os.statvfs(self.root)
        return (disk.f_blocks - disk.f_bfree) * disk.f_frsize

    def save(self, kept: Path) -> None:
        """Copy the world's present content to a folder outside it."""
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(self.root, kept, symlinks=True)

    def restore(self, kept: Path, size: int | None = None) -> None:
        """Bring back what `save` kept, and nothing else."""
        self.clear(size)
        shutil.copytree(kept, self.root, symlinks=True, dirs_exist_ok=True)
        self.trust()

    def trust(self) -> None:
        """Trust the copied repository again, without a command whose calls would be counted."""
        path = self.root / "home" / "state" / "treadle" / "trust.json"
        if path.exists():
            book = json.loads(path.read_text())
            for entry in book["repositories"]:
                entry["identity"] = identity(Path(entry["root"]) / ".git")
            path.write_text(json.dumps(book))


def _leave_shared_mounts() -> bool:
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_NEW_MOUNTS) and libc.unshare(_NEW_MOUNTS | _NEW_USER):
        return False
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return bool(libc.mount(b"none", b"/", None, _PRIVATE_RECURSIVE, None) == 0)


def _checked(result: int, what: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), what)
