"""Drive Google's Gemini CLI: prompt on stdin, a stream of JSON events."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from treadle.agents.backend import (
    Ask,
    Event,
    Launch,
    Remark,
    counted,
    done,
    known_tool,
    started,
    text_at,
)
from treadle.contract import load_object
from treadle.errors import FormatError
from treadle.files import walk

_SETTINGS = ".gemini/settings.json"
_AUTH = (
    ("GEMINI_API_KEY", "gemini-api-key"),
    ("GOOGLE_GENAI_USE_VERTEXAI", "vertex-ai"),
    ("GOOGLE_API_KEY", "vertex-ai"),
)


def adjust(ask: Ask, launch: Launch) -> Launch:
    """Write its settings."""
    settings = {
        "security": {
            "auth": {"selectedType": _auth(ask)},
            "environmentVariableRedaction": {"enabled": True},
        },
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False, "maxAttempts": 1},
    }
    return replace(launch, files={_SETTINGS: json.dumps(settings, indent=1)})


def _auth(ask: Ask) -> str:
    """Return how to log in: by a key in the environment, else as the user's own settings say."""
    env = ask.spec.environment
    for name, kind in _AUTH:
        if env.get(name):
            return kind
    own = Path(env.get("GEMINI_CLI_HOME") or env.get("HOME") or "/") / _SETTINGS
    try:
        found = load_object(walk.read(own, max_bytes=1 << 20), source=str(own))
    except FormatError:
        return "oauth-personal"
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


TOOL = known_tool("gemini", tell, adjust=adjust)
