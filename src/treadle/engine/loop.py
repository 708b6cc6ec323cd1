"""Turn the wheel: plan, do, check, act, until the run is over."""

from treadle.contract.event import EventType
from treadle.contract.role import Role, follows
from treadle.engine import aftermath, budget, forecast, outcome, queue, step, surroundings
from treadle.engine.run import Run
from treadle.store.runs import RunRow, StepRow


def drive_run(run: Run) -> RunRow:
    """Take steps until the run has passed, failed or stopped; return its row."""
    role = "do" if run.order.script else next_role(run.tools.store.steps(run.id))
    while run.row.status == "running" and not _stopped_between_steps(run):
        step.take(run, role)
        role = follows(role)
    if queue.is_queued(run.row, run.kv):
        run.tools.store.release(run.id, run.row.claim_epoch)
        return run.row
    if run.tools.carrier is None:
        forecast.note(run)
    aftermath.settle(run)
    step.show(run, "ended", str(run.kv.get("reason", "")))
    return run.row


def next_role(steps: list[StepRow]) -> Role:
    """Return whose turn it is after these steps; a step that did not finish is repeated."""
    if not steps:
        return "plan"
    last = steps[-1]
    return last.role if last.status == "fail" else follows(last.role)


def _stopped_between_steps(run: Run) -> bool:
    if reason := run.tools.interrupted() or surroundings.stop_request(run):
        run.timeline.add(EventType.STOP_REQUESTED, reason)
        run.end("stopped", "interrupted", reason)
        return True
    if run.tools.yields():
        queue.give_back(run, "the worker drains")
        return True
    over = budget.exceeded(run.order.budgets, run.spent)
    if over is None:
        return False
    decision = outcome.over_budget(run, over)
    run.end("stopped", "budget_exceeded", decision.message, {"budget_needed": over.needed})
    return True
