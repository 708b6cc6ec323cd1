"""The check role's claim: `verdict.json`."""

from collections.abc import Collection
from typing import Literal

import msgspec
from msgspec import Struct

from treadle.contract import VerdictWord, strictjson
from treadle.errors import FormatError


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


def parse(data: bytes, *, source: str, asked: Collection[str]) -> Verdict:
    """Return the verdict if it is well formed and agrees with itself, or raise FormatError."""
    raw = strictjson.load_object(data, source=source)
    try:
        verdict = msgspec.convert(raw, Verdict)
    except msgspec.ValidationError as error:
        raise FormatError(f"{source}: {error}") from error
    _check_consistency(verdict, source, asked)
    return verdict


def encode(verdict: Verdict) -> bytes:
    """Return the verdict as indented JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(verdict), indent=2) + b"\n"


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
