"""Drive programs of the project's own: strict JSON in and out, or a plain command and no model."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import UNSET
from msgspec.structs import replace

from treadle.agents import answer, backend
from treadle.agents.backend import (
    AgentResult,
    AgentSpec,
    Usage,
    at,
    money_at,
    number_at,
    parse_event,
    text_at,
    turn_usage,
)
from treadle.config import agents
from treadle.contract import Role, messages
from treadle.contract.events import StepError
from treadle.contract.messages import (
    AgentRequest,
    AgentResponse,
    JudgedCriterion,
    Observed,
    Verdict,
)
from treadle.errors import FormatError
from treadle.files import atomic, walk
from treadle.git import repo, workspace
from treadle.git.confined import Confined
from treadle.layout import (
    INPUT_JSON,
    OUTPUT_JSON,
    SCORECARD,
    STEP_JSON,
    VERDICT_JSON,
    WORKSPACE_DIFF,
    find_work_tree,
)
from treadle.proc import environment
from treadle.sandbox import jails

_TOKENS = ("input_tokens", "cached_tokens", "output_tokens")
_LONGEST = 100  # characters of a model's name


def run_exec(spec: AgentSpec, request: AgentRequest, prompt: str, step_dir: Path) -> AgentResult:
    """Give the program the request, and believe its stdout only if it is exactly a response."""
    argv = agents.argv(spec.root, spec.config)
    _, result = backend.run_child(spec, argv, step_dir / INPUT_JSON)
    if result.error:
        return result
    try:
        found = answer.result(spec, result, answer.read(spec.stdout, "stdout"))
    except FormatError as error:
        return answer.result(spec, result, error.message)
    return replace(found, usage=_reported(spec, found.document))


def _reported(spec: AgentSpec, document: Mapping[str, object] | None) -> Usage | None:
    """Return what a program says it has used, under the `usage` key of its answer."""
    told = at(document, "usage")
    if not isinstance(told, dict):
        return None
    # What is below nothing would give a run back what it has used.
    tokens = {name: max(number_at(told, name), 0) for name in _TOKENS}
    cost, model = max(money_at(told, "cost_usd"), 0.0), text_at(told, "model")[:_LONGEST]
    return turn_usage([Usage(**tokens, cost_usd=cost, model=model or None)], (), spec.config)


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
    atomic.create(step_dir / VERDICT_JSON, messages.encode(found))
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


# What treadle itself writes into a step folder is made anew, not replayed.
_OWN = (INPUT_JSON, OUTPUT_JSON, STEP_JSON, "logs", "attempts")
_OWN_PATHS = ("files/checks/", f"files/{WORKSPACE_DIFF}/")
_MAX_FILE = 64 << 20


def run_replay(spec: AgentSpec, request: AgentRequest, prompt: str, step_dir: Path) -> AgentResult:
    """Copy the recorded turn's files and give its recorded response."""
    recording = spec.root / (spec.config.recording or "")
    recorded = _find(recording, request.step.role, request.step.iteration)
    if recorded is None:
        turn = f"{request.step.role} in iteration {request.step.iteration}"
        message = f"agent {spec.name}: {recording} has no recorded {turn}"
        return AgentResult(error=StepError.REPLAY_EXHAUSTED, message=message)
    if complaint := _repeat_edits(spec, recorded):
        message = f"agent {spec.name}: the recorded edits do not apply here: {complaint}"
        return AgentResult(error=StepError.PATCH_FAILED, message=message)
    try:
        _copy(recorded, step_dir)
        if _was_skipped(recorded):
            return AgentResult(message="replayed", skipped=True)
        found = answer.read(recorded / OUTPUT_JSON, "replay")
    except FormatError as error:
        message = f"{recorded}: {error.message}"
        return AgentResult(error=StepError.PROTOCOL_ERROR, message=message)
    return answer.result(spec, AgentResult(message="replayed"), found)


def _find(recording: Path, role: Role, iteration: int) -> Path | None:
    turns = sorted((recording / "steps").glob(f"[0-9][0-9][0-9]-{role}"))
    for number, folder in enumerate(turns, 1):
        if _iteration(folder, number) == iteration:
            return folder
    return None


def _iteration(folder: Path, fallback: int) -> int:
    return number_at(_recorded(folder, INPUT_JSON), "step", "iteration") or fallback


def _was_skipped(folder: Path) -> bool:
    """Tell whether the turn had nothing to do, and so no answer."""
    return text_at(_recorded(folder, STEP_JSON), "row", "status") == "skipped"


def _recorded(folder: Path, name: str) -> Mapping[str, object]:
    """Read a part of a recorded turn; recordings made by hand may leave it out."""
    return parse_event(walk.tail(folder / name, _MAX_FILE).encode()) or {}


def _repeat_edits(spec: AgentSpec, recorded: Path) -> str | None:
    """Change the workspace as the recorded agent did; edits of a failed turn were not kept."""
    path = recorded / "files" / WORKSPACE_DIFF
    if not path.is_file() or not (recorded / OUTPUT_JSON).exists():
        return None
    patch = walk.read(path, max_bytes=_MAX_FILE)
    if not patch.strip():
        return None
    tree = find_work_tree(spec.workspace)  # names in a diff begin at its top
    top = tree.top if tree else spec.workspace
    return workspace.apply_patch(repo.find(spec.root), top, patch, _hands(spec))


def _hands(spec: AgentSpec) -> Confined:
    """Let git work as an agent would: filters may run what an earlier turn left."""
    reach = spec.policy._replace(network=False)
    return Confined(
        spec.keeper,
        spec.stdout.parent / "git",
        lambda writable: jails.jail_for(spec.tier, reach.widened(writable)),
        lambda env: {**spec.environment, **environment.allowed(env, ("GIT_*", "PYTHONSAFEPATH"))},
    )


def _copy(recorded: Path, step_dir: Path) -> None:
    for entry in walk.walk(recorded, hard_links=True):
        if entry.path.split("/")[0] in _OWN or f"{entry.path}/".startswith(_OWN_PATHS):
            continue
        target = step_dir / entry.path
        if entry.is_folder:
            target.mkdir(exist_ok=True)
        else:
            data = walk.read(recorded / entry.path, max_bytes=_MAX_FILE)
            atomic.create(target, data)
