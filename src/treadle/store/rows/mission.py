"""The rows of where a mission's tasks stand and what was reported of its steps."""

from typing import NamedTuple

from treadle.store.codec import kept_in


class LaneRow(NamedTuple):
    """Where one task of a mission stands."""

    task_id: str
    lane: str
    owner: str | None
    claim_id: str | None
    lease_until: str | None


@kept_in("mission_steps")
class MissionStepRow(NamedTuple):
    """What was reported of a mission's step that is not done: failures, or what blocks it."""

    mission: str
    step: str
    failures: int
    is_blocked: bool
    note: str | None
    who: str
    at: str
