"""Bring pieces in, each once, and compare what came with what was there."""

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from treadle.errors import ConfigError, ProjectError, TreadleError
from treadle.files import atomic
from treadle.ids import is_task_id
from treadle.inbox import specs
from treadle.layout import Layout
from treadle.mail import effect
from treadle.moving import systems
from treadle.moving.piece import Piece, content
from treadle.store.store import Reader, Store
from treadle.store.tasks import TaskRow
from treadle.tasks import task as tasks

_RECORD = "record.json"
_MOST_NAMES = 9
_RUN = ("routine", "message", "dead letter", "schedule", "migration")


class Arrival(NamedTuple):
    """A piece and what became of it: brought, already, in_place, left or failed."""

    piece: Piece
    result: str
    target: str = ""
    note: str = ""


def plan(layout: Layout, env: Mapping[str, str]) -> list[Arrival]:
    """Return what would become of every piece; nothing is written."""
    record = _record(layout)
    done = list[Arrival]()
    with Reader.open(layout) as store:
        for piece in _pieces(layout, env):
            done.append(_planned(layout, store, record, _renamed(piece, done)))
    return done


def bring(layout: Layout, env: Mapping[str, str], now: datetime) -> list[Arrival]:
    """Bring everything in that is not here yet, and look whether it arrived."""
    record = _record(layout)
    before, done = set(record), list[Arrival]()
    with Store.open(layout) as store:
        for piece in _pieces(layout, env):
            moved = _planned(layout, store, record, _renamed(piece, done))
            if moved.result == "brought":
                moved = _carried(layout, store, moved, now)
            if moved.result in ("brought", "already") and moved.piece.act != "in_place":
                record[_key(piece)] = _digest(layout, piece)
            done.append(moved)
        _link(store, done, before)
        if any(it.piece.system == "circe" and it.result == "brought" for it in done):
            effect.refresh(store, layout.mail, now)
    layout.adopted.mkdir(parents=True, exist_ok=True)
    atomic.write(layout.adopted / _RECORD, json.dumps(record, indent=1).encode())
    return done


def sources(moved: list[Arrival]) -> set[str]:
    """Return the files out of which came what treadle runs, schedules or is led by."""
    came = (it.piece for it in moved if it.result == "brought")
    return {it.file for it in came if it.act == "setting" or it.kind in _RUN}


def unaccounted(layout: Layout, moved: list[Arrival]) -> list[str]:
    """Return the files of the systems here that no piece speaks for."""
    known = {it.piece.file for it in moved}
    return [name for name in systems.every_file(layout) if name not in known]


def _pieces(layout: Layout, env: Mapping[str, str]) -> list[Piece]:
    """Return everything that is here; what is listed as done comes after the files it names."""
    return sorted(systems.pieces(layout, env), key=lambda it: it.act == "listed")


def _renamed(piece: Piece, done: list[Arrival]) -> Piece:
    """Let a list of what is done name a spec as it is called here."""
    if piece.act != "listed":
        return piece
    copied = (it for it in done if Path(it.piece.target).name == piece.target)
    found = next((it.target for it in copied if it.piece.kind == "migration"), piece.target)
    return piece._replace(target=Path(found).name)


