"""What an onlooker is told while a run works."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from treadle.contract.role import Role

Moment = Literal["run", "step", "tick", "committed", "ended", "note"]


class Progress(NamedTuple):
    """One moment of a run."""

    kind: Moment
    run_id: str
    message: str = ""
    role: Role | None = None
    iteration: int = 0
    max_iterations: int = 0
    elapsed: float = 0.0
    passed: int = 0
    total: int = 0


Watch = Callable[[Progress], None]


def nobody(_: Progress) -> None:
    """Look away."""
