"""Name whoever holds a task or reports on one."""

from treadle.errors import UsageError
from treadle.ids import is_agent_id

HUMAN = "human"
TREADLE = "treadle"


def owner_id(text: str) -> str:
    """Return an owner's name as addresses are written, or raise UsageError."""
    name = text.lower()
    if not is_agent_id(name):
        raise UsageError(f"{text!r} cannot name an owner; use letters and digits joined by . _ -")
    return name
