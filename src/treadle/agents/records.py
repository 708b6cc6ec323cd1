"""Count what a tool has used by now from the record that it keeps of its conversation."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from treadle.agents.backend import Ask, Event, Usage, parse_event, text_at, total_usage
from treadle.files import walk
from treadle.layout import PROMPT

_MOST = 64 << 20
_LATEST = 10**14  # milliseconds
_COUNTS = 'okens"'  # how the name of every counter ends


class Record(NamedTuple):
    """Where a tool writes after each call of its model what that took, and how."""

    files: str  # below the state folder
    read: Callable[[Event], tuple[str, Usage] | None]
    whole: bool = False  # all of the conversation, as the tool itself counts, and not this call
    event: re.Pattern[str] = re.compile(".+")  # a line each, unless they lie among other bytes
    model: str = r"\A\Z(.)"  # how it names its model, where it does so apart from the calls

    def counting(self, ask: Ask) -> Usage | None:
        """Return what is used by now; a call begins with its prompt."""
        prompt = ask.scratch / PROMPT
        began = prompt.stat().st_mtime if prompt.exists() and not self.whole else 0.0
        calls, model = dict[str, Usage](), list[str]()
        found = sorted(ask.state.glob(self.files.format(session=ask.session)))
        for path in found[-1:] if self.whole else found:
            whole = walk.tail(path, _MOST)
            model = re.findall(self.model, whole)[-1:] or model
            for text in self.event.findall(whole):
                event = parse_event(text.encode()) if _COUNTS in text else None
                call = self.read(event) if event and _time(event) >= began else None
                calls |= [call] if call else []
        total = total_usage([*calls.values()], (), None)
        return replace(total, model=total.model or model[0]) if total and model else total


def _time(event: Event) -> float:
    milliseconds = event.get("time")
    if isinstance(milliseconds, int) and 0 < milliseconds < _LATEST:
        return milliseconds / 1000
    try:
        return datetime.fromisoformat(text_at(event, "timestamp")).timestamp()
    except ValueError:
        return 0.0
