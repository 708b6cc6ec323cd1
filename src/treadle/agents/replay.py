"""Answer from a recorded run: same role, same iteration, same files."""

from collections.abc import Iterator
from pathlib import Path

from treadle.agents import answer
from treadle.agents.backend import AgentResult, AgentSpec
from treadle.agents.tool import number_at
from treadle.contract import Role, StepError, strictjson
from treadle.contract.messages import AgentRequest
from treadle.errors import FormatError
from treadle.files import atomic, walk
from treadle.git import repo, workspace
from treadle.git.confined import Confined
from treadle.layout import INPUT_JSON, OUTPUT_JSON, STEP_JSON
from treadle.proc import environment
from treadle.sandbox import jails

# What treadle itself writes into a step folder is made anew, not replayed.
_OWN = (INPUT_JSON, OUTPUT_JSON, STEP_JSON, "logs", "attempts")
_OWN_PATHS = ("files/checks/", "files/workspace.diff/")
_MAX_FILE = 64 << 20


def run(spec: AgentSpec, request: AgentRequest, prompt: str, step_dir: Path) -> AgentResult:
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
        found = answer.read(recorded / OUTPUT_JSON, "replay")
    except FormatError as error:
        message = f"{recorded}: {error.message}"
        return AgentResult(error=StepError.PROTOCOL_ERROR, message=message)
    return answer.result(spec, AgentResult(message="replayed"), found)


def _find(recording: Path, role: Role, iteration: int) -> Path | None:
    for number, folder in enumerate(_turns(recording, role), 1):
        if _iteration(folder, number) == iteration:
            return folder
    return None


def _turns(recording: Path, role: Role) -> Iterator[Path]:
    yield from sorted((recording / "steps").glob(f"[0-9][0-9][0-9]-{role}"))


def _iteration(folder: Path, fallback: int) -> int:
    """Read the recorded request; recordings made by hand may leave it out."""
    try:
        data = walk.read(folder / INPUT_JSON, max_bytes=_MAX_FILE)
        found = number_at(strictjson.load_object(data, source=INPUT_JSON), "step", "iteration")
    except FormatError:
        return fallback
    return found or fallback


def _repeat_edits(spec: AgentSpec, recorded: Path) -> str | None:
    """Change the workspace as the recorded agent did; edits of a failed turn were not kept."""
    path = recorded / "files" / "workspace.diff"
    if not path.is_file() or not (recorded / OUTPUT_JSON).exists():
        return None
    patch = walk.read(path, max_bytes=_MAX_FILE)
    if not patch.strip():
        return None
    return workspace.apply_patch(repo.find(spec.root), spec.workspace, patch, _hands(spec))


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
