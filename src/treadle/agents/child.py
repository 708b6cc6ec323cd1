"""Run an agent's program under the keeper and say in words how it ended."""

from pathlib import Path

from treadle.agents.backend import AgentResult, AgentSpec
from treadle.contract.event import StepError
from treadle.proc.keeper import Command, Ended
from treadle.sandbox import probe

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
    "signal": StepError.AGENT_EXIT,
    "lost": StepError.AGENT_EXIT,
}


def run(spec: AgentSpec, argv: tuple[str, ...], stdin: Path | None) -> tuple[Ended, AgentResult]:
    """Run `argv` in the workspace; the result carries an error unless it exited with 0."""
    command = Command(
        argv=argv,
        cwd=spec.workspace,
        env=spec.environment,
        stdin=stdin,
        stdout=spec.stdout,
        stderr=spec.stderr,
        limits=spec.limits,
        jail=probe.jail_for(spec.tier, spec.policy.widened(spec.writable)),
    )
    ended = spec.keeper.run(command, should_stop=spec.should_stop, on_tick=spec.on_tick)
    return ended, _result(spec, argv, ended)


def _result(spec: AgentSpec, argv: tuple[str, ...], ended: Ended) -> AgentResult:
    if ended.reason == "exit" and ended.exit_code == 0:
        return AgentResult(message=f"{argv[0]} finished", output_bytes=ended.output_bytes)
    if not ended.vouched:
        return AgentResult(
            error=StepError.MAY_STILL_RUN,
            message=_unvouched(spec, argv[0], ended),
            output_bytes=ended.output_bytes,
        )
    return AgentResult(
        error=_ERRORS.get(ended.reason, StepError.AGENT_EXIT),
        message=_sentence(spec, argv[0], ended),
        output_bytes=ended.output_bytes,
    )


def _unvouched(spec: AgentSpec, program: str, ended: Ended) -> str:
    return (
        f"agent {spec.name} ({program}): {ended.detail or ended.reason}, so processes it started "
        "may still be running; nothing that it left was read"
    )


def _sentence(spec: AgentSpec, program: str, ended: Ended) -> str:
    who = f"agent {spec.name} ({program})"
    match ended.reason:
        case "timeout":
            return f"{who} ran longer than {spec.limits.wall:g} s; raise agents.{spec.name}.timeout"
        case "idle_timeout":
            limit = f"{spec.limits.idle:g} s"
            return f"{who} was silent for {limit}; raise agents.{spec.name}.idle_timeout"
        case "output_limit":
            limit = f"{(spec.limits.output_bytes or 0) / 2**20:g} MiB"
            return f"{who} printed more than {limit}; raise it with --budget max_output_mb=N"
        case "disk_limit" | "memory_limit" | "process_limit":
            return f"{who} {ended.detail}"
        case "stopped":
            return f"{who} was stopped: {ended.detail}"
        case "exit":
            return f"{who} exited with {ended.exit_code}; its words are in logs/stderr.txt"
        case "signal":
            return f"{who} was killed by signal {ended.signal}; see logs/stderr.txt"
        case _:
            return f"{who}: {ended.detail}"
