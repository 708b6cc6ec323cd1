"""One acceptance criterion."""

from typing import NamedTuple


class Criterion(NamedTuple):
    """What must be true; `verify` is the command that observes it, if there is one."""

    id: str
    text: str
    verify: str | None = None
