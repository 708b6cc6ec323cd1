"""The answer of `next`: work to do now, or why there is none; a wrong one cannot be built."""

from pathlib import Path
from typing import Literal, NamedTuple, get_args

from treadle.errors import FormatError

SCHEMA_VERSION = 1
NOT_RESOLVABLE = "prompt_file_not_resolvable"

Phase = Literal["specify", "plan", "tasks", "implement", "review", "accept"]
PHASES: tuple[Phase, ...] = get_args(Phase)
TASK_PHASES: tuple[Phase, ...] = ("implement", "review")
Result = Literal["success", "failed", "blocked"]
RESULTS: tuple[Result, ...] = get_args(Result)
HaltKind = Literal["blocked", "complete", "decision_required", "query"]


class Where(NamedTuple):
    """The mission, its phase, and the task if the phase is about one."""

    mission_slug: str
    phase: Phase
    task_id: str | None = None


class _Frozen:
    """A record that is checked when it is made and never changes."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} is fixed once a decision is made")

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


class Step(_Frozen):
    """Work to do now.

    C1: `prompt_file` is never null or empty. C2: it names a file that exists when the decision is
    made. C3: where there is no such file there is no Step, but a Halt with a reason.
    """

    __slots__ = ("prompt_file", "where")
    kind: Literal["step"] = "step"
    where: Where
    prompt_file: Path

    def __init__(self, where: Where, prompt_file: Path) -> None:
        if not prompt_file.is_absolute() or not prompt_file.is_file():
            raise FormatError(f"there is no prompt at {prompt_file}", code=NOT_RESOLVABLE)
        self._set(where=where, prompt_file=prompt_file)


class Halt(_Frozen):
    """No work to do now: why, and the literal commands that help."""

    __slots__ = ("kind", "reason", "reason_code", "unblock", "where")
    kind: HaltKind
    where: Where
    reason: str
    reason_code: str
    unblock: tuple[str, ...]

    def __init__(
        self,
        kind: HaltKind,
        where: Where,
        reason: str,
        reason_code: str,
        unblock: tuple[str, ...] = (),
    ) -> None:
        if not reason or not reason_code or (not unblock and kind != "complete"):
            raise FormatError(f"a decision that is {kind} must say why and what helps")
        self._set(kind=kind, where=where, reason=reason, reason_code=reason_code, unblock=unblock)


Decision = Step | Halt


def document(decision: Decision) -> dict[str, object]:
    """Return a decision as the JSON that host agents read."""
    answer: dict[str, object] = {
        "schema_version": SCHEMA_VERSION,
        "kind": decision.kind,
        "prompt_file": None,
        "reason": None,
        "reason_code": None,
        "unblock": [],
        **decision.where._asdict(),
    }
    if isinstance(decision, Step):
        return answer | {"prompt_file": str(decision.prompt_file)}
    return answer | {
        "reason": decision.reason,
        "reason_code": decision.reason_code,
        "unblock": list(decision.unblock),
    }
