"""Drive Google's Gemini CLI: prompt on stdin, a stream of JSON events."""

import json
from collections.abc import Iterator

from msgspec import structs
from msgspec.structs import replace

from treadle.agents import settings
from treadle.agents.backend import (
    Ask,
    Event,
    Launch,
    Remark,
    Usage,
    counted,
    done,
    known_tool,
    parse_event,
    started,
    text_at,
)
from treadle.agents.records import Record

_SETTINGS = ".gemini/settings.json"
_AUTH = (
    ("GEMINI_API_KEY", "gemini-api-key"),
    ("GOOGLE_GENAI_USE_VERTEXAI", "vertex-ai"),
    ("GOOGLE_API_KEY", "vertex-ai"),
)


def adjust(ask: Ask, launch: Launch) -> Launch:
    """Write its settings, over the user's own if those are wished for."""
    config, env = ask.spec.config, ask.spec.environment
    whole = parse_event(settings.own_files(TOOL, config, env).get(_SETTINGS, b"")) or {}
    ours: dict[str, dict[str, object]] = {
        "security": {
            "auth": {"selectedType": _auth(ask)},
            "environmentVariableRedaction": {"enabled": True},
        },
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False, "maxAttempts": 1},
    }
    for name, part in ours.items():
        own = whole.get(name)
        whole[name] = {**(own if isinstance(own, dict) else {}), **part}
    return replace(launch, files={_SETTINGS: json.dumps(whole, indent=1)})


def _auth(ask: Ask) -> str:
    """Return how to log in: by a key in the environment, else as the user's own settings say."""
    env = ask.spec.environment
    for name, kind in _AUTH:
        if env.get(name):
            return kind
    told = structs.replace(ask.spec.config, settings="user")
    found = parse_event(settings.own_files(TOOL, told, env).get(_SETTINGS, b""))
    return text_at(found, "security", "auth", "selectedType") or "oauth-personal"


def tell(event: Event) -> Iterator[Remark]:
    """Say what one event means."""
    match event.get("type"):
        case "init":
            yield Remark("session", text_at(event, "session_id"))
        case "message" if event.get("role") == "assistant":
            yield Remark("text", text_at(event, "content"), is_part=True)
        case "tool_use":
            yield started(text_at(event, "tool_name"), event.get("parameters"))
        case "tool_result":
            yield Remark("tool_end", f"{text_at(event, 'status')}: {text_at(event, 'output')}")
        case "error":
            yield Remark("warning", text_at(event, "message"))
        case "result" if event.get("status") == "success":
            yield done(counted(event.get("stats"), "input_tokens", "cached", "output_tokens"))
        case "result":
            yield Remark("error", text_at(event, "error", "message"))


def _recorded(event: Event) -> tuple[str, Usage] | None:
    """Read from its record what a call has used."""
    used = counted(event.get("tokens"), "input", "cached", "output")
    model = text_at(event, "model") or None
    return (text_at(event, "id"), replace(used, model=model)) if event.get("tokens") else None


_RECORD = Record(".gemini/tmp/*/chats/session-*.jsonl", _recorded)
TOOL = known_tool("gemini", tell, adjust=adjust, counting=_RECORD.counting)
