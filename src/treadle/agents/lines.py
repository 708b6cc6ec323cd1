"""Read a tool's stream of JSON lines from the file it is captured in."""

import json
from collections.abc import Iterator
from pathlib import Path

MAX_LINE = 8 << 20


def objects(path: Path) -> Iterator[dict[str, object]]:
    """Yield every line that is a JSON object; other lines are the tool's chatter."""
    if not path.is_file():
        return
    with path.open("rb") as stream:
        while line := stream.readline(MAX_LINE):
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
