"""Turn records into rows and back: lists and objects are JSON text, truth is 0 or 1."""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

Row = Sequence[Any]
R = TypeVar("R", bound=NamedTuple)

# The fields of the record that each table holds, for the records that were loaded.
FIELDS: dict[str, tuple[str, ...]] = {}

_AS_JSON = frozenset({"criteria", "options", "fix", "data", "run_ids"})

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
