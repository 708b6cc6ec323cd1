"""Runs that wait for a usage limit to be over."""

from treadle.agents.backend import AgentResult
from treadle.contract.event import StepError
from treadle.engine.due import RESUME_AT
from treadle.ids import utc


def until(result: AgentResult) -> dict[str, object]:
    """Return what a run remembers of when it may go on."""
    if result.error != StepError.USAGE_LIMIT or result.resume_at is None:
        return {}
    return {RESUME_AT: utc(result.resume_at)}
