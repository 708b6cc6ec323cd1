"""Keep a step's folder, and the commit it made, as one file where every machine can read it."""

import contextlib
import io
import itertools
import re
import tarfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from treadle.engine.run import run_files
from treadle.engine.run.run import Archive
from treadle.errors import FormatError, StoreError, install_extra
from treadle.files import tar, walk
from treadle.ids import mask
from treadle.layout import STEP_JSON, step_name
from treadle.project.key import FleetKey
from treadle.store.runs import StepRow

COMMIT = "commit.pack"
SUFFIX = ".tar"
RUNS = "runs/"
_STEP = "step"
_OWNER = ".e"
_KIND = "archive"
# An archive ends with its signature in hexadecimal, which a reader of tar files ignores.
_SEAL = 64
_CHUNK = 1 << 20
_REFUSED = (OSError, ValueError, NotImplementedError)
# What a step's folder may hold, its step.json, and the objects of its commit.
_MAX_FILES = walk.MAX_ENTRIES + 2
_MAX_BYTES = 2 * walk.MAX_BYTES
_MAX_ARCHIVE = _MAX_BYTES + (64 << 20)


class Shelf:
    """One place for archives: a folder (`file://`) or a bucket (`s3://`)."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._driver = load_driver()
        with self._explained("cannot be opened"):
            if url.startswith("file://"):
                folder = url.removeprefix("file://")
                if not folder.startswith("/"):  # every process would have a folder of its own
                    raise ValueError("a folder's address begins with three slashes: file:///")
                local = self._driver.store.LocalStore
                self._place = local(folder, mkdir=True, automatic_cleanup=True)
            else:
                self._place = self._driver.store.from_url(url)

    def put(self, key: str, data: Any) -> bool:
        """Keep something under a new name; False when the name is taken."""
        with self._explained("cannot be written"):
            try:
                self._driver.put(self._place, key, data, mode="create")
            except self._driver.exceptions.AlreadyExistsError:
                return False
        return True

    def get(self, key: str) -> bytes:
        """Return what is kept under a name."""
        with self._explained("cannot be read"):
            try:
                found = self._driver.get(self._place, key)
            except (FileNotFoundError, self._driver.exceptions.NotFoundError) as error:
                raise FormatError(f"{self.url} has no {key}", code="archive_missing") from error
            if found.meta["size"] > _MAX_ARCHIVE:
                raise _damaged(f"{key} is larger than {_MAX_ARCHIVE >> 20} MiB")
            return bytes(found.bytes())

    def size(self, key: str) -> int | None:
        """Return how large something is; None if nothing is kept under the name."""
        with self._explained("cannot be read"):
            try:
                return int(self._driver.head(self._place, key)["size"])
            except (FileNotFoundError, self._driver.exceptions.NotFoundError):
                return None

    def names(self, prefix: str) -> list[str]:
        """Return the names that begin like this."""
        folder = prefix.rpartition("/")[0]
        with self._explained("cannot be read"):
            found = self._driver.list(self._place, prefix=folder).collect()
        return sorted(item["path"] for item in found if item["path"].startswith(prefix))

    def remove(self, prefix: str) -> None:
        """Remove whatever has a name that begins like this."""
        if found := self.names(prefix):
            with self._explained("cannot be written"):
                self._driver.delete(self._place, found)

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except (self._driver.exceptions.BaseError, *_REFUSED) as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            is_plain = "http://" in reason[0] and "builder error" in reason[0]
            why = "it is reached without TLS only if AWS_ALLOW_HTTP says so" if is_plain else ""
            if isinstance(error, NotImplementedError):
                why = "a plain web server keeps no archives"
            raise StoreError(
                f"artifacts = {mask(self.url)} {what}: {why or mask(reason[0])[:300]}",
                code="artifacts_failed",
                fix=["export AWS_ALLOW_HTTP=true" if is_plain else "treadle config show"],
            ) from error


def folder(run_id: str) -> str:
    """Return how the names of all archives of a run begin."""
    return f"{RUNS}{run_id}/"


def of_step(run_id: str, index: int, role: str) -> str:
    """Return how the names of a step's archives begin; it is what they are signed for."""
    return f"{folder(run_id)}{step_name(index, role)}"


