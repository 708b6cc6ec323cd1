"""Drive programs of the project's own: strict JSON in and out, or a plain command and no model."""

from dataclasses import replace
from pathlib import Path

from msgspec import UNSET

from treadle.agents import answer, backend
from treadle.agents.backend import AgentResult, AgentSpec
from treadle.config import agents
from treadle.contract import messages
from treadle.contract.messages import (
    AgentRequest,
    AgentResponse,
    JudgedCriterion,
    Observed,
    Verdict,
)
from treadle.errors import FormatError
from treadle.files import atomic
from treadle.layout import INPUT_JSON, SCORECARD, VERDICT_JSON


def run_exec(spec: AgentSpec, request: AgentRequest, prompt: str, step_dir: Path) -> AgentResult:
    """Give the program the request, and believe its stdout only if it is exactly a response."""
    argv = agents.argv(spec.root, spec.config)
    _, result = backend.run_child(spec, argv, step_dir / INPUT_JSON)
    if result.error:
        return result
    try:
        return answer.result(spec, result, answer.read(spec.stdout, "stdout"))
    except FormatError as error:
        return answer.result(spec, result, error.message)


def run_builtin(spec: AgentSpec, request: AgentRequest, prompt: str, step_dir: Path) -> AgentResult:
    """Judge in check, run `run` in do and act, and have nothing to add to a plan."""
    if request.step.role == "check":
        return _judge(request, step_dir)
    if request.step.role == "plan" or not spec.config.run:
        return AgentResult(message="nothing to do for the builtin agent", skipped=True)
    argv = agents.argv(spec.root, spec.config)
    _, result = backend.run_child(spec, argv, step_dir / INPUT_JSON)
    if result.error:
        return result
    return replace(result, response=AgentResponse(status="ok", summary=result.message))


def _judge(request: AgentRequest, step_dir: Path) -> AgentResult:
    observed = () if request.norma.observed is UNSET else request.norma.observed
    seen = {item.id: item for item in observed}
    judged = tuple(
        JudgedCriterion(
            id=asked.id,
            text=asked.text,
            passed=asked.id in seen and seen[asked.id].passed,
            evidence=seen[asked.id].log if asked.id in seen else "not observed",
        )
        for asked in request.norma.acceptance_criteria
    )
    failing = [item.id for item in judged if not item.passed]
    found = Verdict(version=1, verdict="FAIL" if failing else "PASS", criteria=judged)
    atomic.create(step_dir / VERDICT_JSON, messages.encode_verdict(found))
    atomic.create(step_dir / SCORECARD, _scorecard(found, seen).encode())
    summary = (
        f"failing: {', '.join(failing)}" if failing else "every criterion was observed to pass"
    )
    answer = AgentResponse(status="ok", summary=summary, files=(VERDICT_JSON, SCORECARD))
    return AgentResult(message=summary, response=answer)


def _scorecard(found: Verdict, seen: dict[str, Observed]) -> str:
    lines = [f"# {found.verdict}", "", "| criterion | pass | command | exit |", "|---|---|---|---|"]
    for item in found.criteria:
        look = seen.get(item.id)
        command, code = (look.command, look.exit_code) if look else ("–", "–")
        mark = "yes" if item.passed else "no"
        row = (f"{item.id}: {item.text}", mark, f"`{command}`", str(code))
        cells = [" ".join(cell.splitlines()).replace("|", "\\|") for cell in row]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
