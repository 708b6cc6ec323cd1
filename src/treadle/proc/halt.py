"""Remember that a signal asked this process to stop, for whoever waits for a helper."""

import time

GRACE = 10.0  # seconds

_asked: list[float] = []  # signals belong to the process as a whole, and so does this


def note() -> None:
    """Take down that the process was asked to stop."""
    _asked.append(time.monotonic())


def forget() -> None:
    """Begin anew, with nobody having asked."""
    _asked.clear()


def is_over(begun: float) -> bool:
    """Tell whether a helper begun at this time had its grace after somebody asked to stop.

    What is asked of helpers at the end, such as keeping an agent's edits, takes a moment.
    """
    return bool(_asked) and time.monotonic() - max(_asked[0], begun) > GRACE
