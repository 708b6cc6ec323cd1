"""Keep a step's folder, and the commit it made, as one file where every machine can read it."""

import hashlib
import io
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from treadle.engine import manifest
from treadle.engine.run import Archive
from treadle.errors import FormatError, StoreError
from treadle.layout import Layout, step_name
from treadle.store.rows.run import StepRow

COMMIT = "commit.pack"
SUFFIX = ".tar"
_STEP = "step"
_CHUNK = 1 << 20
_SPOOL = 32 << 20


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
            return bytes(self._driver.get(self._place, key).bytes())
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


def key(run_id: str, index: int, role: str, epoch: int) -> str:
    """Return the name of a step's archive; every owner of a run has its own."""
    return f"{folder(run_id)}{step_name(index, role)}.e{epoch}{SUFFIX}"


def save(shelf: Shelf, name: str, folder: Path, pack: bytes | None) -> Archive:
    """Pack a step's folder and keep it; the same owner may do it again."""
    with tempfile.SpooledTemporaryFile(_SPOOL) as file:
        _pack(file, folder, pack)
        digest = _digest(file)
        if not shelf.put(name, file) and hashlib.sha256(shelf.get(name)).hexdigest() != digest:
            message = f"{shelf.url} has another {name}; two workers with one name?"
            raise StoreError(message, code="archive_taken", fix=["treadle fleet status"])
    return Archive(name, digest)


def fetch(shelf: Shelf, archive: Archive, target: Path) -> None:
    """Unpack a step's folder to a new place, after looking whether it is what was committed."""
    data = shelf.get(archive.key)
    if hashlib.sha256(data).hexdigest() != archive.sha256:
        raise FormatError(f"{archive.key} is not what was committed", code="archive_damaged")
    unpack(data, target)


def held(data: bytes) -> bytes | None:
    """Return the objects of the commit that a step made, if it made one."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            pack = tar.extractfile(COMMIT) if COMMIT in tar.getnames() else None
            return pack.read() if pack else None
    except tarfile.TarError as error:
        raise FormatError(f"an archive is damaged: {error}", code="archive_damaged") from error


def unpack(data: bytes, target: Path) -> None:
    """Unpack a step's folder to a new place."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            inner = [item for item in tar.getmembers() if item.name.startswith(f"{_STEP}/")]
            for item in inner:
                item.name = item.name.removeprefix(f"{_STEP}/")
            target.mkdir(parents=True)
            tar.extractall(target, members=inner, filter="data")
    except tarfile.TarError as error:
        message = f"{target.name}: its archive is damaged: {error}"
        raise FormatError(message, code="archive_damaged") from error


def missing(layout: Layout, steps: list[StepRow]) -> Iterator[tuple[StepRow, Archive]]:
    """Yield the archives of those steps whose folder is not here."""
    for step in steps:
        if step.archive and not (layout.root / step.step_dir).is_dir():
            yield step, Archive(step.archive, step.archive_sha256 or "")


def _pack(file: Any, folder: Path, pack: bytes | None) -> None:
    names = (manifest.NAME, *manifest.read(folder)[0].files)
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name in sorted(names):
            _add(tar, f"{_STEP}/{name}", (folder / name).read_bytes())
        if pack is not None:
            _add(tar, COMMIT, pack)
    file.seek(0)


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    """Add a file without owner and time, so that the same content is the same archive."""
    item = tarfile.TarInfo(name)
    item.size, item.mode = len(data), 0o644
    tar.addfile(item, io.BytesIO(data))


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
    reason = str(error).strip().splitlines()
    return StoreError(
        f"artifacts = {url} {what}: {reason[0][:300] if reason else type(error).__name__}",
        code="artifacts_failed",
        fix=["treadle config show"],
    )
