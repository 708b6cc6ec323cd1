"""Sum up what a tool said in one call."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from treadle.agents import usage
from treadle.agents.backend import Usage
from treadle.agents.tool import Ask, Event, Note, Tool


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What a tool's events amount to; only `is_done` means that it finished its turn."""

    is_done: bool = False
    text: str = ""
    structured: object = None
    session: str | None = None
    usage: Usage | None = None
    error: str = ""
    status: int | None = None


def hear(tool: Tool, events: Iterable[Event], ask: Ask) -> Heard:
    """Take the tool's word that it is done, unless its last word before was an error."""
    last: dict[str, Note] = {}
    text, kind, used = "", "", []
    for note in (note for event in events for note in tool.tell(event)):
        if note.kind == "text":
            text = text + note.text if note.is_part and kind == "text" else note.text
        if note.kind in ("text", "tool_start"):
            last.pop("error", None)  # the tool went on
        last[note.kind], kind = note, note.kind
        if note.usage:
            used.append(note.usage)
    error, done, session = last.get("error"), last.get("done"), last.get("session")
    blamed = error or (None if done else last.get("warning") or last.get("retry"))
    spent = tool.spent(ask) if tool.spent else usage.total(used, (), None)
    model = ask.spec.config.model
    return Heard(
        is_done=done is not None and error is None,
        text=text,
        structured=done.structured if done else None,
        session=session.text if session else None,
        usage=replace(spent, model=spent.model or model) if spent else None,
        error=blamed.text if blamed else "",
        status=blamed.status if blamed else None,
    )
