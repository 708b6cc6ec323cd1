"""What a helper program said."""

from typing import NamedTuple


class Captured(NamedTuple):
    """What a helper said; a negative return code is the signal that ended it."""

    returncode: int
    stdout: bytes
    stderr: bytes
