"""The JSON of runs, for whoever shows them."""

from treadle.engine import protection, review, spending, weather, whereabouts
from treadle.layout import Layout
from treadle.store.runs import RunRow
from treadle.store.store import Reader

Document = dict[str, object]


def runs(store: Reader, rows: list[RunRow]) -> Document:
    """Return a page of runs, and which of them would conflict."""
    storms = weather.storms(store, rows)
    return {
        "runs": [row._asdict() for row in rows],
        "weather": [storm._asdict() for storm in storms],
    }


def run(layout: Layout, store: Reader, row: RunRow) -> Document:
    """Return one run with its steps, criteria and usage."""
    kv = store.kv(row.run_id)
    return row._asdict() | {
        "landed": whereabouts.commit(kv, "landed"),
        "undone": whereabouts.commit(kv, "undone"),
        "reason": kv.get("reason"),
        "reason_code": kv.get("reason_code"),
        "resume_at": kv.get("resume_at"),
        "protected": list(protection.files(kv)),
        "steps": [step._asdict() for step in store.steps(row.run_id)],
        "criteria": [view._asdict() for view in review.criteria(layout, store, row)],
        "usage": spending.total(store.usage(row.run_id)) | {"spent": kv.get("spent")},
    }


def events(store: Reader, run_id: str, after: int, limit: int | None = None) -> Document:
    """Return a run's timeline after an event."""
    return {"events": [event._asdict() for event in store.events(run_id, after, limit)]}
