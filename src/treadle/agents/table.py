"""Find the backend for a type of agent."""

from pathlib import Path

from treadle.agents import (
    acp,
    builtin,
    claude,
    codex,
    copilot,
    exec,
    gemini,
    oneshot,
    opencode,
    replay,
)
from treadle.agents.backend import AgentSpec, Backend
from treadle.agents.oneshot import OneShot
from treadle.agents.tool import Launch, Tool
from treadle.config.schema import AgentConfig
from treadle.contract.role import Role

TOOLS: dict[str, Tool] = {
    module.TOOL.name: module.TOOL for module in (codex, claude, gemini, opencode, copilot)
}

BACKENDS: dict[str, Backend] = {
    "exec": exec,
    "builtin": builtin,
    "replay": replay,
    **{name: OneShot(tool=tool) for name, tool in TOOLS.items()},
    "acp": acp,
}

# A model may think, and a tool may test, for a while without a word.
_IDLE = 900.0
# These leave the workspace alone unless they are told that they may change it.
_READERS = ("exec",)


def backend(config: AgentConfig) -> Backend:
    """Return the module that drives this agent."""
    return BACKENDS[config.type]


def may_edit(config: AgentConfig, role: Role) -> bool:
    """Tell whether the agent's edits of the workspace are taken over."""
    if role not in ("do", "act"):
        return False
    return config.type not in _READERS if config.edits is None else config.edits


def is_prompted(config: AgentConfig) -> bool:
    """Tell whether the agent is asked in words."""
    return config.type in TOOLS or config.type == "acp"


def tool(config: AgentConfig) -> Tool | None:
    """Return the tool that an agent is, or that its server belongs to."""
    return acp.preset(config).tool if config.type == "acp" else TOOLS.get(config.type)


def launch(spec: AgentSpec, role: Role, step_dir: Path) -> Launch | None:
    """Return how a tool or server would be started."""
    found = tool(spec.config)
    if found is None:
        return None
    start = acp.launch if spec.config.type == "acp" else found.launch
    return start(oneshot.ask(found, spec, role, step_dir, Path("/STATE")))


def variables(config: AgentConfig) -> tuple[str, ...]:
    """Return the variables that reach the agent besides the usual ones."""
    found = tool(config)
    own = acp.preset(config).variables if config.type == "acp" else ()
    return (*(found.variables if found else ()), *own, *config.env_allow)


def idle_limit(config: AgentConfig) -> float | None:
    """Return how long the agent may be silent; None is for ever."""
    if config.idle_timeout is None:
        return _IDLE if is_prompted(config) else None
    return config.idle_timeout or None
