"""Find the backend for a type of agent."""

from treadle.agents import builtin, exec, replay
from treadle.agents.backend import Backend
from treadle.config.schema import AgentConfig
from treadle.contract.role import Role

BACKENDS: dict[str, Backend] = {"exec": exec, "builtin": builtin, "replay": replay}


def backend(config: AgentConfig) -> Backend:
    """Return the module that drives this agent."""
    return BACKENDS[config.type]


def may_edit(config: AgentConfig, role: Role) -> bool:
    """Tell whether the agent's edits of the workspace are taken over."""
    if role not in ("do", "act"):
        return False
    return config.type == "builtin" if config.edits is None else config.edits
