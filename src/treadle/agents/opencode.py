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

# Otherwise it fetches a package for plugins, of which there are none, at every start.
_LOCK = '{"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}'
_INSTALLED = {
    "config/opencode/node_modules/.keep": "",
    "config/opencode/package-lock.json": _LOCK,
}
_INLINE = "OPENCODE_CONFIG_CONTENT"
_OFF = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "PROJECT_CONFIG")


def launch(ask: Ask) -> Launch:
    """Return the command line: nothing of the repository's own configuration is read."""
    argv = [
        *("opencode", "run", "--format", "json", "--pure", "--title", f"treadle {ask.role}"),
        *(("-s", ask.resume) if ask.resume else ()),
        *ask.model("-m"),
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
    return Launch(
        argv=tuple(argv),
        cwd=ask.spec.workspace,
        env=env,
        files=_INSTALLED,
    )


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


TOOL = known_tool("opencode", launch, tell)
