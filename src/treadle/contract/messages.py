"""What agents are sent and what they answer: input.json, output.json and verdict.json."""

from collections.abc import Collection
from pathlib import PurePosixPath
from typing import Literal, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from treadle.contract import Role, VerdictWord, load_object
from treadle.errors import FormatError

_Message = TypeVar("_Message", bound=Struct)


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
    flaky: bool | UnsetType = UNSET


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


class AgentResponse(Struct, frozen=True, kw_only=True):
    """What an agent says it did."""

    version: Literal[1] = 1
    status: Literal["ok", "fail"]
    summary: str
    files: tuple[str, ...] = ()
    next_actions: tuple[str, ...] = ()
    errors: tuple[object, ...] = ()


def parse_response(data: bytes, *, source: str) -> tuple[AgentResponse, dict[str, object]]:
    """Return the response and the whole object, unknown keys kept, or raise FormatError."""
    raw = load_object(data, source=source)
    if "version" not in raw:
        raise FormatError(f"{source}: version is missing; it must be 1")
    response = _convert(raw, AgentResponse, source)
    for name in response.files:
        _check_name(name, source)
    return response, raw


def _check_name(name: str, source: str) -> None:
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or "\\" in name:
        raise FormatError(f"{source}: files: {name!r} must be a relative path inside the step dir")


class JudgedCriterion(Struct, frozen=True, kw_only=True):
    """What the check agent claims about one criterion."""

    id: str
    passed: bool = msgspec.field(name="pass")
    text: object = ""
    evidence: object = ""


class Verdict(Struct, frozen=True, kw_only=True):
    """PASS or FAIL with a line for each criterion."""

    version: Literal[1]
    verdict: VerdictWord
    criteria: tuple[JudgedCriterion, ...]
    metrics: object = None
    blockers: object = None
    recommended_fix: object = None

    @property
    def failing(self) -> tuple[str, ...]:
        """Return the ids of the criteria that did not pass."""
        return tuple(item.id for item in self.criteria if not item.passed)


def parse_verdict(data: bytes, *, source: str, asked: Collection[str]) -> Verdict:
    """Return the verdict if it is well formed and agrees with itself, or raise FormatError."""
    verdict = _convert(load_object(data, source=source), Verdict, source)
    _check_consistency(verdict, source, asked)
    return verdict


def encode(message: AgentRequest | Verdict) -> bytes:
    """Return a message as indented JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(message), indent=2) + b"\n"


def _convert(raw: dict[str, object], kind: type[_Message], source: str) -> _Message:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise FormatError(f"{source}: {error}") from error


def _check_consistency(verdict: Verdict, source: str, asked: Collection[str]) -> None:
    ids = [item.id for item in verdict.criteria]
    twice = sorted({id_ for id_ in ids if ids.count(id_) > 1})
    if twice:
        raise FormatError(f"{source}: criteria given twice: {', '.join(twice)}")
    if verdict.verdict == "FAIL":
        return
    missing = [id_ for id_ in asked if id_ not in ids]
    if missing:
        raise FormatError(f"{source}: PASS leaves out {', '.join(missing)}")
    if verdict.failing:
        raise FormatError(f"{source}: PASS although {', '.join(verdict.failing)} did not pass")
