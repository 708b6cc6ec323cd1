"""The files that make a run whole: run.json, and step.json, the intent and proof of a commit."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from treadle.contract import load_object
from treadle.engine.run.order import Order
from treadle.errors import FormatError
from treadle.files import atomic, walk
from treadle.files.sync import sha256
from treadle.layout import STEP_JSON
from treadle.store.runs import CheckRow, Cursor, Event, RunRow, StepRow, UsageRow

MAX_BYTES = 64 << 20
_EMPTY = hashlib.sha256().hexdigest()

# The contract's own sentence.
RECONCILED = "Step dir exists but DB record was missing; inserted during recovery"


class RunFile(NamedTuple):
    """What `run.json` says; the events are those that belong to no step."""

    order: Order
    row: RunRow
    events: Sequence[Event]
    kv: Mapping[str, object]


def write_run(path: Path, found: RunFile) -> None:
    """Replace `run.json` durably."""
    atomic.write(path, encode_run(found))


def encode_run(found: RunFile) -> bytes:
    """Return what `run.json` is to say."""
    body = {"version": 1, **_parts(found)}
    return msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"


def read_run(path: Path) -> RunFile:
    """Return what `run.json` says, or raise FormatError."""
    try:
        body: Any = load_object(walk.read(path, max_bytes=MAX_BYTES), source=path.name)
        events = tuple(Event(**item) for item in body["events"])
        order = msgspec.convert(body["order"], Order)
        return RunFile(order, RunRow(**body["row"]), events, dict(body["kv"]))
    except (FormatError, KeyError, TypeError, ValueError) as error:
        fix = ["treadle doctor --repair", f"treadle runs show {path.parent.name}"]
        text = str(error).removeprefix(path.name).lstrip(": ")
        raise FormatError(f"{path}: {text}", fix=fix) from error


class Snapshot(NamedTuple):
    """What the run's branch stands on."""

    commit: str
    tree: str


class Manifest(NamedTuple):
    """Everything the store learns from one step, and the digest of every file."""

    row: StepRow
    cursor: Cursor
    before: Snapshot
    after: Snapshot
    events: tuple[Event, ...] = ()
    kv: Mapping[str, object] = {}
    usage: tuple[UsageRow, ...] = ()
    checks: tuple[CheckRow, ...] = ()
    files: Mapping[str, str] = {}


def write_step(folder: Path, manifest: Manifest) -> str:
    """Write `step.json` and return its digest."""
    body = {"version": 1, **_parts(manifest)}
    body["digest"] = _digest(body)
    data = msgspec.json.format(msgspec.json.encode(body), indent=1) + b"\n"
    atomic.create(f"{folder}/{STEP_JSON}", data)
    return hashlib.sha256(data).hexdigest()


def read_step(folder: Path) -> tuple[Manifest, str]:
    """Return the manifest and its digest; FormatError unless it and every file are intact."""
    data = walk.read(folder / STEP_JSON, max_bytes=MAX_BYTES)
    manifest = parse_step(data, folder.name)
    check_files(folder, manifest.files)
    return manifest, hashlib.sha256(data).hexdigest()


def read_committed(folder: Path, step: StepRow) -> Manifest:
    """Return the manifest of a committed step; FormatError unless folder and row agree."""
    found, digest = read_step(folder)
    if digest != step.digest:
        raise FormatError(f"{STEP_JSON} is not the one that was committed")
    told = ("digest", "archive", "archive_sha256")  # known only when the folder was whole
    if found.row._replace(**{name: getattr(step, name) for name in told}) != step:
        raise FormatError("the row was changed after it was committed")
    return found


def parse_step(data: bytes, step: str) -> Manifest:
    """Return what a `step.json` says; FormatError unless it is whole."""
    body = load_object(data, source=f"{step}/{STEP_JSON}")
    if body.pop("digest", None) != _digest(body):
        raise FormatError(f"{step}/{STEP_JSON}: its digest does not match")
    try:
        return _parse(body)
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{step}/{STEP_JSON}: incomplete ({error})") from error


def check_files(folder: Path, files: Mapping[str, str]) -> None:
    """Raise FormatError unless every file is there with the digest it had."""
    for name, digest in files.items():
        path = folder / name
        if not path.is_file() or sha256(path) != digest:
            raise FormatError(f"{folder.name}/{name}: missing or changed since it was committed")


def digests(folder: Path, entries: Sequence[walk.Entry]) -> dict[str, str]:
    """Return the digest of every file of a step."""
    place = str(folder)
    return {
        item.path: sha256(f"{place}/{item.path}") if item.size else _EMPTY
        for item in entries
        if not item.is_folder
    }


def _parts(record: RunFile | Manifest) -> dict[str, Any]:
    """Return a record whose parts are flat records, lists of them, and plain values."""
    return {name: _plain(value) for name, value in record._asdict().items()}


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return value._asdict()
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def _digest(body: Mapping[str, object]) -> str:
    return hashlib.sha256(msgspec.json.encode(body, order="sorted")).hexdigest()


def _rows(found: Any) -> list[Any]:
    """Return rows, where older versions wrote one or none."""
    return found if isinstance(found, list) else [found] if found else []


def _parse(body: dict[str, Any]) -> Manifest:
    """Build the records; the digest vouches for what is in them."""
    return Manifest(
        row=StepRow(**body["row"]),
        cursor=Cursor(**body["cursor"]),
        before=Snapshot(**body["before"]),
        after=Snapshot(**body["after"]),
        events=tuple(Event(**item) for item in body["events"]),
        kv=dict(body["kv"]),
        usage=tuple(UsageRow(**item) for item in _rows(body["usage"])),
        checks=tuple(CheckRow(**item) for item in body["checks"]),
        files=dict(body["files"]),
    )
