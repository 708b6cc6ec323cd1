"""Keep a step's folder, and the commit it made, as one file where every machine can read it."""

import hashlib
import io
import itertools
import os
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from treadle.engine.run import run_files
from treadle.engine.run.run import Archive
from treadle.errors import FormatError, StoreError
from treadle.files import tar, walk
from treadle.ids import mask
from treadle.layout import STEP_JSON, Layout, step_name
from treadle.project.key import FleetKey
from treadle.store.runs import StepRow

COMMIT = "commit.pack"
SUFFIX = ".tar"
_STEP = "step"
_OWNER = ".e"
_KIND = "archive"
# An archive ends with its signature in hexadecimal, which a reader of tar files ignores.
_SEAL = 64
_CHUNK = 1 << 20
_SPOOL = 32 << 20
# What a step's folder may hold, its step.json, and the objects of its commit.
_MAX_FILES = walk.MAX_ENTRIES + 2
_MAX_BYTES = 2 * walk.MAX_BYTES
_MAX_ARCHIVE = _MAX_BYTES + (64 << 20)


class Shelf:
    """One place for archives: a folder (`file://`) or a bucket (`s3://`)."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._driver = _driver()
        self._errors = (self._driver.exceptions.BaseError, OSError, ValueError)
        try:
            self._place = self._open(url)
        except self._errors as error:
            raise _failed(url, "cannot be opened", error) from error

    def put(self, key: str, data: Any) -> bool:
        """Keep something under a new name; False when the name is taken."""
        try:
            self._driver.put(self._place, key, data, mode="create")
        except self._driver.exceptions.AlreadyExistsError:
            return False
        except self._errors as error:
            raise _failed(self.url, "cannot be written", error) from error
        return True

    def get(self, key: str) -> bytes:
        """Return what is kept under a name."""
        try:
            found = self._driver.get(self._place, key)
            if found.meta["size"] > _MAX_ARCHIVE:
                raise _damaged(f"{key} is larger than {_MAX_ARCHIVE >> 20} MiB")
            return bytes(found.bytes())
        except (FileNotFoundError, self._driver.exceptions.NotFoundError) as error:
            raise FormatError(f"{self.url} has no {key}", code="archive_missing") from error
        except self._errors as error:
            raise _failed(self.url, "cannot be read", error) from error

    def names(self, prefix: str) -> list[str]:
        """Return the names that begin like this."""
        folder = prefix.rpartition("/")[0]
        try:
            found = self._driver.list(self._place, prefix=folder).collect()
        except self._errors as error:
            raise _failed(self.url, "cannot be read", error) from error
        return sorted(item["path"] for item in found if item["path"].startswith(prefix))

    def remove(self, prefix: str) -> None:
        """Remove whatever has a name that begins like this."""
        if found := self.names(prefix):
            try:
                self._driver.delete(self._place, found)
            except self._errors as error:
                raise _failed(self.url, "cannot be written", error) from error

    def _open(self, url: str) -> Any:
        if url.startswith("file://"):
            folder = url.removeprefix("file://")
            return self._driver.store.LocalStore(folder, mkdir=True, automatic_cleanup=True)
        return self._driver.store.from_url(url)


def folder(run_id: str) -> str:
    """Return how the names of all archives of a run begin."""
    return f"runs/{run_id}/"


def of_step(run_id: str, index: int, role: str) -> str:
    """Return how the names of a step's archives begin; it is what they are signed for."""
    return f"{folder(run_id)}{step_name(index, role)}"


def name_of(step: str, epoch: int) -> str:
    """Return the name of a step's archive; every owner of a run has its own."""
    return f"{step}{_OWNER}{epoch}{SUFFIX}"


def step_of(name: str) -> str:
    """Return the step that an archive of this name must be signed for."""
    return name.rpartition(_OWNER)[0]


def save(shelf: Shelf, name: str, folder: Path, pack: bytes | None, key: FleetKey) -> Archive:
    """Pack and sign a step's folder and keep it; the same owner may do it again."""
    with tempfile.SpooledTemporaryFile(_SPOOL) as file:
        _pack(file, folder, pack)
        seal = key.sign(_KIND, step_of(name), _digest(file))
        file.seek(0, os.SEEK_END)
        file.write(seal.encode())
        file.seek(0)
        digest = _digest(file)
        if not shelf.put(name, file) and hashlib.sha256(shelf.get(name)).hexdigest() != digest:
            message = f"{shelf.url} has another {name}; two workers with one name?"
            raise StoreError(message, code="archive_taken", fix=["treadle fleet status"])
    return Archive(name, digest)


