"""Who writes and who is written to: agent ids, and the names that stand for people."""

from treadle.errors import UsageError
from treadle.ids import is_agent_id

ALL = "all"
HUMAN = "human"
MAX = 64

_ALIASES = {"rooster": HUMAN}


def parse(text: str) -> str:
    """Return an address in lower case; `rooster` is the human."""
    name = text.strip().lower()
    if not is_agent_id(name):
        shown = repr(text[:MAX]) + ("…" if len(text) > MAX else "")
        raise UsageError(
            f"{shown} is no agent id: begin with a letter, then letters and digits "
            f"joined by . _ -, at most {MAX}",
            code="agent_id_invalid",
        )
    return _ALIASES.get(name, name)


def sender(text: str) -> str:
    """Return the address of someone who writes or acts, which nobody does as `all`."""
    name = parse(text)
    if name == ALL:
        raise UsageError(
            "'all' is everybody and cannot write or claim; give an agent's id",
            code="agent_id_invalid",
        )
    return name
