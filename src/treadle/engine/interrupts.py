"""Hear signals; apart from what works, so that a process which only waits loads little."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from treadle.proc import helper

_NAMES = {signal.SIGINT: "SIGINT", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGTERM"}


class Interrupts:
    """Remembers the first signal; a second one ends the process at once."""

    def __init__(self) -> None:
        self.name: str | None = None

    def reason(self) -> str | None:
        """Return why the work must stop, or None."""
        return f"stopped by {self.name}" if self.name else None

    @contextlib.contextmanager
    def installed(self) -> Iterator["Interrupts"]:
        """Listen while the block runs."""
        before = {number: signal.signal(number, self._notice) for number in _NAMES}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            helper.forget_stop()

    def _notice(self, number: int, frame: FrameType | None) -> None:
        self.name = _NAMES[signal.Signals(number)]
        helper.note_stop()
        signal.signal(number, signal.SIG_DFL)
