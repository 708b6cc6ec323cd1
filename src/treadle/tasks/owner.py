"""Name whoever holds a task or reports on one."""

import re

from treadle.errors import UsageError

HUMAN = "human"
TREADLE = "treadle"

_OWNER = re.compile(r"[a-z][a-z0-9]*([._-][a-z0-9]+)*")


def owner_id(text: str) -> str:
    """Return an owner's name as addresses are written, or raise UsageError."""
    name = text.lower()
    if len(name) > 64 or _OWNER.fullmatch(name) is None:
        raise UsageError(f"{text!r} cannot name an owner; use letters and digits joined by . _ -")
    return name
