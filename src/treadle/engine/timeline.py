"""Number a run's events before they are committed, so that files and store agree on them."""

from collections.abc import Callable
from datetime import datetime

from treadle.contract.event import Event, EventType
from treadle.ids import utc


class Timeline:
    """The events of one run that wait for the next commit."""

    def __init__(self, last_seq: int, now: Callable[[], datetime]) -> None:
        self._last = last_seq
        self._now = now
        self._pending: list[Event] = []

    def add(self, type_: EventType, message: str, **data: object) -> None:
        """Note what happened."""
        self._last += 1
        self._pending.append(Event(self._last, utc(self._now()), type_, message, data or None))

    def take(self) -> tuple[Event, ...]:
        """Hand over what waits and begin anew."""
        events, self._pending = tuple(self._pending), []
        return events
