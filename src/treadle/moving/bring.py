"""Bring pieces in, each once, and compare what came with what was there."""

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from treadle import frontmatter
from treadle.config.load import load
from treadle.engine.landing import tracker
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


_Env = Mapping[str, str]
_Done = list[Arrival]


def plan(layout: Layout, env: _Env) -> list[Arrival]:
    """Return what would become of every piece; nothing is written."""
    record = _record(layout)
    done = list[Arrival]()
    with Reader.open(layout) as store:
        for piece in _pieces(layout, env):
            done.append(_known(layout, record, piece) or _planned(layout, env, store, piece, done))
    return done


def bring(layout: Layout, env: _Env, now: datetime) -> list[Arrival]:
    """Bring everything in that is not here yet, and look whether it arrived."""
    record = _record(layout)
    before, done = set(record), list[Arrival]()
    with Store.open(layout) as store:
        for piece in _pieces(layout, env):
            moved = _known(layout, record, piece) or _planned(layout, env, store, piece, done)
            if moved.result == "brought":
                moved = _carry(layout, store, moved, now)
            if moved.result in ("brought", "already") and moved.piece.act != "in_place":
                record[_key(piece)] = f"{_digest(layout, piece)} {moved.target}"
            done.append(moved)
        _link(store, done, before)
        if any(it.piece.system == "circe" and it.result == "brought" for it in done):
            effect.refresh(store, layout.mail, now)
    layout.adopted.mkdir(parents=True, exist_ok=True)
    atomic.write(layout.adopted / _RECORD, json.dumps(record, indent=1).encode())
    return done


def sources(moved: list[Arrival]) -> set[str]:
    """Return the files out of which came what treadle runs, schedules or is led by."""
    came = [it.piece for it in moved if it.result == "brought"]
    return {it.file for it in came if it.act == "setting" or it.kind in _RUN}


def unaccounted(layout: Layout, moved: list[Arrival]) -> list[str]:
    """Return the files of the systems here that no piece speaks for."""
    known = {it.piece.file for it in moved}
    return [name for name in systems.every_file(layout) if name not in known]


def _pieces(layout: Layout, env: _Env) -> list[Piece]:
    """Return everything that is here, routines and specs before what names them."""
    found = systems.pieces(layout, env)
    return sorted(found, key=lambda it: (it.kind != "routine", it.act == "listed"))


def _renamed(layout: Layout, piece: Piece, done: _Done) -> Piece:
    """Let a piece name specs and routines as they are called here."""
    if piece.act == "listed":
        copied = (it for it in done if Path(it.piece.target).name == piece.target)
        found = next((it.target for it in copied if it.piece.kind == "migration"), piece.target)
        return piece._replace(target=Path(found).name)
    called = _called(layout, done)
    if piece.system != "decree" or piece.kind == "routine" or not called:
        return piece
    if isinstance(piece.value, list):
        return piece._replace(value=[called.get(word, word) for word in piece.value])
    if piece.act == "setting":
        return piece._replace(value=called.get(str(piece.value), piece.value))
    with suppress(TreadleError):
        data = _content(layout, piece) or b""
        if name := called.get(str(frontmatter.read(data)[0].get("routine"))):
            return piece._replace(data=frontmatter.set_fields(data, {"routine": name}))
    return piece


def _called(layout: Layout, done: _Done) -> dict[str, str]:
    """Return the names and files of routines that got others here, because theirs were taken."""
    home, found = Path(layout.relative(layout.routines)), dict[str, str]()
    for it in (it for it in done if it.piece.kind == "routine"):
        if it.target not in ("", it.piece.target):
            old, new = (Path(name).relative_to(home) for name in (it.piece.target, it.target))
            found[it.piece.target] = it.target
            found[old.with_suffix("").as_posix()] = new.with_suffix("").as_posix()
    return found


def _record(layout: Layout) -> dict[str, str]:
    with suppress(OSError, ValueError):
        found = json.loads((layout.adopted / _RECORD).read_bytes())
        return found if isinstance(found, dict) else {}
    return {}


def _key(piece: Piece) -> str:
    return f"{piece.system}:{piece.source}"


def _digest(layout: Layout, piece: Piece) -> str:
    told = json.dumps([piece.task, piece.value], default=str).encode()
    data = _content(layout, piece) if piece.act == "copy" else told
    return hashlib.sha256(data or b"").hexdigest()


def _content(layout: Layout, piece: Piece) -> bytes | None:
    return content(layout.root, piece.source) if piece.data is None else piece.data


def _known(layout: Layout, record: _Env, piece: Piece) -> Arrival | None:
    """Return what became of a piece that is not brought, or was before."""
    if piece.act in ("in_place", "left"):
        return Arrival(piece, piece.act, note=piece.note)
    if piece.act == "copy" and _content(layout, piece) is None:
        return Arrival(piece, "failed", note="it cannot be read, or is larger than 64 MiB")
    digest, _, target = record.get(_key(piece), "").partition(" ")
    return Arrival(piece, "already", target) if digest == _digest(layout, piece) else None


