"""What every backend gets and gives back, and how it runs a program."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from treadle.config.schema import AgentConfig
from treadle.contract import StepError
from treadle.contract.messages import AgentRequest, AgentResponse
from treadle.proc.keeper import Command, Ended, Keeper, Limits
from treadle.sandbox import jails
from treadle.sandbox.policy import READ_ONLY, Policy

_ERRORS = {
    "missing": StepError.AGENT_MISSING,
    "not_executable": StepError.AGENT_MISSING,
    "timeout": StepError.TIMEOUT,
    "idle_timeout": StepError.IDLE_TIMEOUT,
    "output_limit": StepError.OUTPUT_LIMIT,
    "disk_limit": StepError.DISK_LIMIT,
    "memory_limit": StepError.MEMORY_LIMIT,
    "process_limit": StepError.PROCESS_LIMIT,
    "stopped": StepError.INTERRUPTED,
    "unvouched": StepError.MAY_STILL_RUN,
}
_SENTENCES = {
    "timeout": " ran longer than {limits.wall:g} s; raise agents.{name}.timeout",
    "idle_timeout": " was silent for {limits.idle:g} s; raise agents.{name}.idle_timeout",
    "output_limit": " printed more than {mib:g} MiB; raise it with --budget max_output_mb=N",
    "disk_limit": " {ended.detail}",
    "memory_limit": " {ended.detail}",
    "process_limit": " {ended.detail}",
    "stopped": " was stopped: {ended.detail}",
    "exit": " exited with {ended.exit_code}; see logs/stderr.txt",
    "signal": " was killed by signal {ended.signal}; see logs/stderr.txt",
    "unvouched": (
        ": {why}, so processes it started may still be running; nothing that it left was read"
    ),
}


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


class Refreshed(NamedTuple):
    """A login with new tokens: the user's file, what it held when it was lent, what it becomes."""

    path: Path
    lent: bytes
    data: bytes
    fields: tuple[str, ...]


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
    """What drives one kind of agent."""

    def __call__(
        self, spec: AgentSpec, request: AgentRequest, prompt: str, step_dir: Path, /
    ) -> AgentResult:
        """Take one turn; every way it can end is a value, never an exception."""


def run_child(
    spec: AgentSpec, argv: tuple[str, ...], stdin: Path | None
) -> tuple[Ended, AgentResult]:
    """Run `argv` in the workspace; the result carries an error unless it exited with 0."""
    command = Command(
        argv=argv,
        cwd=spec.workspace,
        env=spec.environment,
        stdin=stdin,
        stdout=spec.stdout,
        stderr=spec.stderr,
        limits=spec.limits,
        jail=jails.jail_for(spec.tier, spec.policy.widened(spec.writable)),
    )
    ended = spec.keeper.run(command, should_stop=spec.should_stop, on_tick=spec.on_tick)
    return ended, _how_ended(spec, argv, ended)


def _how_ended(spec: AgentSpec, argv: tuple[str, ...], ended: Ended) -> AgentResult:
    if ended.reason == "exit" and ended.exit_code == 0:
        return AgentResult(message=f"{argv[0]} finished", output_bytes=ended.output_bytes)
    reason = ended.reason if ended.vouched else "unvouched"
    words = _SENTENCES.get(reason, ": {ended.detail}").format(
        ended=ended,
        name=spec.name,
        why=ended.detail or ended.reason,
        limits=spec.limits,
        mib=(spec.limits.output_bytes or 0) / 2**20,
    )
    return AgentResult(
        error=_ERRORS.get(reason, StepError.AGENT_EXIT),
        message=f"agent {spec.name} ({argv[0]}){words}",
        output_bytes=ended.output_bytes,
    )
