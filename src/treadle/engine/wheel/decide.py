"""Decide what a step means for its run, and write it down for the commit."""

from dataclasses import dataclass
from typing import NamedTuple

from treadle.agents.backend import AgentResult
from treadle.contract import EventType, RunStatus, StepError, StepStatus
from treadle.engine.run import confinement, memory
from treadle.engine.run import order as run_order
from treadle.engine.run.memory import CheckSeen, ProtectedChange, RunMemory, Spent
from treadle.engine.run.order import Exceeded, Order
from treadle.engine.run.run import ENDS, Run, name_some
from treadle.engine.run.run_files import Manifest, Snapshot
from treadle.engine.run.step_folder import Stage
from treadle.engine.wheel.judge import Finding
from treadle.ids import utc
from treadle.store.runs import CheckRow, StepRow, UsageRow

# What ends a step without being the agent's fault: the run can go on later.
_STOPS = (StepError.INTERRUPTED, StepError.USAGE_LIMIT, StepError.BUDGET_EXCEEDED)
_SPENDS = (StepError.TIMEOUT, StepError.OUTPUT_LIMIT)


class Standing(NamedTuple):
    """Where a run stands when a step is over: all that a decision depends on beside the step."""

    iteration: int
    tree: str
    spent: Spent
    last_check: CheckSeen | None = None


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Whether the run goes on after this step, and if not, why."""

    status: RunStatus
    reason: str | None = None
    message: str = ""
    over: Exceeded | None = None
    event: EventType | None = None  # what the timeline is told beside the end itself


GO_ON = Decision(status="running")


def decide(order: Order, finding: Finding, now: Standing) -> Decision:
    """Return what a step means for its run; nothing is read or written here."""
    if finding.error:
        return _after_failure(order, finding, now.spent)
    if order.script:
        return Decision(status="passed", reason="passed", message="the routine finished")
    if finding.verdict == "PASS":
        return _after_pass(order, finding)
    return _after_fail(order, finding, now) if finding.verdict == "FAIL" else GO_ON


def decide_between(order: Order, spent: Spent, stop: str | None) -> Decision:
    """Return whether another step may begin: somebody may want to stop, or a budget be spent."""
    if stop:
        return Decision(
            status="stopped", reason="interrupted", message=stop, event=EventType.STOP_REQUESTED
        )
    over = run_order.exceeded_budget(order.budgets, spent)
    return _over_budget(over) if over else GO_ON


def _after_pass(order: Order, finding: Finding) -> Decision:
    """Let a run pass, unless it hangs on protected files that the run itself changed."""
    look = finding.look
    if look and look.failing and order.checks.protect_mode == "ask":
        names = name_some(look.files)
        text = f"the run changed what decides its checks ({names}): {look.sentence}"
        return Decision(status="stopped", reason=memory.WAITS_FOR_APPROVAL, message=text)
    return Decision(status="passed", reason="passed", message="every criterion passed")


def _after_failure(order: Order, finding: Finding, spent: Spent) -> Decision:
    if finding.error in _STOPS:
        reason, over = str(finding.error), finding.over
        return Decision(status="stopped", reason=reason, message=finding.message, over=over)
    over = run_order.exceeded_budget(order.budgets, spent)
    if over and finding.error in _SPENDS:
        return _over_budget(over)
    return Decision(status="failed", reason=str(finding.error), message=finding.message)


def _after_fail(order: Order, finding: Finding, now: Standing) -> Decision:
    limit = order.budgets.max_iterations
    if now.iteration >= limit:
        return _over_budget(Exceeded(key="max_iterations", limit=limit, used=now.iteration))
    if now.last_check == CheckSeen(now.tree, finding.failing):
        text = "two checks in a row saw the same tree and the same failing criteria"
        event = EventType.NO_PROGRESS
        return Decision(status="stopped", reason="no_progress", message=text, event=event)
    return GO_ON


def _over_budget(over: Exceeded) -> Decision:
    return Decision(
        status="stopped",
        reason="budget_exceeded",
        message=over.sentence,
        over=over,
        event=EventType.BUDGET_EXCEEDED,
    )


def note_end(run: Run, decision: Decision, failing: tuple[str, ...] = ()) -> None:
    """Tell the timeline how a run ends, and what made it."""
    over = decision.over
    if decision.event is EventType.NO_PROGRESS:
        run.timeline.add(decision.event, decision.message, failing=list(failing))
    elif decision.event is EventType.BUDGET_EXCEEDED and over:
        data = {"key": over.key, "limit": over.limit, "used": over.used}
        run.timeline.add(decision.event, decision.message, **data)
    elif decision.event:
        run.timeline.add(decision.event, decision.message)
    if decision.status in ENDS:
        run.timeline.add(ENDS[decision.status], decision.message, reason_code=decision.reason)


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
    standing = Standing(stage.iteration, run.tree, spent, run.memory.last_check)
    decision = decide(run.order, finding, standing)
    note_end(run, decision, finding.failing)
    ended_at = utc(run.tools.now())
    cursor = run.cursor(
        status=decision.status,
        iteration=stage.iteration + (stage.role == "act" and decision.status == "running"),
        current_step_index=stage.index,
        verdict=finding.verdict or run.row.verdict,
        head_commit=after.commit,
        ended_at=None if decision.status == "running" else ended_at,
    )
    learnt = memory.changes(run.memory, _remembered(run, stage, finding, spent, decision))
    if result.error == StepError.USAGE_LIMIT and result.resume_at:
        learnt["resume_at"] = utc(result.resume_at)
    return Manifest(
        row=_row(run, stage, finding, after, ended_at),
        events=run.timeline.take(),
        cursor=cursor,
        kv={key: run.tools.mask.value(value) for key, value in learnt.items()},
        before=Snapshot(run.head, run.tree),
        after=after,
        usage=_usage(run, stage, result),
        checks=rows,
        files={},
    )


def _spent_after(run: Run, stage: Stage, result: AgentResult) -> Spent:
    usage = result.usage
    return run_order.add_spent(
        run.spent,
        seconds=stage.seconds(),
        tokens=usage.input_tokens + usage.output_tokens if usage else 0,
        cost_usd=usage.cost_usd if usage else 0.0,
        output_bytes=result.output_bytes,
    )


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


def _remembered(
    run: Run, stage: Stage, finding: Finding, spent: Spent, decision: Decision
) -> RunMemory:
    """Return what the run remembers from now on."""
    found = run.memory._replace(spent=spent)
    if finding.verdict:
        found = found._replace(
            failing=finding.failing,
            refuted=finding.refuted,
            last_check=CheckSeen(run.tree, finding.failing),
            protected=_protected(run, stage, finding),
        )
    if run.given and not finding.error:
        found = found._replace(letters_given=run.given)
    if decision.reason:
        found = found._replace(reason_code=decision.reason, reason=decision.message)
    return found._replace(budget_needed=decision.over.needed) if decision.over else found


def _protected(run: Run, stage: Stage, finding: Finding) -> ProtectedChange | None:
    """Return what the run remembers of protected files that a PASS changed."""
    if finding.look is None:
        return None
    return ProtectedChange(
        files=finding.look.files,
        failing=finding.look.failing,
        sentence=finding.look.sentence,
        tree=run.tree,
        diff=f"{run.tools.layout.relative(stage.final)}/files/{memory.PROTECTED_DIFF}",
        refused=finding.verdict == "FAIL",
    )


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
