"""Give git an index and an object store of its own, so that a refused change leaves no trace."""

import contextlib
import errno
import hashlib
import os
import re
import shutil
import stat
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from treadle.errors import FormatError
from treadle.files import atomic, beneath, sync, walk
from treadle.files.sync import sha256
from treadle.git import call, confined
from treadle.git.call import Reach, Runner
from treadle.git.repo import Repo

_READ_ONLY = 0o444
_OBJECT_FOLDER = re.compile(r"[0-9a-f]{2}|pack")
_PACK = re.compile(r"pack-[0-9a-f]+\.(pack|idx)")
_PIECE = 1 << 20
_FAST = 1  # ids do not compress anyway
_MAX_ALTERNATES = 5  # as deep as git itself follows one store's pointer to another
NO_SYNC = "core.fsync=none"  # `keep` makes what is kept durable, all of it at once


@dataclass(frozen=True, kw_only=True)
class Scratch:
    """A folder in which a tree is built before anybody has judged it."""

    repo: Repo
    folder: Path
    runner: Runner = call.unconfined

    @property
    def index(self) -> Path:
        """Return the scratch index."""
        return self.folder / "index"

    @property
    def store(self) -> Path:
        """Return the scratch object store."""
        return self.folder / "objects"

    @property
    def place(self) -> dict[str, str]:
        """Return the variables that point git here."""
        return self.repo.place | {
            "GIT_INDEX_FILE": str(self.index),
            "GIT_OBJECT_DIRECTORY": str(self.store),
        }

    def reach(self, memory: int = call.MEMORY) -> Reach:
        """Say what git may write when it works here."""
        return Reach(self.runner, (self.folder,), memory)


def write_object(store: Path, kind: str, content: bytes, object_format: str) -> str:
    """Write an object into `store` and return its id; `keep` makes it durable."""
    data = b"%s %d\0%s" % (kind.encode("ascii"), len(content), content)
    name = hashlib.new(object_format, data).hexdigest()
    path = store / name[:2] / name[2:]
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        atomic.create(path, zlib.compress(data, _FAST), mode=_READ_ONLY)
    return name


def keep_objects(store: Path, target: Path) -> None:
    """Move every object of `store` into `target`, durably: all there or not yet referred to."""
    found = sorted(_stored_files(store), key=_packs_last)
    if not found:
        return
    sync.sync_all(found)
    folders = {target}
    for path in found:
        folder = target / path.parent.name
        folders.add(_shared_folder(folder, target))
        _move(path, folder / path.name)
    sync.sync_all(folders)


def keep_lfs(store: Path, target: Path) -> None:
    """Move what Git LFS stored, durably; what is not what its name says stays behind."""
    found = [path for path in store.glob("objects/??/??/*") if sha256(path) == path.name]
    if not found:
        return
    sync.sync_all(found)
    for path in found:
        place = target / path.relative_to(store)
        place.parent.mkdir(parents=True, exist_ok=True)
        _move(path, place)
        sync.sync_all([place.parent])


def tidy_store(store: Path, others: Iterable[Path]) -> list[Path]:
    """Leave nothing in a store but objects and what it borrows from; return its packs' indexes."""
    for path in store.iterdir():
        if not _OBJECT_FOLDER.fullmatch(path.name):
            beneath.remove_tree(path)
    write_alternates(store, others)
    packs = list((store / "pack").glob("*"))
    for path in packs:
        if not _PACK.fullmatch(path.name):
            beneath.remove_tree(path)
    return [path for path in packs if path.suffix == ".idx"]


def find_wrong(store: Path, object_format: str) -> Path | None:
    """Return a file of the store that is not the object whose id it bears."""
    found = store.glob("[0-9a-f][0-9a-f]/*")
    return next((path for path in found if not _is_true(path, object_format)), None)


def write_alternates(store: Path, others: Iterable[Path]) -> None:
    """Let `store` borrow from other stores."""
    (store / "info").mkdir(parents=True, exist_ok=True)
    lines = b"".join(_quoted(os.fsencode(other)) + b"\n" for other in others)
    (store / "info" / "alternates").write_bytes(lines)


