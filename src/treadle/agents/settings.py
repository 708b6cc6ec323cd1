"""Choose what a tool gets of the user's own: settings, keys, credentials; say what it does not."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from treadle.agents.backend import Tool
from treadle.config.schema import AgentConfig
from treadle.errors import FormatError
from treadle.files import walk

_MOST = 4 << 20
_NEVER = "is never read: what agents are to know stands in the repository's AGENTS.md"
_OFF = ("", "0", "false", "no", "off")
# How a provider of codex names the variable with its key.
_NAMED = re.compile(rb"""env_key["']?\s*[:=]\s*\\?["'](\w+)""")


class Credentials(NamedTuple):
    """A provider's files, as they lie in a tool's folder, and the variables that lead to them."""

    files: Mapping[str, bytes] = {}
    env: Mapping[str, str] = {}


def variables(tool: Tool, config: AgentConfig, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that reach a tool: its own, and those of a provider switched on."""
    given = {**env, **config.env}
    found = [name for part in _providers(tool, config, given) for name in part["variables"]]
    texts = [*own_files(tool, config, given).values(), "\n".join(config.extra_args).encode()]
    named = [match.decode() for text in texts for match in _NAMED.findall(text)]
    return (*tool.variables, *found, *named)


def key(tool: Tool, config: AgentConfig, env: Mapping[str, str]) -> str | None:
    """Return what makes a login needless: a variable with a key, or a provider's switch."""
    if found := next((name for name in tool.keys if env.get(name)), None):
        return f"key in {found}"
    switches = [name for name in tool.providers if _is_on(name, config, env)]
    if switches:
        return f"provider by {switches[0]}"
    if match := _NAMED.search("\n".join(config.extra_args).encode()):
        return f"key in {match[1].decode()}" if env.get(match[1].decode()) else None
    return None


def own_files(tool: Tool, config: AgentConfig, env: Mapping[str, str]) -> dict[str, bytes]:
    """Return the user's own settings, by where they go in the tool's folder."""
    if config.settings != "user":
        return {}
    found = {name: _read(path) for name, path in _paths(tool, env)}
    return {name: data for name, data in found.items() if data is not None}


def told(tool: Tool, config: AgentConfig, env: Mapping[str, str]) -> list[str]:
    """Say which of the user's own settings are read, and which are not."""
    how = "is read" if config.settings == "user" else "is not read"
    own = [*(path for _, path in _paths(tool, env)), *tool.beside(env)]
    files = [(path, f'{how} (settings = "{config.settings}")') for path in own]
    files += [(_place(tool, env, name), _NEVER) for name in tool.unread]
    there = [(path, what) for path, what in files if path.is_file()]
    return [f"{tool.name}: your {_short(path, env)} {what}" for path, what in there]


def refusal(tool: Tool, config: AgentConfig, env: Mapping[str, str]) -> str | None:
    """Say why a tool is not started that would choose a service by itself."""
    if tool.chosen is None or tool.chosen(config, env):
        return None
    return (
        "no provider is configured, and it would send the code to a hosted service that nobody"
        f" chose; log in with {tool.log_in}, set the agent's model, put a provider's key in the"
        ' environment, or let it read your own configuration with settings = "user"'
    )


def credentials(
    tool: Tool, config: AgentConfig, env: Mapping[str, str], folder: Path
) -> Credentials:
    """Return copies of the files that a provider's variables name, which no sandbox may open."""
    files, led = dict[str, bytes](), dict[str, str]()
    for part in _providers(tool, config, env):
        for name, usual in part.get("files", {}).items():
            path = Path(env.get(name) or Path(env.get("HOME") or "/") / usual)
            if data := _read(path):
                files[f"credentials/{name}"] = data
                led[name] = str(folder / "credentials" / name)
    return Credentials(files, led)


def _providers(tool: Tool, config: AgentConfig, env: Mapping[str, str]) -> list[Mapping[str, Any]]:
    return [part for name, part in tool.providers.items() if _is_on(name, config, env)]


def _is_on(switch: str, config: AgentConfig, env: Mapping[str, str]) -> bool:
    """Tell whether a provider is chosen: by its variable, or by how the model's name begins."""
    if switch.endswith("/"):
        return (config.model or "").startswith(switch)
    return env.get(switch, "").lower() not in _OFF


def _paths(tool: Tool, env: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    return ((name, _place(tool, env, usual)) for name, usual in tool.settings.items())


def _place(tool: Tool, env: Mapping[str, str], usual: str) -> Path:
    if not usual.startswith("~config/"):
        return state_home(tool, env) / usual
    configs = Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME") or "/") / ".config")
    return configs / usual.removeprefix("~config/")


def state_home(tool: Tool, env: Mapping[str, str]) -> Path:
    """Return where the user's own installation keeps its state."""
    own = env.get(tool.state_variable, "")
    return Path(own) if own.startswith("/") else Path(env.get("HOME") or "/") / tool.home


def _read(path: Path) -> bytes | None:
    try:
        return walk.read(path.resolve(), max_bytes=_MOST) if path.is_file() else None
    except (FormatError, OSError):
        return None


def _short(path: Path, env: Mapping[str, str]) -> str:
    home = env.get("HOME") or "/"
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
