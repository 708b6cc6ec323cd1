"""Write and read `step.json`: the intent of a step's commit, and its proof."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from treadle.contract import strictjson
from treadle.errors import FormatError
from treadle.files import atomic, walk
from treadle.store.runs import CheckRow, Cursor, Event, StepRow, UsageRow

NAME = "step.json"
MAX = 64 << 20
_NOTHING = hashlib.sha256().hexdigest()


class Snapshot(NamedTuple):
    """What the run's branch stands on."""

    commit: str
    tree: str


class Manifest(NamedTuple):
    """Everything the store learns from one step, and the digest of every file."""

    row: StepRow
    events: tuple[Event, ...]
    cursor: Cursor
    kv: Mapping[str, object]
    before: Snapshot
    after: Snapshot
    usage: UsageRow | None
    checks: tuple[CheckRow, ...]
    files: Mapping[str, str]


def write(folder: Path, manifest: Manifest) -> str:
    """Write `step.json` and return its digest."""
    parts = {name: _plain(value) for name, value in manifest._asdict().items()}
    body: dict[str, object] = {"version": 1, **parts}
    body["digest"] = _digest(body)
    data = msgspec.json.format(msgspec.json.encode(body), indent=1) + b"\n"
    atomic.create(f"{folder}/{NAME}", data)
    return hashlib.sha256(data).hexdigest()


def read(folder: Path) -> tuple[Manifest, str]:
    """Return the manifest and its digest; FormatError unless it and every file are intact."""
    data = walk.read(folder / NAME, max_bytes=MAX)
    manifest = parse(data, folder.name)
    check_files(folder, manifest.files)
    return manifest, hashlib.sha256(data).hexdigest()


def of_row(folder: Path, step: StepRow) -> Manifest:
    """Return the manifest of a committed step; FormatError unless folder and row agree."""
    found, digest = read(folder)
    if digest != step.digest:
        raise FormatError(f"{NAME} is not the one that was committed")
    told = ("digest", "archive", "archive_sha256")  # known only when the folder was whole
    if found.row._replace(**{name: getattr(step, name) for name in told}) != step:
        raise FormatError("the row was changed after it was committed")
    return found


def parse(data: bytes, step: str) -> Manifest:
    """Return what a `step.json` says; FormatError unless it is whole."""
    body = strictjson.load_object(data, source=f"{step}/{NAME}")
    if body.pop("digest", None) != _digest(body):
        raise FormatError(f"{step}/{NAME}: its digest does not match")
    try:
        return _parse(body)
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{step}/{NAME}: incomplete ({error})") from error


def check_files(folder: Path, files: Mapping[str, str]) -> None:
    """Raise FormatError unless every file is there with the digest it had."""
    for name, digest in files.items():
        path = folder / name
        if not path.is_file() or walk.sha256(path) != digest:
            raise FormatError(f"{folder.name}/{name}: missing or changed since it was committed")


def digests(folder: Path, entries: Sequence[walk.Entry]) -> dict[str, str]:
    """Return the digest of every file of a step."""
    place = str(folder)
    return {
        item.path: walk.sha256(f"{place}/{item.path}") if item.size else _NOTHING
        for item in entries
        if not item.is_folder
    }


def _plain(value: object) -> object:
    """Return a record as a mapping, several as a list."""
    if hasattr(value, "_asdict"):
        return value._asdict()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _digest(body: Mapping[str, object]) -> str:
    return hashlib.sha256(msgspec.json.encode(body, order="sorted")).hexdigest()


def _parse(body: dict[str, Any]) -> Manifest:
    """Build the records; the digest vouches for what is in them."""
    return Manifest(
        row=StepRow(**body["row"]),
        events=tuple(Event(**item) for item in body["events"]),
        cursor=Cursor(**body["cursor"]),
        kv=dict(body["kv"]),
        before=Snapshot(**body["before"]),
        after=Snapshot(**body["after"]),
        usage=UsageRow(**body["usage"]) if body["usage"] else None,
        checks=tuple(CheckRow(**item) for item in body["checks"]),
        files=dict(body["files"]),
    )