def alternates(store: Path, depth: int = 0) -> list[Path]:
    """Return a store and all stores it borrows from, each with its full path."""
    found = [store]
    if depth < _MAX_ALTERNATES:
        for line in _lines(store / "info" / "alternates"):
            other = Path(os.path.normpath(store / os.fsdecode(_unquoted(line))))
            found += [path for path in alternates(other, depth + 1) if path not in found]
    return found


def make(repo: Repo, folder: Path, runner: Runner = call.unconfined) -> Scratch:
    """Make an empty scratch place, whatever an earlier one left there."""
    beneath.remove_tree(folder)
    scratch = Scratch(repo=repo, folder=folder, runner=runner)
    write_alternates(scratch.store, alternates(repo.objects))
    return scratch


def out(scratch: Scratch, *args: str, stdin: bytes | None = None) -> bytes:
    """Run git in the scratch place and return what it printed; GitError if it failed."""
    reach = scratch.reach()
    return call.out(args, scratch.place, stdin=stdin, config=(NO_SYNC,), reach=reach)


def vouch(scratch: Scratch) -> None:
    """Make sure that git alone has worked here, before anybody believes what lies here.

    A content filter may have run an agent's code, which could write here too: a link for treadle
    to write through, another store to borrow from, an object that is not what its name says.
    """
    confined.require_plain(scratch.folder)
    packs = tidy_store(scratch.store, alternates(scratch.repo.objects))
    for pack in packs:  # git packs what is very large
        out(scratch, "verify-pack", "--", str(pack))
    wrong = find_wrong(scratch.store, scratch.repo.object_format)
    if wrong:
        raise confined.trespass(f"{wrong.parent.name}{wrong.name}, which is not that object,")


def keep(scratch: Scratch) -> None:
    """Move the built objects into the repository, durably."""
    keep_lfs(scratch.folder / "lfs", scratch.repo.common_dir / "lfs")
    keep_objects(scratch.store, scratch.repo.objects)


def drop(scratch: Scratch) -> None:
    """Remove the scratch place."""
    beneath.remove_tree(scratch.folder)


def _stored_files(store: Path) -> list[Path]:
    folders = [path for path in store.iterdir() if len(path.name) == 2 or path.name == "pack"]
    return [path for folder in folders for path in folder.iterdir() if path.is_file()]


def _packs_last(path: Path) -> tuple[bool, str]:
    """Put a pack's index last: git believes in a pack once its index is there."""
    return path.suffix == ".idx", path.name


def _shared_folder(folder: Path, store: Path) -> Path:
    if not folder.is_dir():
        folder.mkdir(exist_ok=True)
        folder.chmod(stat.S_IMODE(store.stat().st_mode))  # a shared repository stays shared
    return folder


def _move(path: Path, target: Path) -> None:
    if target.exists():
        return
    try:
        path.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        staged = target.with_name(f"tmp_obj_{target.name}")
        shutil.copyfile(path, staged)
        staged.chmod(_READ_ONLY)
        atomic.sync(staged)
        staged.rename(target)


def _is_true(path: Path, object_format: str) -> bool:
    digest, unpacked = hashlib.new(object_format), zlib.decompressobj()
    try:
        with walk.plain_file(path) as stream:
            while data := unpacked.unconsumed_tail or stream.read(_PIECE):
                digest.update(unpacked.decompress(data, _PIECE))
    except (FormatError, OSError, zlib.error):
        return False
    return unpacked.eof and digest.hexdigest() == path.parent.name + path.name


def _quoted(path: bytes) -> bytes:
    if not path.startswith((b'"', b"#")) and b"\n" not in path:
        return path
    text = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"%s"' % text


def _lines(path: Path) -> list[bytes]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return []
    return [line for line in lines if line and not line.startswith(b"#")]


def _unquoted(line: bytes) -> bytes:
    if not line.startswith(b'"'):
        return line
    return line[1:-1].decode("unicode_escape").encode("latin-1")
