"""Drive OpenCode: `opencode run --format json`."""

import os
from collections.abc import Iterator
from dataclasses import replace

from treadle.agents.backend import (
    Ask,
    Event,
    Launch,
    Remark,
    Usage,
    at,
    counted,
    done,
    failed,
    known_tool,
    money_at,
    number_at,
    overlay,
    started,
    text_at,
)

_INLINE = "OPENCODE_CONFIG_CONTENT"


def adjust(ask: Ask, launch: Launch) -> Launch:
    """Lay what it may do over the user's own settings."""
    settings = {"permission": _permission(ask), "share": "disabled", "snapshot": False}
    whole = overlay(ask.spec.environment.get(_INLINE), settings)
    return replace(launch, env={**launch.env, _INLINE: whole})


def _permission(ask: Ask) -> object:
    if ask.is_held:
        return {"*": "allow", "external_directory": "allow"}
    # Globs of edits are relative to where it works.
    inside = os.path.relpath(ask.step_dir, ask.spec.workspace)
    edit = {"*": "allow" if ask.edits else "deny", f"{inside}/**": "allow"}
    return {"*": "allow", "edit": edit, "external_directory": "allow"}


def tell(event: Event) -> Iterator[Remark]:
    """Say what one event means."""
    part = event.get("part")
    match event.get("type"):
        case "step_start":
            yield Remark("session", text_at(event, "sessionID"))
        case "text":
            yield Remark("text", text_at(part, "text"))
        case "tool_use":
            used = started(text_at(part, "tool"), at(part, "state", "input"))
            yield used._replace(kind="tool_end")
        case "step_finish":
            note = done(_usage(part))
            yield note if text_at(part, "reason") == "stop" else note._replace(kind="usage")
        case "error":
            error = event.get("error")
            words = text_at(error, "data", "message") or text_at(error, "message")
            yield failed(words or text_at(error, "name"), number_at(error, "data", "statusCode"))


def _usage(part: object) -> Usage:
    """Return a step's numbers; its input is told without what was cached."""
    found = counted(at(part, "tokens"), "input", "cache.read", "output")
    given = found.input_tokens + found.cached_tokens
    return replace(found, input_tokens=given, cost_usd=money_at(part, "cost"))


TOOL = known_tool("opencode", tell, adjust=adjust)
