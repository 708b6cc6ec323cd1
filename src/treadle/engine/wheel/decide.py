"""Decide what a step means for its run, and write it down for the commit."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from treadle.agents import table
from treadle.agents.backend import AgentResult, AgentUsage, Usage
from treadle.contract import RunStatus, StepStatus
from treadle.contract.events import EventType, NewEvent, StepError
from treadle.engine.run import ceiling, confinement, days, memory, outage
from treadle.engine.run.memory import CheckSeen, ProtectedChange, RunMemory, Spent
from treadle.engine.run.order import Exceeded, Order, exceeded_budget
from treadle.engine.run.run import ENDS, Run
from treadle.engine.run.run_files import Manifest, Snapshot
from treadle.engine.run.step_folder import Stage
from treadle.engine.wheel.judge import Finding
from treadle.ids import utc
from treadle.store.runs import CheckRow, Event, StepRow
from treadle.text import name_some

# What ends a step without being the agent's fault: the run can go on later.
_STOPS = (
    *(StepError.INTERRUPTED, StepError.USAGE_LIMIT),
    *(StepError.BUDGET_EXCEEDED, StepError.CHECK_BROKEN),
)
_SPENDS = (StepError.TIMEOUT, StepError.OUTPUT_LIMIT)
# What befalls a tool rather than follows from its work; the same step may well succeed later.
_BEFALLS = (
    *(StepError.TIMEOUT, StepError.IDLE_TIMEOUT, StepError.NETWORK, StepError.RATE_LIMIT),
    *(StepError.SERVER_ERROR, StepError.AUTH_FAILED, StepError.AGENT_EXIT),
    *(StepError.AGENT_LOST, StepError.AGENT_MISSING, StepError.TOOL_MISMATCH),
)


class Standing(NamedTuple):
    """Where a run stands when a step is over: all that a decision depends on beside the step."""

    iteration: int
    tree: str
    spent: Spent
    last_check: CheckSeen | None = None
    by_tool: bool = False  # whether the step was a tool's, which is asked in words
    day: Exceeded | None = None  # the limit over all runs that is reached with it


class Decision(NamedTuple):
    """Whether the run goes on after this step, and if not, why."""

    status: RunStatus
    reason: str = ""
    message: str = ""
    over: Exceeded | None = None
    happened: tuple[NewEvent, ...] = ()  # what the timeline is told beside the end itself


GO_ON = Decision("running")


def decide(order: Order, finding: Finding, now: Standing) -> Decision:
    """Return what a step means for its run; nothing is read or written here."""
    if finding.error:
        return _after_failure(order, finding, now)
    if finding.held:
        return Decision(
            "stopped", memory.PLAN_WAITS, f"the plan waits for your approval: {finding.held.file}"
        )
    if order.script:
        return Decision("passed", "passed", "the routine finished")
    if finding.verdict == "PASS":
        return _after_pass(order, finding)
    return _after_fail(order, finding, now) if finding.verdict == "FAIL" else GO_ON


def decide_between(order: Order, spent: Spent, stop: str | None) -> Decision:
    """Return whether another step may begin: somebody may want to stop, or a budget be spent."""
    if stop:
        asked = NewEvent(EventType.STOP_REQUESTED, stop)
        return Decision("stopped", "interrupted", stop, happened=(asked,))
    over = exceeded_budget(order.budgets, spent)
    return _over_budget(over) if over else GO_ON


def _after_pass(order: Order, finding: Finding) -> Decision:
    """Let a run pass, unless it hangs on protected files that the run itself changed."""
    look = finding.look
    if finding.already_true:
        return Decision("passed", memory.ALREADY_TRUE, finding.message)
    if look and look.failing and order.checks.protect_mode == "ask":
        names = name_some(look.files)
        text = f"the run changed what decides its checks ({names}): {look.sentence}"
        return Decision("stopped", memory.WAITS_FOR_APPROVAL, text)
    return Decision("passed", "passed", "every criterion passed")


def _after_failure(order: Order, finding: Finding, now: Standing) -> Decision:
    if finding.unread and finding.after and len(order.commands) == len(order.criteria):
        return GO_ON  # the commands judge the work, whatever was said of it
    over = exceeded_budget(order.budgets, now.spent)
    is_spent = finding.error == StepError.BUDGET_EXCEEDED and not finding.held
    if over and (is_spent or finding.error in _SPENDS):
        return _over_budget(over)
    if is_spent and now.day:
        return _over_budget(now.day)._replace(reason=memory.NIGHT_LIMIT)
    if finding.error in _STOPS:
        return Decision("stopped", str(finding.error), finding.message)
    status: RunStatus = "stopped" if now.by_tool and finding.error in _BEFALLS else "failed"
    return Decision(status, str(finding.error), finding.message)


def _after_fail(order: Order, finding: Finding, now: Standing) -> Decision:
    limit = order.budgets.max_iterations
    if now.iteration >= limit:
        return _over_budget(Exceeded("max_iterations", limit, now.iteration))
    if now.last_check == CheckSeen(now.tree, finding.failing):
        text = "two checks in a row saw the same tree and the same failing criteria"
        event = NewEvent(EventType.NO_PROGRESS, text, {"failing": list(finding.failing)})
        return Decision("stopped", "no_progress", text, happened=(event,))
    return GO_ON


def _over_budget(over: Exceeded) -> Decision:
    event = NewEvent(EventType.BUDGET_EXCEEDED, over.sentence, over._asdict())
    return Decision("stopped", "budget_exceeded", over.sentence, over, (event,))


class Turn(NamedTuple):
    """All that a step came to, before anybody decides what it means."""

    stage: Stage
    result: AgentResult
    finding: Finding
    checks: tuple[CheckRow, ...]
    events: tuple[Event, ...]  # of its parts
    letters_given: Mapping[str, int]
    used: Sequence[AgentUsage] = ()


def manifest(run: Run, turn: Turn) -> Manifest:
    """Return everything the store must learn from this step; its files' digests come later."""
    stage, finding = turn.stage, turn.finding
    spent = spent_after(run, stage, turn.result)
    by_tool = table.is_prompted(run.order.agent(stage.role).config)
    day = ceiling.exceeded_day(run, turn.result.usage or Usage()) if finding.error else None
    standing = Standing(stage.iteration, run.tree, spent, run.memory.last_check, by_tool, day)
    decision = decide(run.order, finding, standing)
    here, ended_at = Snapshot(run.head, run.tree), utc(run.tools.now())
    after, is_over = finding.after or here, decision.status != "running"
    learnt = memory.changes(run.memory, _remembered(run, turn, spent, decision))
    return Manifest(
        row=_row(run, turn, after, ended_at),
        events=(*turn.events, *run.events(_told(turn, decision), turn.events)),
        cursor=run.cursor(
            status=decision.status,
            iteration=stage.iteration + (stage.role == "act" and not is_over),
            current_step_index=stage.index,
            verdict=finding.verdict or run.row.verdict,
            head_commit=after.commit,
            ended_at=ended_at if is_over else None,
        ),
        kv={key: run.tools.mask.value(value) for key, value in learnt.items()},
        before=here,
        after=after,
        usage=ceiling.usage_rows(run, stage, turn.used),
        checks=turn.checks,
    )


