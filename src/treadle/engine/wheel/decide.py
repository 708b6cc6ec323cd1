"""Decide what a step means for its run, and write it down for the commit."""

from dataclasses import dataclass

from msgspec import structs

from treadle.agents.backend import AgentResult
from treadle.contract.event import EventType, StepError
from treadle.contract.role import RunStatus, StepStatus
from treadle.engine.run import budget, confinement, memory
from treadle.engine.run.budget import Spent
from treadle.engine.run.memory import RESUME_AT
from treadle.engine.run.run import ENDS, Run, name_some
from treadle.engine.run.run_files import Manifest, Snapshot
from treadle.engine.wheel.judge import Finding
from treadle.engine.wheel.step_folder import Stage
from treadle.ids import utc
from treadle.store.runs import CheckRow, StepRow, UsageRow


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Whether the run goes on after this step, and if not, why."""

    status: RunStatus
    reason: str | None = None
    message: str = ""
    over: budget.Exceeded | None = None


def manifest(
    run: Run,
    stage: Stage,
    *,
    result: AgentResult,
    finding: Finding,
    rows: tuple[CheckRow, ...],
    after: Snapshot,
) -> Manifest:
    """Return everything the store must learn from this step; its files' digests come later."""
    spent = _spent_after(run, stage, result)
    _note_step(run, stage, finding, result.json_source)
    decision = _decide(run, stage, finding, spent)
    _note_end(run, decision)
    ended_at = utc(run.tools.now())
    cursor = run.cursor(
        status=decision.status,
        iteration=stage.iteration + (stage.role == "act" and decision.status == "running"),
        current_step_index=stage.index,
        verdict=finding.verdict or run.row.verdict,
        head_commit=after.commit,
        ended_at=None if decision.status == "running" else ended_at,
    )
    return Manifest(
        row=_row(run, stage, finding, after, ended_at),
        events=run.timeline.take(),
        cursor=cursor,
        kv=_masked(run, _kv(run, stage, finding, spent, decision)) | _resume_at(result),
        before=Snapshot(run.head, run.tree),
        after=after,
        usage=_usage(run, stage, result),
        checks=rows,
        files={},
    )


def _spent_after(run: Run, stage: Stage, result: AgentResult) -> Spent:
    usage = result.usage
    return budget.add(
        run.spent,
        seconds=stage.seconds(),
        tokens=usage.input_tokens + usage.output_tokens if usage else 0,
        cost_usd=usage.cost_usd if usage else 0.0,
        output_bytes=result.output_bytes,
    )


def _decide(run: Run, stage: Stage, finding: Finding, spent: Spent) -> Decision:
    if finding.error:
        return _after_failure(run, finding, spent)
    if run.order.script:
        return Decision(status="passed", reason="passed", message="the routine finished")
    if finding.verdict == "PASS":
        return _after_pass(run, finding)
    if finding.verdict == "FAIL":
        return _after_fail(run, stage, finding)
    return Decision(status="running")


def _after_pass(run: Run, finding: Finding) -> Decision:
    """Let a run pass, unless it hangs on protected files that the run itself changed."""
    look = finding.look
    if look and look.failing and run.order.checks.protect_mode == "ask":
        names = name_some(look.files)
        text = f"the run changed what decides its checks ({names}): {look.sentence}"
        return Decision(status="stopped", reason=memory.WAITS_FOR_APPROVAL, message=text)
    return Decision(status="passed", reason="passed", message="every criterion passed")


def _after_failure(run: Run, finding: Finding, spent: Spent) -> Decision:
    if finding.error in (StepError.INTERRUPTED, StepError.USAGE_LIMIT, StepError.BUDGET_EXCEEDED):
        reason, over = str(finding.error), finding.over
        return Decision(status="stopped", reason=reason, message=finding.message, over=over)
    over = budget.exceeded(run.order.budgets, spent)
    if over and finding.error in (StepError.TIMEOUT, StepError.OUTPUT_LIMIT):
        return over_budget(run, over)
    return Decision(status="failed", reason=str(finding.error), message=finding.message)


