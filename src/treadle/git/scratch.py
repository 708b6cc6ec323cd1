"""Give git an index and an object store of its own, so that a refused change leaves no trace."""

import contextlib
import errno
import hashlib
import os
import re
import shutil
import stat
import zlib
from collections.abc import Iterable, Sequence
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
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_LETTERS = {
    b"a": b"\a",
    b"b": b"\b",
    b"t": b"\t",
    b"n": b"\n",
    b"v": b"\v",
    b"f": b"\f",
    b"r": b"\r",
}
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
    store, packs = scratch.store, list(scratch.store.glob("pack/*"))
    for path in store.iterdir():
        if not _OBJECT_FOLDER.fullmatch(path.name):
            beneath.remove_tree(path)
    write_alternates(store, alternates(scratch.repo.objects))
    for path in packs:  # git packs what is very large
        if not _PACK.fullmatch(path.name):
            beneath.remove_tree(path)
        elif path.suffix == ".idx":
            out(scratch, "verify-pack", "--", str(path))
    for path in store.glob("[0-9a-f][0-9a-f]/*"):
        if not _is_true(path, scratch.repo.object_format):
            raise confined.trespass(f"{path.parent.name}{path.name}, which is not that object,")


def keep(scratch: Scratch) -> None:
    """Move the built objects into the repository, durably: all there or not yet referred to."""
    lfs = scratch.folder / "lfs" / "objects"
    # What is not what its name says stays behind.
    stored = [path for path in lfs.glob("??/??/*") if sha256(path) == path.name]
    _keep(stored, lfs, scratch.repo.common_dir / "lfs" / "objects")
    keep_objects(scratch.store, scratch.repo.objects)


def keep_objects(store: Path, target: Path) -> None:
    """Move every object of `store` into `target`, durably."""
    folders = [path for path in store.iterdir() if _OBJECT_FOLDER.fullmatch(path.name)]
    found = [path for folder in folders for path in folder.iterdir() if path.is_file()]
    # A pack's index comes last: git believes in a pack once its index is there.
    _keep(sorted(found, key=lambda path: (path.suffix == ".idx", path.name)), store, target)


def drop(scratch: Scratch) -> None:
    """Remove the scratch place."""
    beneath.remove_tree(scratch.folder)


def write_object(store: Path, kind: str, content: bytes, object_format: str) -> str:
    """Write an object into `store` and return its id; `keep` makes it durable."""
    data = b"%s %d\0%s" % (kind.encode("ascii"), len(content), content)
    name = hashlib.new(object_format, data).hexdigest()
    path = store / name[:2] / name[2:]
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        atomic.create(path, zlib.compress(data, _FAST), mode=_READ_ONLY)
    return name


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
            other = Path(os.path.normpath(store / os.fsdecode(unquoted(line))))
            found += [path for path in alternates(other, depth + 1) if path not in found]
    return found


def unquoted(name: bytes) -> bytes:
    """Return a name as it is, which git may have put in quotes."""
    if not name.startswith(b'"'):
        return name
    return _ESCAPE.sub(_unescaped, name.removeprefix(b'"').removesuffix(b'"'))


def _unescaped(found: re.Match[bytes]) -> bytes:
    text = found[1]
    return bytes([int(text, 8) & 255]) if text[:1] in b"01234567" else _LETTERS.get(text, text)


def _keep(files: Sequence[Path], store: Path, target: Path) -> None:
    if not files:
        return
    sync.sync_all(files)
    target.mkdir(parents=True, exist_ok=True)
    for path in files:
        place = target / path.relative_to(store)
        if not place.parent.is_dir():
            place.parent.mkdir(parents=True, exist_ok=True)  # another run may make it too
            place.parent.chmod(stat.S_IMODE(target.stat().st_mode))  # a shared one stays shared
        _move(path, place)
    sync.sync_all({target, *(target / path.relative_to(store).parent for path in files)})


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
