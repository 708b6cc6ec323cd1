"""Drive any program: request JSON on stdin, one strict JSON object on stdout, no retries."""

from dataclasses import replace
from pathlib import Path

from treadle.agents import child
from treadle.agents.backend import AgentResult, AgentSpec
from treadle.config import agents
from treadle.config.schema import AgentConfig
from treadle.contract import response
from treadle.contract.event import StepError
from treadle.contract.request import AgentRequest
from treadle.contract.role import Role
from treadle.errors import FormatError
from treadle.files import walk

MAX_RESPONSE = 8 << 20


def run(spec: AgentSpec, request: AgentRequest, prompt: str, step_dir: Path) -> AgentResult:
    """Run the program once and believe its stdout only if it is exactly a response."""
    argv = agents.argv(spec.root, spec.config)
    _, result = child.run(spec, argv, step_dir / "input.json")
    if result.error:
        return result
    try:
        parsed, document = response.parse(
            walk.read(spec.stdout, max_bytes=MAX_RESPONSE), source="stdout"
        )
    except FormatError as error:
        message = f"agent {spec.name}: {error.message}; see logs/stdout.txt"
        return replace(result, error=StepError.PROTOCOL_ERROR, message=message)
    return replace(
        result,
        error=StepError.AGENT_FAILED if parsed.status == "fail" else None,
        message=parsed.summary,
        response=parsed,
        document=document,
        json_source="stdout",
    )


def can_change(config: AgentConfig, role: Role) -> bool:
    """An act agent proposes patches; other roles only with `edits`."""
    return role == "act" or (role == "do" and config.edits is True)
