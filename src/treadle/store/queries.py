"""Load the named queries and fill in the columns of the records."""

from pathlib import Path

from treadle.store import codec
from treadle.store.records import (
    CheckRow,
    Event,
    FolderRow,
    LetterRow,
    MessageRow,
    MissionStepRow,
    MoveRow,
    QuestionRow,
    ReservationRow,
    RunRow,
    StepRow,
    TaskClaimRow,
    TaskRow,
    UsageRow,
)

_MARK = "-- name: "

FIELDS: dict[str, tuple[str, ...]] = {
    "runs": RunRow._fields,
    "steps": StepRow._fields,
    "events": Event._fields,
    "usage": UsageRow._fields,
    "checks": CheckRow._fields,
    "tasks": TaskRow._fields,
    "task_moves": MoveRow._fields,
    "questions": QuestionRow._fields,
    "mission_steps": MissionStepRow._fields,
    "messages": MessageRow._fields,
    "mail_index": LetterRow._fields,
    "mail_folders": FolderRow._fields,
    "task_claims": TaskClaimRow._fields,
    "reservations": ReservationRow._fields,
}


def _columns() -> dict[str, str]:
    found = {}
    for table, fields in FIELDS.items():
        names = codec.columns(fields)
        found[table] = ", ".join(names)
        found[f"{table}_values"] = ", ".join("?" for _ in names)
        found[f"{table}_updates"] = ", ".join(f"{name} = excluded.{name}" for name in names)
    return found


def _load(path: Path) -> dict[str, str]:
    filled = path.read_text("utf-8").partition(_MARK)[2].format_map(_columns())
    blocks = (block.partition("\n") for block in filled.split(_MARK))
    return {name: text.strip() for name, _, text in blocks}


SQL = _load(Path(__file__).with_name("queries.sql"))
