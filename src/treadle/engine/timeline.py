"""Number a run's events before they are committed, so that files and store agree on them."""

from collections.abc import Callable
from datetime import datetime

from treadle.contract.event import EventType
from treadle.ids import utc
from treadle.sandbox.mask import Mask
from treadle.store.runs import Event


class Timeline:
    """The events of one run that wait for the next commit."""

    def __init__(self, last_seq: int, now: Callable[[], datetime], mask: Mask) -> None:
        self._last = last_seq
        self._now = now
        self._mask = mask
        self._pending: list[Event] = []

    def add(self, type_: EventType, message: str, **data: object) -> None:
        """Note what happened."""
        self._last += 1
        known = {key: _readable(self._mask.value(value)) for key, value in data.items()} or None
        text = readable(self._mask.text(message))
        self._pending.append(Event(self._last, utc(self._now()), type_, text, known))

    def take(self) -> tuple[Event, ...]:
        """Hand over what waits and begin anew."""
        events, self._pending = tuple(self._pending), []
        return events


def readable(text: str) -> str:
    """Escape what is not Unicode: names of files can be any bytes, JSON and the store cannot."""
    return text.encode(errors="backslashreplace").decode()


def _readable(value: object) -> object:
    if isinstance(value, str):
        return readable(value)
    return [_readable(item) for item in value] if isinstance(value, list) else value