def _record(layout: Layout) -> dict[str, str]:
    try:
        found = json.loads((layout.adopted / _RECORD).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _key(piece: Piece) -> str:
    return f"{piece.system}:{piece.source}"


def _digest(layout: Layout, piece: Piece) -> str:
    told = json.dumps([piece.task, piece.value], default=str).encode()
    data = _content(layout, piece) if piece.act == "copy" else told
    return hashlib.sha256(data or b"").hexdigest()


def _content(layout: Layout, piece: Piece) -> bytes | None:
    if piece.data is not None:
        return piece.data
    return content(layout.root, piece.source)


def _planned(layout: Layout, store: Reader, record: Mapping[str, str], piece: Piece) -> Arrival:
    if piece.act in ("in_place", "left"):
        return Arrival(piece, piece.act, note=piece.note)
    if piece.act == "copy" and _content(layout, piece) is None:
        return Arrival(piece, "failed", note="it cannot be read, or is larger than 64 MiB")
    if record.get(_key(piece)) == _digest(layout, piece):
        return Arrival(piece, "already", piece.target)
    if piece.act == "task":
        return _planned_task(store, piece)
    if piece.act == "copy":
        return _planned_copy(layout, piece)
    is_there = piece.target in specs.processed(layout) if piece.act == "listed" else False
    if piece.act == "setting" and (held := _held(layout, piece.target)) is not None:
        if held == piece.value:
            return Arrival(piece, "already", piece.target)
        return Arrival(piece, "left", piece.target, "your configuration says otherwise")
    return Arrival(piece, "already" if is_there else "brought", piece.target, piece.note)


def _planned_copy(layout: Layout, piece: Piece) -> Arrival:
    """Find the name under which a file fits; one that is there with the same bytes is enough."""
    found = _content(layout, piece)
    for name in _names(piece.target, piece.system):
        path = layout.root / name
        if not os.path.lexists(path):  # a link that leads nowhere is there too
            return Arrival(piece, "brought", name, piece.note)
        if path.is_file() and path.read_bytes() == found:
            return Arrival(piece, "already", name, piece.note)
    return Arrival(piece, "failed", note=f"every name like {piece.target} is taken")


def _names(target: str, system: str) -> Iterator[str]:
    yield target
    path = Path(target)
    ending = ".spec.md" if path.name.endswith(".spec.md") else path.suffix
    stem = path.name.removesuffix(ending)
    for number in range(1, _MOST_NAMES):
        more = f"-{number}" if number > 1 else ""
        yield (path.parent / f"{stem}-{system}{more}{ending}").as_posix()


def _planned_task(store: Reader, piece: Piece) -> Arrival:
    assert piece.task
    if not is_task_id(piece.target):
        return Arrival(piece, "failed", note=f"{piece.target!r} is not a valid task id")
    for number in range(1, _MOST_NAMES):
        id_ = piece.target if number == 1 else f"{piece.target}-{number}"
        row = store.task(id_)
        if row is None:
            return Arrival(piece, "brought", id_, piece.note)
        if row.goal == piece.task.goal.strip():
            return Arrival(piece, "already", id_, piece.note)
    return Arrival(piece, "failed", note=f"every id like {piece.target} is taken")


def _carried(layout: Layout, store: Store, moved: Arrival, now: datetime) -> Arrival:
    try:
        _carry(layout, store, moved, now)
    except (TreadleError, OSError, ValueError) as error:
        return moved._replace(result="failed", note=str(error))
    return moved


def _carry(layout: Layout, store: Store, moved: Arrival, now: datetime) -> None:
    piece = moved.piece
    if piece.act == "copy":
        _copy(layout, moved)
    elif piece.act == "listed":
        specs.mark_processed(layout, piece.target)
    elif piece.act == "setting":
        _set(layout, piece)
    elif piece.task:
        goal, text, criteria, lane, _ = piece.task
        row = TaskRow(moved.target, goal, text, criteria, lane)
        tasks.add(store, row, now)


def _copy(layout: Layout, moved: Arrival) -> None:
    """Write a file with the time of the original, then look whether it is the same."""
    path, data = layout.root / moved.target, _content(layout, moved.piece) or b""
    source = layout.root / moved.piece.file
    if not path.parent.resolve().is_relative_to(layout.root.resolve()):
        raise ProjectError(f"{path.parent} is a link; replace it with a real folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, data, mode=0o755 if os.access(source, os.X_OK) else 0o644)
    at = source.stat().st_mtime_ns
    os.utime(path, ns=(at, at))
    if path.read_bytes() != data:
        raise ConfigError(f"{moved.target} is not what was written")


def _link(store: Store, done: list[Arrival], before: set[str]) -> None:
    """Let tasks wait for each other, once all of them are there, also after a kill before this."""
    names = {(it.piece.system, it.piece.target): it.target for it in done if it.piece.task}
    for moved in done:
        is_new = moved.result in ("brought", "already") and _key(moved.piece) not in before
        if not is_new or not moved.piece.task:
            continue
        for other in moved.piece.task.depends_on:
            if (found := names.get((moved.piece.system, other))) and store.task(found):
                store.link_task(moved.target, found)


def _settings(layout: Layout) -> tuple[str, dict[str, Any]]:
    try:
        text = layout.config_toml.read_text()
        return text, tomllib.loads(text)
    except FileNotFoundError:
        return "", {}
    except ValueError as error:
        raise ConfigError(f"{layout.relative(layout.config_toml)}: {error}") from error


def _held(layout: Layout, key: str) -> object:
    """Return what the project's configuration says; None if it says nothing."""
    found: object = _settings(layout)[1]
    for part in key.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _set(layout: Layout, piece: Piece) -> None:
    """Add a setting: plain keys at the top, keys of a table in it, a whole table at the end."""
    if not re.fullmatch(r"[\w-]+(\.[\w-]+){0,2}", piece.target, re.ASCII):
        raise ConfigError(f"{piece.target!r} cannot be the name of a setting")
    text, known = _settings(layout)
    table, _, key = piece.target.rpartition(".")
    if isinstance(piece.value, dict):
        lines = [f"{name} = {_toml(it)}" for name, it in piece.value.items()]
        text = text.rstrip() + f"\n\n[{piece.target}]\n" + "\n".join(lines) + "\n"
    elif not table:
        text = f"{key} = {_toml(piece.value)}\n{text}"
    elif table in known:
        text = text.replace(f"\n[{table}]\n", f"\n[{table}]\n{key} = {_toml(piece.value)}\n", 1)
    else:
        text = text.rstrip() + f"\n\n[{table}]\n{key} = {_toml(piece.value)}\n"
    tomllib.loads(text)
    atomic.write(layout.config_toml, text.encode())


def _toml(value: object) -> str:
    return json.dumps(value, ensure_ascii=True)
