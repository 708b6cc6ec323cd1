"""Drive any program: request JSON on stdin, one strict JSON object on stdout, no retries."""

from pathlib import Path

from treadle.agents import answer, backend
from treadle.agents.backend import AgentResult, AgentSpec
from treadle.config import agents
from treadle.config.schema import AgentConfig
from treadle.contract.request import AgentRequest
from treadle.contract.role import Role
from treadle.errors import FormatError


def run(spec: AgentSpec, request: AgentRequest, prompt: str, step_dir: Path) -> AgentResult:
    """Run the program once and believe its stdout only if it is exactly a response."""
    argv = agents.argv(spec.root, spec.config)
    _, result = backend.run_child(spec, argv, step_dir / "input.json")
    if result.error:
        return result
    try:
        return answer.result(spec, result, answer.read(spec.stdout, "stdout"))
    except FormatError as error:
        return answer.result(spec, result, error.message)


def can_change(config: AgentConfig, role: Role) -> bool:
    """An act agent proposes patches; other roles only with `edits`."""
    return role == "act" or (role == "do" and config.edits is True)
