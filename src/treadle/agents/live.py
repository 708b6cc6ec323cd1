"""Tell what a tool does while it does it: one line for each of its events that says something."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from treadle.agents.lines import MAX_LINE, parse
from treadle.agents.tool import Event, Note
from treadle.ids import utc
from treadle.sandbox.mask import Mask

_LONGEST = 400


class Live:
    """Turns the tool's stdout into `agent_event` lines, as far as it has come."""

    def __init__(
        self, stdout: Path, events: Path, tell: Callable[[Event], Iterator[Note]], mask: Mask
    ) -> None:
        self._stdout = stdout
        self._at = 0
        self._events = events
        self._tell = tell
        self._mask = mask

    def catch_up(self) -> None:
        """Append what the tool has said in whole lines since the last time."""
        if not self._stdout.is_file():
            return
        found: list[Note] = []
        with self._stdout.open("rb") as stream:
            stream.seek(self._at)
            while (line := stream.readline(MAX_LINE)).endswith(b"\n") or len(line) == MAX_LINE:
                self._at += len(line)
                found += self._tell(parse(line) or {})
        if found:
            add(self._events, found, self._mask)


def add(path: Path, notes: list[Note], mask: Mask) -> None:
    """Append notes to a step's events, without secrets: others read them at once."""
    now = utc(datetime.now(UTC))
    with path.open("a", encoding="utf-8", errors="backslashreplace") as stream:
        for note in notes:
            line = {
                "ts": now,
                "type": "agent_event",
                "kind": note.kind,
                "message": _short(mask.text(note.text)),
            }
            stream.write(json.dumps(line, ensure_ascii=False) + "\n")


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
