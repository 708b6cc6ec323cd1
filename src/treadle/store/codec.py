"""Turn records into rows and back, and load the named queries that speak of them.

Lists and objects are JSON text, truth is 0 or 1. A record is its own row: in a query `{runs}`
stands for the columns of its table, `{runs_values}` for one parameter each, `{runs_updates}` for
an upsert's assignments.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

Row = Sequence[Any]
R = TypeVar("R", bound=NamedTuple)

# The fields of the record that each table holds, for the records that were loaded.
FIELDS: dict[str, tuple[str, ...]] = {}

_AS_JSON = frozenset({"criteria", "actions", "look", "data", "run_ids"})
_MARK = "-- name: "

# Compact, with readable text; made once because making one costs more than using it.
to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def kept_in(table: str) -> Callable[[type[R]], type[R]]:
    """Say which table holds a record: its fields are the columns, in order."""

    def mark(record: type[R]) -> type[R]:
        FIELDS[table] = record._fields
        return record

    return mark


def columns(fields: Sequence[str]) -> list[str]:
    """Return the columns that hold a record's fields."""
    return [f"{name}_json" if name in _AS_JSON else name for name in fields]


def values(record: NamedTuple) -> tuple[object, ...]:
    """Return a record as the values of its columns."""
    pairs = zip(record._fields, record, strict=True)
    return tuple(to_json(value) if name in _AS_JSON else value for name, value in pairs)


class Queries(Mapping[str, str]):
    """The named blocks of some files: a command asks for a few, so only these are filled."""

    def __init__(self, *paths: Path) -> None:
        text = "\n".join(path.read_text("utf-8") for path in paths)
        blocks = (block.partition("\n") for block in text.split(_MARK)[1:])
        self._blocks = {name: text for name, _, text in blocks}
        self._filled: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self._filled:
            self._filled[name] = self._blocks[name].format_map(_COLUMNS).strip()
        return self._filled[name]

    def name_of(self, sql: str) -> str | None:
        """Return the name of a query that was asked for; None for any other text."""
        return next((name for name, text in self._filled.items() if text == sql), None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._blocks)

    def __len__(self) -> int:
        return len(self._blocks)


class _Columns(dict[str, str]):
    """What stands for the columns of a table, one parameter each, or an upsert's assignments."""

    def __missing__(self, key: str) -> str:
        table, is_values = key.removesuffix("_values"), key.endswith("_values")
        if is_values or table in FIELDS:
            names = columns(FIELDS[table])
            self[key] = ", ".join(["?"] * len(names) if is_values else names)
        else:
            names = columns(FIELDS[key.removesuffix("_updates")])
            self[key] = ", ".join(f"{name} = excluded.{name}" for name in names)
        return self[key]


_COLUMNS = _Columns()
SQL = Queries(*sorted(Path(__file__).with_name("queries").iterdir()))
