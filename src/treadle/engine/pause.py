"""Runs that wait for a usage limit to be over."""

from datetime import datetime

from treadle.agents.backend import AgentResult
from treadle.contract.event import StepError
from treadle.ids import utc
from treadle.store.reader import Reader
from treadle.store.records import RunRow

RESUME_AT = "resume_at"
_LOOKED_AT = 200


def until(result: AgentResult) -> dict[str, object]:
    """Return what a run remembers of when it may go on."""
    if result.error != StepError.USAGE_LIMIT or result.resume_at is None:
        return {}
    return {RESUME_AT: utc(result.resume_at)}


def due(store: Reader, now: datetime) -> list[RunRow]:
    """Return the stopped runs whose usage limit is over by now, oldest first."""
    found = []
    for row in store.runs(_LOOKED_AT, None, "stopped"):
        kv = store.kv(row.run_id)
        at = kv.get(RESUME_AT)
        if kv.get("reason_code") == "usage_limit" and isinstance(at, str) and at <= utc(now):
            found.append(row)
    return found[::-1]