def _after_fail(run: Run, stage: Stage, finding: Finding) -> Decision:
    seen = {"tree": run.tree, "failing": list(finding.failing)}
    if stage.iteration >= run.order.budgets.max_iterations:
        limit = run.order.budgets.max_iterations
        over = budget.Exceeded(key="max_iterations", limit=limit, used=stage.iteration)
        return over_budget(run, over)
    if run.kv.get("last_check") == seen:
        text = "two checks in a row saw the same tree and the same failing criteria"
        run.timeline.add(EventType.NO_PROGRESS, text, failing=list(finding.failing))
        return Decision(status="stopped", reason="no_progress", message=text)
    return Decision(status="running")


def over_budget(run: Run, over: budget.Exceeded) -> Decision:
    """Note a spent budget and stop."""
    run.timeline.add(
        EventType.BUDGET_EXCEEDED, over.sentence, key=over.key, limit=over.limit, used=over.used
    )
    return Decision(status="stopped", reason="budget_exceeded", message=over.sentence, over=over)


def _note_step(run: Run, stage: Stage, finding: Finding, source: str | None) -> None:
    where: dict[str, object] = {
        "index": stage.index,
        "role": stage.role,
        "iteration": stage.iteration,
    }
    if finding.error:
        run.timeline.add(EventType.STEP_FAILED, finding.message, code=str(finding.error), **where)
    if source:
        where["json_source"] = source
    status = _status(finding)
    run.timeline.add(EventType.STEP_COMMITTED, finding.message, status=status, **where)


def _note_end(run: Run, decision: Decision) -> None:
    if decision.status in ENDS:
        run.timeline.add(ENDS[decision.status], decision.message, reason_code=decision.reason)


def _status(finding: Finding) -> StepStatus:
    if finding.error:
        return "fail"
    return "skipped" if finding.skipped else "ok"


def _row(run: Run, stage: Stage, finding: Finding, after: Snapshot, ended_at: str) -> StepRow:
    layout = run.tools.layout
    return StepRow(
        run_id=run.id,
        step_index=stage.index,
        role=stage.role,
        iteration=stage.iteration,
        status=_status(finding),
        step_dir=layout.relative(stage.final),
        started_at=stage.started_at,
        ended_at=ended_at,
        summary=finding.message,
        agent=run.order.agent(stage.role).name,
        error_code=str(finding.error) if finding.error else None,
        before_commit=run.head,
        after_commit=after.commit,
        tree=after.tree,
        sandbox_tier=confinement.tier(run),
        digest=None,
    )


def _look(run: Run, stage: Stage, finding: Finding) -> dict[str, object] | None:
    """Return what the run remembers of protected files that a PASS changed."""
    if finding.look is None:
        return None
    where = run.tools.layout.relative(stage.final)
    is_refused = finding.verdict == "FAIL"
    return memory.remembered_look(finding.look, run.tree, where, is_refused=is_refused)


def _kv(
    run: Run, stage: Stage, finding: Finding, spent: Spent, decision: Decision
) -> dict[str, object]:
    kv: dict[str, object] = {"spent": structs.asdict(spent)}
    if finding.verdict:
        kv["failing"] = list(finding.failing)
        kv["refuted"] = list(finding.refuted)
        kv["last_check"] = {"tree": run.tree, "failing": list(finding.failing)}
        kv[memory.PROTECTED] = _look(run, stage, finding)
    if run.given and not finding.error:
        kv["letters_given"] = run.given
    if decision.reason:
        kv["reason_code"] = decision.reason
        kv["reason"] = decision.message
    if decision.over:
        kv["budget_needed"] = decision.over.needed
    return kv


def _masked(run: Run, kv: dict[str, object]) -> dict[str, object]:
    return {key: run.tools.mask.value(value) for key, value in kv.items()}


def _usage(run: Run, stage: Stage, result: AgentResult) -> UsageRow | None:
    if result.usage is None:
        return None
    return UsageRow(
        run_id=run.id,
        step_index=stage.index,
        agent=run.order.agent(stage.role).name,
        model=run.tools.mask.text(result.usage.model) if result.usage.model else None,
        input_tokens=result.usage.input_tokens,
        cached_tokens=result.usage.cached_tokens,
        output_tokens=result.usage.output_tokens,
        cost_usd=result.usage.cost_usd,
        seconds=round(stage.seconds(), 3),
    )


def _resume_at(result: AgentResult) -> dict[str, object]:
    """Return what a run remembers of when its usage limit is over."""
    if result.error != StepError.USAGE_LIMIT or result.resume_at is None:
        return {}
    return {RESUME_AT: utc(result.resume_at)}
