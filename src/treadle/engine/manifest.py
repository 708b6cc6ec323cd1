"""Write and read `step.json`: the intent of a step's commit, and its proof."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from treadle.contract import strictjson
from treadle.errors import FormatError
from treadle.files import atomic, walk
from treadle.store.rows.check import CheckRow
from treadle.store.rows.run import Cursor, Event, StepRow, UsageRow

NAME = "step.json"
_MAX = 64 << 20


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
    body = {
        "version": 1,
        "row": manifest.row._asdict(),
        "events": [event._asdict() for event in manifest.events],
        "cursor": manifest.cursor._asdict(),
        "kv": dict(manifest.kv),
        "before": manifest.before._asdict(),
        "after": manifest.after._asdict(),
        "usage": manifest.usage._asdict() if manifest.usage else None,
        "checks": [check._asdict() for check in manifest.checks],
        "files": dict(manifest.files),
    }
    body["digest"] = _digest(body)
    data = msgspec.json.format(msgspec.json.encode(body), indent=1) + b"\n"
    atomic.create(folder / NAME, data)
    return hashlib.sha256(data).hexdigest()


def read(folder: Path) -> tuple[Manifest, str]:
    """Return the manifest and its digest; FormatError unless it and every file are intact."""
    data = walk.read(folder / NAME, max_bytes=_MAX)
    body = strictjson.load_object(data, source=f"{folder.name}/{NAME}")
    if body.pop("digest", None) != _digest(body):
        raise FormatError(f"{folder.name}/{NAME}: its digest does not match")
    try:
        manifest = _parse(body)
    except (KeyError, TypeError) as error:
        raise FormatError(f"{folder.name}/{NAME}: incomplete ({error})") from error
    check_files(folder, manifest.files)
    return manifest, hashlib.sha256(data).hexdigest()


def check_files(folder: Path, files: Mapping[str, str]) -> None:
    """Raise FormatError unless every file is there with the digest it had."""
    for name, digest in files.items():
        path = folder / name
        if not path.is_file() or walk.sha256(path) != digest:
            raise FormatError(f"{folder.name}/{name}: missing or changed since it was committed")


def digests(folder: Path, entries: Sequence[walk.Entry]) -> dict[str, str]:
    """Return the digest of every file of a step."""
    return {item.path: walk.sha256(folder / item.path) for item in entries if not item.is_folder}


def _digest(body: Mapping[str, object]) -> str:
    return hashlib.sha256(msgspec.json.encode(body, order="sorted")).hexdigest()


def _parse(body: dict[str, object]) -> Manifest:
    usage = _mapping(body["usage"]) if body["usage"] is not None else None
    return Manifest(
        row=StepRow(**_mapping(body["row"])),  # type: ignore[arg-type]  # the digest vouches for it
        events=tuple(Event(**_mapping(item)) for item in _sequence(body["events"])),  # type: ignore[arg-type]  # as above
        cursor=Cursor(**_mapping(body["cursor"])),  # type: ignore[arg-type]  # as above
        kv=_mapping(body["kv"]),
        before=Snapshot(**_mapping(body["before"])),  # type: ignore[arg-type]  # as above
        after=Snapshot(**_mapping(body["after"])),  # type: ignore[arg-type]  # as above
        usage=UsageRow(**usage) if usage else None,  # type: ignore[arg-type]  # as above
        checks=tuple(CheckRow(**_mapping(item)) for item in _sequence(body["checks"])),  # type: ignore[arg-type]  # as above
        files={str(name): str(value) for name, value in _mapping(body["files"]).items()},
    )


def _mapping(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise TypeError("expected an object")
    return value


def _sequence(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError("expected a list")
    return value