def fetch(shelf: Shelf, step: StepRow, key: FleetKey, target: Path) -> None:
    """Unpack a committed step's folder to a new place."""
    unpack(read(shelf, step, key), target)


def read(shelf: Shelf, step: StepRow, key: FleetKey) -> bytes:
    """Return a committed step's archive, after looking whether it is what was committed."""
    name = step.archive or ""
    data = shelf.get(name)
    if hashlib.sha256(data).hexdigest() != step.archive_sha256:
        raise _damaged(f"{name} is not what was committed")
    return opened(data, of_step(step.run_id, step.step_index, step.role), key)


def opened(data: bytes, step: str, key: FleetKey) -> bytes:
    """Return an archive without its seal; FormatError unless a machine of the fleet made it for
    this very step."""
    body, seal = data[:-_SEAL], data[-_SEAL:].decode("ascii", "replace")
    if not key.knows(seal, _KIND, step, hashlib.sha256(body).hexdigest()):
        raise FormatError(
            f"the archive of {step} was not signed for it with this fleet's key",
            code="archive_forged",
            fix=["treadle fleet key", "treadle fleet status"],
        )
    return body


def held(data: bytes) -> bytes | None:
    """Return the objects of the commit that a step made, if it made one."""
    packs = [b"".join(item.chunks) for item in _members(data) if item.name == COMMIT]
    return packs[0] if packs else None


def unpack(data: bytes, target: Path) -> None:
    """Write the files that a step's `step.json` names to a new place, and refuse any other."""
    try:
        _unpack(_members(data), target)
    except FormatError as error:
        raise _damaged(f"{target.name}: its archive is damaged: {error.message}") from error


def missing(layout: Layout, steps: list[StepRow]) -> Iterator[StepRow]:
    """Yield those steps with an archive whose folder is not here."""
    return (item for item in steps if item.archive and not (layout.root / item.step_dir).is_dir())


def _unpack(items: Iterator[tar.Member], target: Path) -> None:
    first = next(items, None)
    if first is None or first.name != f"{_STEP}/{STEP_JSON}":
        raise _damaged(f"it does not begin with {STEP_JSON}")
    body = b"".join(itertools.islice(first.chunks, run_files.MAX_STEP // _CHUNK))
    wanted = dict(run_files.parse_step(body, target.name).files)
    with tar.new_folder(target) as write:
        write(STEP_JSON, [body])
        for item in items:
            if item.name == COMMIT:
                continue
            name = item.name.removeprefix(f"{_STEP}/")
            if name == item.name or name not in wanted:
                raise _damaged(f"{STEP_JSON} does not name {item.name[:200]!r}")
            if write(name, item.chunks) != wanted.pop(name):
                raise _damaged(f"{name} is not what {STEP_JSON} says")
        if wanted:
            raise _damaged(f"it lacks {min(wanted)}")


def _pack(file: Any, folder: Path, pack: bytes | None) -> None:
    names = (STEP_JSON, *sorted(run_files.read_step(folder)[0].files))
    with tarfile.open(fileobj=file, mode="w") as packed:
        for name in names:
            _add(packed, f"{_STEP}/{name}", (folder / name).read_bytes())
        if pack is not None:
            _add(packed, COMMIT, pack)
    file.seek(0)


def _add(packed: tarfile.TarFile, name: str, data: bytes) -> None:
    """Add a file without owner and time, so that the same content is the same archive."""
    item = tarfile.TarInfo(name)
    item.size, item.mode = len(data), 0o644
    packed.addfile(item, io.BytesIO(data))


def _members(data: bytes) -> Iterator[tar.Member]:
    stream = io.BytesIO(data)
    return tar.members(stream, max_files=_MAX_FILES, max_bytes=_MAX_BYTES)


def _damaged(message: str) -> FormatError:
    return FormatError(message, code="archive_damaged")


def _digest(file: Any) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    file.seek(0)
    return digest.hexdigest()


def _driver() -> ModuleType:
    """Load obstore when a run of the fleet is touched: no other run needs it."""
    try:
        module: ModuleType = __import__("obstore", fromlist=["exceptions", "store"])
        for name in ("exceptions", "store"):
            __import__(f"obstore.{name}")
    except ImportError as error:
        raise StoreError(
            "archives of the fleet need the extra `fleet`, which is not installed",
            code="extra_missing",
            fix=["pip install 'treadle[fleet]'"],
        ) from error
    return module


def _failed(url: str, what: str, error: Exception) -> StoreError:
    reason = str(error).strip().splitlines() or [type(error).__name__]
    return StoreError(
        f"artifacts = {mask(url)} {what}: {mask(reason[0])[:300]}",
        code="artifacts_failed",
        fix=["treadle config show"],
    )
