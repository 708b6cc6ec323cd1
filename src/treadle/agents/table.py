"""Find the backend for a type of agent, and what is known of it."""

import functools
import shutil
from collections.abc import Mapping
from math import inf
from pathlib import Path

from treadle.agents import (
    acp,
    claude,
    codex,
    command,
    copilot,
    gemini,
    oneshot,
    opencode,
    program,
    settings,
)
from treadle.agents.backend import AgentSpec, Backend, Launch, Tool
from treadle.config import agents
from treadle.config.schema import AgentConfig
from treadle.contract import Role

TOOLS: dict[str, Tool] = {
    module.TOOL.name: module.TOOL for module in (codex, claude, gemini, opencode, copilot)
}

BACKENDS: dict[str, Backend] = {
    "exec": program.run_exec,
    "builtin": program.run_builtin,
    "replay": program.run_replay,
    **{name: functools.partial(oneshot.run, tool) for name, tool in TOOLS.items()},
    "command": command.run,
    "acp": acp.run,
}

# A model may think, and a tool may test, for a while without a word.
_IDLE = 900.0


def can_change(config: AgentConfig, role: Role) -> bool:
    """Tell whether this agent can change the code; in act it can at least give a patch."""
    if config.type == "builtin":
        return role in ("do", "act") and bool(config.run)
    return role == "act" or (config.type != "replay" and may_edit(config, role))


def may_edit(config: AgentConfig, role: Role) -> bool:
    """Tell whether the agent's edits of the workspace are taken over."""
    if role not in ("do", "act"):
        return False
    # A program leaves the workspace alone unless it is told that it may change it.
    return config.type != "exec" if config.edits is None else config.edits


def is_prompted(config: AgentConfig) -> bool:
    """Tell whether the agent is asked in words."""
    return config.type in TOOLS or config.type in ("command", "acp")


def tool(config: AgentConfig) -> Tool | None:
    """Return the tool that an agent is, or that its server belongs to."""
    return acp.preset(config) if config.type == "acp" else TOOLS.get(config.type)


def launch(spec: AgentSpec, role: Role, step_dir: Path) -> Launch | None:
    """Return how a tool or server would be started."""
    found = tool(spec.config)
    if found is None:
        return None
    start = acp.launch if spec.config.type == "acp" else found.launch
    return start(oneshot.ask(spec, role, step_dir, Path("/STATE")))


def variables(config: AgentConfig, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that reach the agent besides the usual ones."""
    found = tool(config)
    own = acp.preset(config).acp.get("variables", ()) if config.type == "acp" else ()
    known = settings.variables(found, config, env) if found else ()
    return (*known, *own, *config.env_allow)


def unready(root: Path, config: AgentConfig, env: Mapping[str, str]) -> str | None:
    """Say why an agent that is a tool cannot begin: it is missing, or nobody chose a service."""
    if not is_prompted(config):
        return None
    found = tool(config)
    known = (found.acp if config.type == "acp" else found.start) if found else {}
    program = (known.get("program") or agents.argv(root, config))[0]
    if not shutil.which(program, path=config.env.get("PATH", env.get("PATH", ""))):
        where = "" if "/" in program else " on PATH"
        return f"{program} is not installed: there is no such program{where}"
    return settings.refusal(found, config, {**env, **config.env}) if found and known else None


def idle_limit(config: AgentConfig) -> float:
    """Return how long the agent may be silent."""
    if config.idle_timeout is None:
        return _IDLE if is_prompted(config) else inf
    return config.idle_timeout or inf