def name_of(step: str, epoch: int) -> str:
    """Return the name of a step's archive; every owner of a run has its own."""
    return f"{step}{_OWNER}{epoch}{SUFFIX}"


def step_of(name: str) -> str:
    """Return the step that an archive of this name must be signed for."""
    return name.rpartition(_OWNER)[0]


def place_of(name: str) -> tuple[int, int] | None:
    """Return the step and the owner's epoch that an archive's name tells; None for other files."""
    found = re.fullmatch(rf".*/(\d+)-\w+{re.escape(_OWNER)}(\d+){re.escape(SUFFIX)}", name)
    return (int(found[1]), int(found[2])) if found else None


def order_name(run_id: str) -> str:
    """Return the name under which a run's order is kept beside its archives."""
    return f"{folder(run_id)}order.json"


def seal(name: str, folder: Path, pack: bytes | None, key: FleetKey) -> bytes:
    """Pack a step's folder with the objects of its commit, and sign it."""
    file = _packed(folder, pack)
    file.write(key.sign(_KIND, step_of(name), sha256(file.getbuffer()).hexdigest()).encode())
    return file.getvalue()


def put(shelf: Shelf, name: str, data: bytes) -> Archive:
    """Keep a sealed archive; the same owner may do it again."""
    digest = sha256(data).hexdigest()
    is_new = shelf.put(name, data)
    if is_new and shelf.size(name) != len(data):
        message = f"artifacts = {mask(shelf.url)} took {name} and does not have it"
        raise StoreError(message, code="artifacts_failed", fix=["treadle fleet check"])
    if not is_new and sha256(shelf.get(name)).hexdigest() != digest:
        message = f"{shelf.url} has another {name}; two workers with one name?"
        raise StoreError(message, code="archive_taken", fix=["treadle fleet status"])
    return Archive(name, digest)


def read(shelf: Shelf, step: StepRow, key: FleetKey) -> bytes:
    """Return a committed step's archive, after looking whether it is what was committed."""
    name = step.archive or ""
    data = shelf.get(name)
    if sha256(data).hexdigest() != step.archive_sha256:
        raise _damaged(f"{name} is not what was committed")
    return opened(data, of_step(step.run_id, step.step_index, step.role), key)


def opened(data: bytes, step: str, key: FleetKey) -> bytes:
    """Return an archive without its seal; FormatError unless a machine of the fleet made it for
    this very step."""
    body, seal = data[:-_SEAL], data[-_SEAL:].decode("ascii", "replace")
    if not key.knows(seal, _KIND, step, sha256(body).hexdigest()):
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


def _unpack(items: Iterator[tar.Member], target: Path) -> None:
    first = next(items, None)
    if first is None or first.name != f"{_STEP}/{STEP_JSON}":
        raise _damaged(f"it does not begin with {STEP_JSON}")
    body = b"".join(itertools.islice(first.chunks, run_files.MAX_BYTES // _CHUNK))
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


def _packed(folder: Path, pack: bytes | None) -> io.BytesIO:
    names = (STEP_JSON, *sorted(run_files.read_step(folder)[0].files))
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as packed:
        for name in names:
            tar.add(packed, f"{_STEP}/{name}", (folder / name).read_bytes())
        if pack is not None:
            tar.add(packed, COMMIT, pack)
    return file


def _members(data: bytes) -> Iterator[tar.Member]:
    stream = io.BytesIO(data)
    return tar.members(stream, max_files=_MAX_FILES, max_bytes=_MAX_BYTES)


def _damaged(message: str) -> FormatError:
    return FormatError(message, code="archive_damaged")


def load_driver() -> ModuleType:
    """Load obstore when a run of the fleet is touched: no other run needs it."""
    try:
        module: ModuleType = __import__("obstore", fromlist=["exceptions", "store"])
    except ImportError as error:
        raise StoreError(
            "archives of the fleet need the extra `fleet`, which is not installed",
            code="extra_missing",
            fix=[install_extra("fleet")],
        ) from error
    return module
