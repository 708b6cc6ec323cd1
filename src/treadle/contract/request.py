"""The request an agent gets: `input.json`, byte for byte what is sent."""

import msgspec
from msgspec import UNSET, Struct, UnsetType

from treadle.contract import Role


class Step(Struct, frozen=True, kw_only=True):
    """Where in the run this request stands."""

    index: int
    role: Role
    iteration: int


class AskedCriterion(Struct, frozen=True, kw_only=True):
    """A criterion as agents see it; `verify` is there when treadle observes it itself."""

    id: str
    text: str
    verify: str | UnsetType = UNSET


class Observed(Struct, frozen=True, kw_only=True):
    """What treadle saw when it ran a criterion's command."""

    id: str
    command: str
    passed: bool = msgspec.field(name="pass")
    exit_code: int | None
    seconds: float
    log: str
    note: str | UnsetType = UNSET


class Asked(Struct, frozen=True, kw_only=True):
    """What must be true in the end, and within which limits."""

    acceptance_criteria: tuple[AskedCriterion, ...]
    budgets: dict[str, float]
    observed: tuple[Observed, ...] | UnsetType = UNSET


class Paths(Struct, frozen=True, kw_only=True):
    """Absolute paths; the agent writes in `step_dir` and reads the rest."""

    repo_root: str
    run_dir: str
    step_dir: str


class RequestContext(Struct, frozen=True, kw_only=True):
    """What came before."""

    previous_step_dirs: tuple[str, ...]
    notes: str


class AgentRequest(Struct, frozen=True, kw_only=True):
    """Everything an agent is told. The key `norma` is the contract's own."""

    version: int = 1
    run_id: str
    step: Step
    goal: str
    norma: Asked
    paths: Paths
    context: RequestContext


def encode(request: AgentRequest) -> bytes:
    """Return the request as indented JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(request), indent=2) + b"\n"
