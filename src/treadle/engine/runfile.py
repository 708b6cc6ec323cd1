"""Write and read `run.json`: the run's row and its own events, enough to rebuild a lost store."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from treadle.contract import strictjson
from treadle.engine.order import Order
from treadle.errors import FormatError
from treadle.files import atomic, walk
from treadle.store.runs import Event, RunRow

_MAX = 64 << 20


class RunFile(Struct, frozen=True, kw_only=True):
    """What `run.json` says."""

    version: int = 1
    order: Order
    row: dict[str, object]
    events: tuple[dict[str, object], ...]
    kv: dict[str, object]

    def run_row(self) -> RunRow:
        """Return the row as the store keeps it."""
        return RunRow(**self.row)  # type: ignore[arg-type]  # read() compared the names

    def timeline(self) -> tuple[Event, ...]:
        """Return the run's own events."""
        return tuple(Event(**item) for item in self.events)  # type: ignore[arg-type]  # as above


def write(
    path: Path, order: Order, row: RunRow, events: Sequence[Event], kv: Mapping[str, object]
) -> None:
    """Replace `run.json` durably."""
    atomic.write(path, encode(order, row, events, kv))


def encode(order: Order, row: RunRow, events: Sequence[Event], kv: Mapping[str, object]) -> bytes:
    """Return what `run.json` is to say."""
    found = RunFile(
        order=order,
        row=row._asdict(),
        events=tuple(event._asdict() for event in events),
        kv=dict(kv),
    )
    return msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"


def read(path: Path) -> RunFile:
    """Return what `run.json` says, or raise FormatError."""
    try:
        raw = strictjson.load_object(walk.read(path, max_bytes=_MAX), source=path.name)
        found = msgspec.convert(raw, RunFile)
    except (FormatError, msgspec.ValidationError) as error:
        fix = ["treadle doctor --repair", f"treadle runs show {path.parent.name}"]
        text = str(error).removeprefix(path.name).lstrip(": ")
        raise FormatError(f"{path}: {text}", fix=fix) from error
    if set(found.row) != set(RunRow._fields):
        raise FormatError(f"{path}: row does not have the columns of a run")
    if any(set(event) != set(Event._fields) for event in found.events):
        raise FormatError(f"{path}: events do not have the columns of an event")
    return found
