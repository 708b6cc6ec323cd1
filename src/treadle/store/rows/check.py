"""The rows of what was observed."""

from typing import Literal, NamedTuple

from treadle.store.codec import Row, kept_in

Phase = Literal["before", "check"]


@kept_in("checks")
class CheckRow(NamedTuple):
    """What treadle saw when it ran one criterion's command on one tree."""

    run_id: str
    step_index: int
    criterion_id: str
    phase: Phase
    command: str
    tree: str | None
    passed: bool
    exit_code: int | None
    seconds: float
    log: str | None = None
    note: str | None = None


def to_check(row: Row) -> CheckRow:
    """Read an observed check."""
    found = CheckRow._make(row)
    return found._replace(passed=bool(found.passed))
