"""Turn records into rows and back: lists and objects are JSON text, truth is 0 or 1."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from treadle.contract.criterion import Criterion
from treadle.store.records import (
    CheckRow,
    Event,
    LetterRow,
    MessageRow,
    MoveRow,
    QuestionRow,
    TaskRow,
)

Row = Sequence[Any]

_AS_JSON = frozenset({"criteria", "options", "fix", "data", "run_ids"})

# Compact, with readable text; made once because making one costs more than using it.
to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def columns(fields: Sequence[str]) -> list[str]:
    """Return the columns that hold a record's fields."""
    return [f"{name}_json" if name in _AS_JSON else name for name in fields]


def values(record: NamedTuple) -> tuple[object, ...]:
    """Return a record as the values of its columns."""
    pairs = zip(record._fields, record, strict=True)
    return tuple(to_json(value) if name in _AS_JSON else value for name, value in pairs)


def event_values(event: Event) -> tuple[object, ...]:
    """Return an event as the values of its columns."""
    data = None if event.data is None else to_json(event.data)
    return (event.seq, event.ts, str(event.type), event.message, data)


def event(row: Row) -> Event:
    """Read an event."""
    seq, ts, type_, message, data = row
    return Event(seq, ts, type_, message, json.loads(data) if data is not None else None)


def check(row: Row) -> CheckRow:
    """Read an observed check."""
    found = CheckRow._make(row)
    return found._replace(passed=bool(found.passed))


def task(row: Row) -> TaskRow:
    """Read a task."""
    found = TaskRow._make(row)
    criteria = json.loads(row[TaskRow._fields.index("criteria")])
    return found._replace(criteria=tuple(Criterion(*item) for item in criteria))


def move(row: Row) -> MoveRow:
    """Read a task's change of lane."""
    found = MoveRow._make(row)
    return found._replace(forced=bool(found.forced))


def question(row: Row) -> QuestionRow:
    """Read a question."""
    found = QuestionRow._make(row)
    options, fix = (row[QuestionRow._fields.index(name)] for name in ("options", "fix"))
    return found._replace(options=tuple(json.loads(options)), fix=tuple(json.loads(fix)))


def message(row: Row) -> MessageRow:
    """Read a message."""
    found = MessageRow._make(row)
    run_ids = json.loads(row[MessageRow._fields.index("run_ids")])
    return found._replace(run_ids=tuple(run_ids))


def letter(row: Row) -> LetterRow:
    """Read where a letter lies."""
    found = LetterRow._make(row)
    return found._replace(pending=bool(found.pending))
