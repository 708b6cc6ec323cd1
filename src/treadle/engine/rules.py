"""Hold an agent's turn against the rules of its role."""

from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from treadle.agents.backend import AgentResult
from treadle.contract import verdict
from treadle.contract.event import EventType, StepError
from treadle.contract.role import VerdictWord
from treadle.contract.verdict import Verdict
from treadle.engine.budget import Exceeded
from treadle.engine.checks import Observation
from treadle.engine.protection import SecondLook
from treadle.engine.run import Run
from treadle.engine.stage import PATCH, Stage
from treadle.engine.timeline import readable
from treadle.errors import FormatError
from treadle.files import walk

_MAX_VERDICT = 8 << 20


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a turn amounts to: an error with its sentence, or a result, with a verdict in check."""

    message: str
    error: StepError | None = None
    skipped: bool = False
    verdict: VerdictWord | None = None
    failing: tuple[str, ...] = ()
    refuted: tuple[str, ...] = ()
    keeps_files: bool = True
    over: Exceeded | None = None
    look: SecondLook | None = None

    def with_message(self, message: str) -> "Finding":
        """Return this finding in other words."""
        return self if message == self.message else replace(self, message=message)

    def failed(self, error: StepError, message: str) -> "Finding":
        """Return this finding turned into a failure; an earlier failure stands."""
        return self if self.error else replace(self, error=error, message=readable(message))


def judge(run: Run, stage: Stage, result: AgentResult, observation: Observation) -> Finding:
    """Return what this turn amounts to."""
    finding = Finding(message=result.message, error=result.error, skipped=result.skipped)
    try:
        names = {entry.path for entry in walk.walk(stage.folder) if not entry.is_folder}
        if "files" in names:
            raise FormatError("`files` must be a folder")
    except FormatError as error:
        finding = replace(finding, keeps_files=False)
        return finding.failed(StepError.PROTOCOL_ERROR, f"the step folder: {error.message}")
    missing = [name for name in _listed(result) if str(PurePosixPath(name)) not in names]
    if missing:
        text = f"files: {missing[0]!r} is not in the step folder"
        return finding.failed(StepError.PROTOCOL_ERROR, text)
    if finding.error:
        return finding
    if stage.role != "act" and PATCH in names:
        text = f"patch.diff from {stage.role} is ignored; only act proposes patches"
        run.timeline.add(EventType.PATCH_IGNORED, text)
    return _check(run, stage, finding, observation) if stage.role == "check" else finding


def _listed(result: AgentResult) -> tuple[str, ...]:
    return result.response.files if result.response else ()


def _check(run: Run, stage: Stage, finding: Finding, observation: Observation) -> Finding:
    try:
        claimed = _read_verdict(run, stage)
    except FormatError as error:
        return finding.failed(StepError.PROTOCOL_ERROR, error.message)
    word, failing = claimed.verdict, set(claimed.failing)
    refuted = tuple(id_ for id_ in observation.failing if id_ not in failing)
    if word == "PASS" and observation.failing:
        word = "FAIL"
        names = ", ".join(observation.failing)
        run.timeline.add(
            EventType.CLAIM_REFUTED,
            f"the agent claimed PASS but these commands failed: {names}",
            criteria=list(observation.failing),
        )
    everything = tuple(id_ for id_ in run.order.ids if id_ in failing | set(observation.failing))
    run.timeline.add(
        EventType.VERDICT,
        f"{word}" + (f": failing {', '.join(everything)}" if everything else ""),
        verdict=word,
        claimed=claimed.verdict,
        failing=list(everything),
    )
    return replace(finding, verdict=word, failing=everything, refuted=refuted)


def _read_verdict(run: Run, stage: Stage) -> Verdict:
    data = walk.read(stage.folder / "verdict.json", max_bytes=_MAX_VERDICT)
    found = verdict.parse(data, source="verdict.json", asked=run.order.ids)
    if not walk.read(stage.folder / "scorecard.md", max_bytes=_MAX_VERDICT).strip():
        raise FormatError("scorecard.md is empty")
    return found
