"""Export a run as one file, and unpack such a file to replay it."""

import gzip
import hashlib
import io
import secrets
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Struct

from treadle.config.schema import AgentConfig, Config
from treadle.contract import ROLES, Criterion, load_object
from treadle.engine.run import order as orders
from treadle.engine.run import run_files
from treadle.engine.run.order import NamedAgent, Order
from treadle.errors import BlockedError, FormatError, NotFoundError, argument
from treadle.files import atomic, beneath, sync, tar, walk
from treadle.layout import Layout
from treadle.store.runs import RunRow
from treadle.store.store import Reader

_HEAD, _GZIP = "recording.json", b"\x1f\x8b"
_FIX = ("treadle runs list", "treadle replay --help")
_MAX_FILE, _MAX_ALL, _MAX_FILES = 64 << 20, 1 << 30, 20_000


class RecordedRequest(Struct, frozen=True, kw_only=True):
    """What the recorded run was asked; enough to ask it again."""

    version: int = 1
    run_id: str
    text: str
    criteria: tuple[Criterion, ...]
    base_commit: str | None = None


class Recording(NamedTuple):
    """An unpacked recording."""

    folder: Path
    asked: RecordedRequest


def export(layout: Layout, row: RunRow, target: Path) -> int:
    """Write a run's request and all its steps into one archive; return how many files it holds."""
    folder = layout.run(row.run_id)
    order = run_files.read_run(folder.run_json).order
    criteria = tuple(
        Criterion(item.id, item.text, None if item.verify is UNSET else item.verify)
        for item in order.criteria
    )
    asked = RecordedRequest(
        run_id=row.run_id, text=order.text, criteria=criteria, base_commit=row.base_commit
    )
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        tar.add(archive, _HEAD, msgspec.json.encode(asked))
        count = 0
        for name in _files(folder.steps):
            content = walk.read(folder.steps / name, max_bytes=_MAX_FILE)
            tar.add(archive, f"steps/{name}", content)
            count += 1
    atomic.write(target, data.getvalue())
    return count


def _files(steps: Path) -> Iterator[str]:
    """Yield the files of committed steps, without what is only being made."""
    for step in sorted(walk.names(steps)):
        if ".tmp-" not in step:
            yield from (
                f"{step}/{item.path}" for item in walk.walk(steps / step) if not item.is_folder
            )


def unpack(layout: Layout, source: Path) -> Recording:
    """Unpack a recording where runs can find it again; the same file always goes to one place."""
    try:
        if source.exists() and not source.is_file():  # a pipe or a device has no end
            raise _odd(f"{source} is not a recording")
        digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise NotFoundError(f"{source}: cannot be read ({error.strerror})", fix=_FIX) from error
    folder = layout.recordings / digest
    if not (folder / _HEAD).exists():
        try:
            with source.open("rb") as packed:
                _extract(packed, folder)
        except FormatError as error:
            raise _odd(f"{source} is not a recording: {error.message}") from error
        except (EOFError, OSError, zlib.error) as error:
            raise _odd(f"{source} is not a recording") from error
    try:
        data = walk.read(folder / _HEAD, max_bytes=_MAX_FILE)
        raw = load_object(data, source=f"{source.name}/{_HEAD}")
        return Recording(folder, msgspec.convert(raw, RecordedRequest))
    except (FormatError, msgspec.ValidationError) as error:
        raise _odd(f"{source}: {error}") from error


def _odd(message: str) -> FormatError:
    return FormatError(message, fix=_FIX)


def _extract(packed: io.BufferedReader, folder: Path) -> None:
    """Write what the recording holds beside its place, and move it there when it is whole."""
    is_zipped = packed.read(len(_GZIP)) == _GZIP
    packed.seek(0)
    stream = gzip.GzipFile(fileobj=packed) if is_zipped else packed
    staged = folder.with_name(f"{folder.name}.tmp-{secrets.token_hex(4)}")
    with tar.new_folder(staged) as write:
        for item in tar.members(stream, max_files=_MAX_FILES, max_bytes=_MAX_ALL):
            write(item.name, item.chunks)
        found = walk.walk(staged, max_entries=_MAX_FILES)
        if not (staged / _HEAD).exists():
            raise _odd(f"it has no {_HEAD}")
        sync.sync_all([staged, *(f"{staged}/{item.path}" for item in found)])
    beneath.remove_tree(folder)
    sync.rename_new(staged, folder)


def require_known(found: Recording, store: Reader, source: Path) -> None:
    """Stop before commands run that came with a file from somebody else."""
    commands = [item.verify for item in found.asked.criteria if item.verify]
    if commands and store.run(found.asked.run_id) is None:
        raise BlockedError(
            f"this recording was made elsewhere and would run: {'; '.join(commands)}",
            code="untrusted",
            fix=[f"treadle replay --allow-commands {argument(str(source))}"],
            details={"commands": commands},
        )


def order(config: Config, found: Recording, swaps: dict[str, str]) -> Order:
    """Return the recorded request, answered by the recording except for swapped roles."""
    asked = orders.freeze(
        config, text=found.asked.text, criteria=found.asked.criteria, swaps={}, task_id=None
    )
    recorded = AgentConfig(type="replay", recording=str(found.folder))
    answering = dict.fromkeys(ROLES, NamedAgent(name="replay", config=recorded))
    swapped = orders.named(config, swaps, swaps)
    return msgspec.structs.replace(asked, agents={**answering, **swapped})
