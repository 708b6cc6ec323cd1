"""Drive OpenCode: `opencode run --format json`."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from treadle.agents import settings
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
    parse_event,
    started,
    text_at,
)
from treadle.agents.records import Record
from treadle.config.schema import AgentConfig

_MOST = 1 << 20
_INLINE = "OPENCODE_CONFIG_CONTENT"
_HOSTED = "opencode"  # the service it takes where it finds no other, and its name for it
_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENCODE_API_KEY")


def chosen(config: AgentConfig, env: Mapping[str, str]) -> bool:
    """Tell whether the user has chosen a service: by a model, settings, a login or a key."""
    texts = _texts(config, env)
    return bool(
        config.model or any(map(env.get, _KEYS)) or any(re.search(_SERVICE, text) for text in texts)
    )


def adjust(ask: Ask, launch: Launch) -> Launch:
    """Lay what it may do over the user's own settings; its own service works only if chosen."""
    config, env = ask.spec.config, ask.spec.environment
    own: dict[str, object] = {
        "permission": _permission(ask),
        "share": "disabled",
        "snapshot": False,
    }
    wanted = (config.model or "").startswith(f"{_HOSTED}/") or env.get("OPENCODE_API_KEY")
    # It would ask its model for a title, too, and tell nobody of that call.
    agents = at(parse_event(env.get(_INLINE, "").encode()), "agent")
    own["agent"] = {**(agents if isinstance(agents, dict) else {}), "title": {"disable": True}}
    texts = _texts(config, env)
    if not wanted and not any(re.search(_OWN_SERVICE, text) for text in texts):
        lists = [found for text in texts for found in re.findall(_DISABLED, text)]
        own["disabled_providers"] = [_HOSTED, *re.findall(r"[\w.-]+", " ".join(lists))]
    return replace(launch, env={**launch.env, _INLINE: overlay(env.get(_INLINE), own)})


# A provider with anything to it, a model or a login; and the same of its own service. What is
# looked at may hold comments, so that it is no JSON.
_SERVICE = r'"(provider|model|type)"\s*:\s*("\w|\{\s*")'
_DISABLED = r'"disabled_providers"\s*:\s*\[([^\]]*)\]'
_OWN_SERVICE = rf'"{_HOSTED}"\s*:\s*\{{|"model"\s*:\s*"{_HOSTED}/'


def _texts(config: AgentConfig, env: Mapping[str, str]) -> list[str]:
    """Return everything in which a user says which service to use."""
    files = [*settings.own_files(TOOL, config, env).values()]
    paths = [settings.state_home(TOOL, env) / name for name in TOOL.logins]
    paths += [Path(env["OPENCODE_CONFIG"])] if env.get("OPENCODE_CONFIG") else []
    files += [path.read_bytes()[:_MOST] for path in paths if path.is_file()]
    return [env.get(_INLINE, ""), *(data.decode(errors="replace") for data in files)]


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
            yield Remark("usage", "")  # the model answers; what that takes is told when it is over
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


def _recorded(event: Event) -> tuple[str, Usage] | None:
    """Read from its record what a call has used."""
    return text_at(event, "part", "id"), _usage(event.get("part"))


# The record is a database, in which short events stand in one piece.
_STEP = (
    r'\{"sessionID":"\w+","part":\{"id":[^{}]*"type":"step-finish"[^{}]*'
    r'"tokens":\{[^{}]*\{[^{}]*\}[^{}]*\}[^{}]*\},"time":\d+\}'
)
_RECORD = Record("opencode/opencode.db*", _recorded, event=re.compile(_STEP))
TOOL = known_tool("opencode", tell, adjust=adjust, chosen=chosen, counting=_RECORD.counting)