def _planned(layout: Layout, env: _Env, store: Reader, piece: Piece, done: _Done) -> Arrival:
    piece = _renamed(layout, piece, done)
    if piece.act == "task":
        return _planned_task(store, piece, done)
    if piece.act == "copy":
        return _planned_copy(layout, piece, done)
    if piece.act == "setting":
        return _planned_setting(layout, env, piece, done)
    is_there = piece.target in specs.processed(layout) or _coming(done, piece, piece.target)
    return Arrival(piece, "already" if is_there else "brought", piece.target, piece.note)


def _planned_setting(layout: Layout, env: _Env, piece: Piece, done: _Done) -> Arrival:
    """Leave what the configuration would not take beside what comes before it."""
    if (held := _held(layout, piece.target)) is not None:
        if held == piece.value:
            return Arrival(piece, "already", piece.target)
        return Arrival(piece, "left", piece.target, "your configuration says otherwise")
    brought = (it.piece for it in done if it.piece.act == "setting" and it.result == "brought")
    tree: dict[str, Any] = {}
    for it in (*brought, piece):
        *above, key = it.target.split(".")
        reduce(lambda folder, part: folder.setdefault(part, {}), above, tree)[key] = it.value
    try:
        load(layout, env, tree)
    except ConfigError as error:
        return Arrival(piece, "left", piece.target, error.message.partition(": ")[2])
    return Arrival(piece, "brought", piece.target, piece.note)


def _coming(done: _Done, piece: Piece, target: str) -> Piece | None:
    """Return what comes before this piece and takes the name, so that a dry run tells it too."""
    brought = (it for it in done if it.target == target and it.result == "brought")
    return next((it.piece for it in brought if it.piece.act == piece.act), None)


def _planned_copy(layout: Layout, piece: Piece, done: _Done) -> Arrival:
    """Find the name under which a file fits; one that is there with the same bytes is enough."""
    found = _content(layout, piece) or b""
    for name in _names(piece.target, piece.system):
        path = layout.root / name
        if piece.kind == "routine":  # its pre-check names the file it stands in
            own = found.replace(f" {piece.target}\n".encode(), f" {name}\n".encode(), 1)
            piece = piece._replace(data=own)
        first = _coming(done, piece, name)
        if not first and not os.path.lexists(path):  # a link that leads nowhere is there too
            return Arrival(piece, "brought", name, piece.note)
        there = _content(layout, first) if first else path.is_file() and path.read_bytes()
        if there == _content(layout, piece):
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


def _planned_task(store: Reader, piece: Piece, done: _Done) -> Arrival:
    assert piece.task
    if not is_task_id(piece.target):
        return Arrival(piece, "failed", note=f"{piece.target!r} is not a valid task id")
    for number in range(1, _MOST_NAMES):
        id_ = piece.target if number == 1 else f"{piece.target}-{number}"
        first = _coming(done, piece, id_)
        known = first.task if first else store.task(id_)
        if known is None:
            return Arrival(piece, "brought", id_, piece.note)
        if known.goal.strip() == piece.task.goal.strip():
            return Arrival(piece, "already", id_, piece.note)
    return Arrival(piece, "failed", note=f"every id like {piece.target} is taken")


def _carry(layout: Layout, store: Store, moved: Arrival, now: datetime) -> Arrival:
    piece = moved.piece
    try:
        if piece.act == "copy":
            _copy(layout, moved)
        elif piece.act == "listed":
            tracker.put_in(layout, piece.target)
        elif piece.act == "setting":
            _set(layout, piece)
        elif piece.task:
            tasks.add(store, TaskRow(moved.target, *piece.task[:-1]), now)
    except (TreadleError, OSError, ValueError) as error:
        return moved._replace(result="failed", note=str(error))
    return moved


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


def _link(store: Store, done: _Done, before: set[str]) -> None:
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
    text, _ = _settings(layout)
    table, _, key = piece.target.rpartition(".")
    rows = piece.value if isinstance(piece.value, dict) else {key: piece.value}
    table = piece.target if rows is piece.value else table
    lines = "".join(f"{name} = {_toml(it)}\n" for name, it in rows.items())
    if head := re.search(rf"(?m)^\[{re.escape(table)}\].*\n", text):
        text = text[: head.end()] + lines + text[head.end() :]
    else:
        text = f"{text.rstrip()}\n\n[{table}]\n{lines}" if table else lines + text
    tomllib.loads(text)
    atomic.write(layout.config_toml, text.encode())


def _toml(value: object) -> str:
    return json.dumps(value, ensure_ascii=True)
