"""What every backend gets and gives back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from treadle.agents.login import Refreshed
from treadle.config.schema import AgentConfig
from treadle.contract.event import StepError
from treadle.contract.request import AgentRequest
from treadle.contract.response import AgentResponse
from treadle.contract.role import Role
from treadle.proc.keeper import Keeper, Limits
from treadle.sandbox.policy import READ_ONLY, Policy


@dataclass(frozen=True, kw_only=True)
class AgentSpec:
    """One agent, ready to run: its configuration and everything it may use this time."""

    name: str
    config: AgentConfig
    root: Path
    workspace: Path
    environment: Mapping[str, str]
    stdout: Path
    stderr: Path
    limits: Limits
    keeper: Keeper
    should_stop: Callable[[], str | None]
    on_tick: Callable[[float], None]
    policy: Policy = READ_ONLY
    tier: str = "0"  # what holds it in; with "0" a tool keeps its own sandbox on
    writable: tuple[Path, ...] = ()  # further folders that the backend declares


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What a tool says it spent."""

    model: str | None = None
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


@dataclass(frozen=True, kw_only=True)
class AgentResult:
    """How a turn ended: an error with its sentence, a skip, or a response."""

    message: str
    error: StepError | None = None
    skipped: bool = False
    response: AgentResponse | None = None
    document: Mapping[str, object] | None = None
    usage: Usage | None = None
    json_source: str | None = None
    output_bytes: int = 0
    may_retry: bool = False  # another try could help
    resume_at: datetime | None = None  # when a usage limit is over
    repaired: str | None = None  # what was wrong with the first answer
    login: Refreshed | None = None  # what the tool has made of the user's login


class Backend(Protocol):
    """A module that drives one kind of tool."""

    def run(
        self, spec: AgentSpec, request: AgentRequest, prompt: str, step_dir: Path
    ) -> AgentResult:
        """Take one turn; every way it can end is a value, never an exception."""

    def can_change(self, config: AgentConfig, role: Role) -> bool:
        """Tell whether this agent can change the code when it has this role."""
