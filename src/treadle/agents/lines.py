"""Read a tool's stream of JSON lines from the file it is captured in."""

import json
from collections.abc import Iterator
from pathlib import Path

_MAX_LINE = 8 << 20


def objects(path: Path) -> Iterator[dict[str, object]]:
    """Yield every line that is a JSON object; other lines are the tool's chatter."""
    if not path.is_file():
        return
    with path.open("rb") as stream:
        while line := stream.readline(_MAX_LINE):
            if found := parse(line):
                yield found


def parse(line: bytes) -> dict[str, object] | None:
    """Return the object on a line, if it is one."""
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


class Tail:
    """Whole lines of a growing file, each one once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def lines(self) -> Iterator[bytes]:
        """Yield what was completed since the last call."""
        if not self._path.is_file():
            return
        with self._path.open("rb") as stream:
            stream.seek(self._at)
            while (line := stream.readline(_MAX_LINE)).endswith(b"\n") or len(line) == _MAX_LINE:
                self._at += len(line)
                yield line
