"""Drive OpenCode: `opencode run --format json`."""

import json
import os
from collections.abc import Iterable, Iterator

from treadle.agents import usage
from treadle.agents.backend import Usage
from treadle.agents.tool import (
    Ask,
    Event,
    Heard,
    Launch,
    Note,
    Tool,
    at,
    money_at,
    number_at,
    overlay,
    text_at,
)

# Otherwise it fetches a package for plugins, of which there are none, at every start.
_INSTALLED = {
    "node_modules/.keep": "",
    "package-lock.json": '{"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}',
}
_INLINE = "OPENCODE_CONFIG_CONTENT"
_OFF = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "PROJECT_CONFIG")


def launch(ask: Ask) -> Launch:
    """Return the command line: nothing of the repository's own configuration is read."""
    argv = [
        *("opencode", "run", "--format", "json", "--pure", "--title", f"treadle {ask.role}"),
        *(("-s", ask.resume) if ask.resume else ()),
        *(("-m", ask.spec.config.model) if ask.spec.config.model else ()),
        *ask.spec.config.extra_args,
    ]
    folders = {
        "XDG_DATA_HOME": ask.state,
        "XDG_CONFIG_HOME": ask.state / "config",
        "XDG_STATE_HOME": ask.state / "state",
        "XDG_CACHE_HOME": ask.state / "cache",
    }
    env = {name: str(folder) for name, folder in folders.items()}
    env |= {f"OPENCODE_DISABLE_{name}": "1" for name in _OFF}
    settings = {"permission": _permission(ask), "share": "disabled", "snapshot": False}
    env[_INLINE] = overlay(ask.spec.environment.get(_INLINE), settings)
    own = ask.state / "config" / "opencode"
    return Launch(
        argv=tuple(argv),
        cwd=ask.spec.workspace,
        env=env,
        files={own / name: text for name, text in _INSTALLED.items()},
    )


def _permission(ask: Ask) -> object:
    if ask.is_held:
        return {"*": "allow", "external_directory": "allow"}
    # Globs of edits are relative to where it works.
    inside = os.path.relpath(ask.step_dir, ask.spec.workspace)
    edit = {"*": "allow" if ask.edits else "deny", f"{inside}/**": "allow"}
    return {"*": "allow", "edit": edit, "external_directory": "allow"}


def hear(events: Iterable[Event], ask: Ask) -> Heard:
    """Take the last text, and sum the steps."""
    text, session, error, reason, status = "", None, "", "", None
    used: list[Usage] = []
    for event in events:
        session = text_at(event, "sessionID") or session
        part = event.get("part")
        match event.get("type"):
            case "text":
                text = text_at(part, "text")
            case "step_finish":
                reason = text_at(part, "reason")
                used.append(_usage(part, ask))
            case "error":
                reason = "error"
                error = _complaint(event)
                status = number_at(event, "error", "data", "statusCode") or None
    done = reason == "stop"
    return Heard(
        is_done=done,
        text=text,
        session=session,
        usage=usage.total(used, (), None),
        error="" if done else error,
        status=status,
    )


def _complaint(event: Event) -> str:
    error = event.get("error")
    return text_at(error, "data", "message") or text_at(error, "message") or text_at(error, "name")


def _usage(part: object, ask: Ask) -> Usage:
    cached = number_at(part, "tokens", "cache", "read")
    return Usage(
        model=ask.spec.config.model,
        input_tokens=number_at(part, "tokens", "input") + cached,
        cached_tokens=cached,
        output_tokens=number_at(part, "tokens", "output"),
        cost_usd=money_at(part, "cost"),
    )


def tell(event: Event) -> Iterator[Note]:
    """Say what one event means."""
    part = event.get("part")
    match event.get("type"):
        case "step_start":
            yield Note("session", text_at(event, "sessionID"))
        case "text":
            yield Note("text", text_at(part, "text"))
        case "tool_use":
            given = json.dumps(at(part, "state", "input"), ensure_ascii=False)
            yield Note("tool_end", f"{text_at(part, 'tool')} {given}")
        case "step_finish" if text_at(part, "reason") == "stop":
            yield Note("done", f"{number_at(part, 'tokens', 'output')} tokens out")
        case "error":
            yield Note("error", _complaint(event))


TOOL = Tool(
    name="opencode",
    home=".local/share",
    state_variable="XDG_DATA_HOME",
    launch=launch,
    hear=hear,
    tell=tell,
    variables=("OPENCODE_*", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"),
    logins=("opencode/auth.json",),
    log_in="opencode auth login",
)