def spent_after(run: Run, stage: Stage, result: AgentResult) -> Spent:
    """Return what a run has used with a step that ended so."""
    spent, usage = run.spent, result.usage or Usage()
    return Spent(
        minutes=spent.minutes + stage.seconds() / 60,
        tokens=spent.tokens + usage.input_tokens + usage.output_tokens,
        cost_usd=spent.cost_usd + usage.cost_usd,
        output_mb=spent.output_mb + result.output_bytes / 2**20,
    )


def _told(turn: Turn, decision: Decision) -> Iterator[NewEvent]:
    """Tell the timeline how the step ended, and the run, if it is over."""
    stage, finding, source = turn.stage, turn.finding, turn.result.json_source
    where: dict[str, object] = {
        "index": stage.index,
        "role": stage.role,
        "iteration": stage.iteration,
    }
    if finding.error:
        failed = {"code": str(finding.error), **where}
        yield NewEvent(EventType.STEP_FAILED, finding.message, failed)
    known = {"status": _status(finding), **where} | ({"json_source": source} if source else {})
    yield NewEvent(EventType.STEP_COMMITTED, finding.message, known)
    yield from decision.happened
    if decision.status in ENDS:
        reason = {"reason_code": decision.reason}
        yield NewEvent(ENDS[decision.status], decision.message, reason)


def _status(finding: Finding) -> StepStatus:
    if finding.error:
        return "fail"
    return "skipped" if finding.skipped else "ok"


def _row(run: Run, turn: Turn, after: Snapshot, ended_at: str) -> StepRow:
    stage, finding = turn.stage, turn.finding
    return StepRow(
        run_id=run.id,
        step_index=stage.index,
        role=stage.role,
        iteration=stage.iteration,
        status=_status(finding),
        step_dir=run.tools.layout.relative(stage.final),
        started_at=stage.started_at,
        ended_at=ended_at,
        summary=finding.message,
        agent=run.order.agent(stage.role).name,
        error_code=str(finding.error) if finding.error else None,
        before_commit=run.head,
        after_commit=after.commit,
        tree=after.tree,
        sandbox_tier=confinement.tier(run),
    )


def _remembered(run: Run, turn: Turn, spent: Spent, decision: Decision) -> RunMemory:
    """Return what the run remembers from now on."""
    finding, result = turn.finding, turn.result
    found = run.memory._replace(spent=spent, held=finding.held)
    if finding.verdict:
        found = found._replace(
            failing=finding.failing,
            refuted=finding.refuted,
            last_check=CheckSeen(run.tree, finding.failing),
            protected=_protected(run, turn),
        )
    if not finding.error or decision is GO_ON:
        found = found._replace(letters_given=turn.letters_given, ahead=found.ahead[1:])
    if decision.reason:
        found = found._replace(reason_code=decision.reason, reason=decision.message)
    if result.error in outage.STOPS and result.resume_at:
        found = found._replace(resume_at=utc(result.resume_at))
    if decision.reason == memory.NIGHT_LIMIT:
        found = found._replace(resume_at=utc(days.day_end(run.tools.now())))
    return found._replace(budget_needed=decision.over.needed) if decision.over else found


def _protected(run: Run, turn: Turn) -> ProtectedChange | None:
    """Return what the run remembers of protected files that a PASS changed."""
    look = turn.finding.look
    if look is None:
        return None
    return ProtectedChange(
        files=look.files,
        failing=look.failing,
        sentence=look.sentence,
        tree=run.tree,
        diff=f"{run.tools.layout.relative(turn.stage.final)}/files/{memory.PROTECTED_DIFF}",
        refused=turn.finding.verdict == "FAIL",
    )
