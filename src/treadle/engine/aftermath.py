"""What a run's end means outside it: its task's lane, and a question where a human must decide."""

import time

from treadle.engine import budget, letters, protection
from treadle.engine.explain import next_commands
from treadle.engine.lock import MAIL
from treadle.engine.manifest import Manifest
from treadle.engine.run import Run
from treadle.engine.stage import OUTBOX
from treadle.tasks import claim, questions
from treadle.tasks.questions import Kind, Question

_RENEW_EVERY = 300.0
# A person's own signal or `stop` needs no question back to that person.
_NO = "leave it"
_WAYS_ON = {"approval": "approve"}
_KINDS: dict[str, Kind] = {"budget_exceeded": "budget", "no_progress": "failed_run"}
_KINDS[protection.WAITS] = "approval"
# What stops a worker and only a person can mend.
_KINDS |= dict.fromkeys(
    ("push_refused", "push_stale", "remote_failed", "artifacts_failed", "archive_missing"),
    "failed_run",
)


def is_nothing(run: Run, found: Manifest) -> bool:
    """Tell whether a step ends its run and all there is to do for it: no task, branch or letter."""
    return (
        found.cursor.status == "passed"
        and run.order.task_id is None
        and run.row.branch is None
        and not any(name.startswith(f"{OUTBOX}/") for name in found.files)
    )


def settle(run: Run) -> None:
    """Tell the task and the desk; doing it twice changes nothing."""
    if run.is_settled:
        return
    store, now = run.tools.store, run.tools.now()
    if run.order.task_id:
        claim.finish_run(store, run.order.task_id, run.id, run.row.status, now)
    if question := _question(run):
        questions.ask(store, question, now)
    letters.tell_end(run)
    store.release(run.id, run.row.claim_epoch, MAIL if letters.are_untold(run) else None)


def keep_claim(run: Run) -> None:
    """Renew the lease on the run's task while a long step works."""
    if run.order.task_id and time.monotonic() - run.claimed_at > _RENEW_EVERY:
        run.claimed_at = time.monotonic()
        claim.renew_run(run.tools.store, run.order.task_id, run.id, run.tools.now())


def _question(run: Run) -> Question | None:
    kind = _kind(run)
    if kind is None or run.row.status == "passed":
        return None
    return Question(
        kind=kind,
        summary=f"{run.order.goal}: {run.kv.get('reason')}",
        options=(_WAYS_ON.get(kind, "resume" if run.row.status == "stopped" else "again"), _NO),
        fix=next_commands(run.row, run.kv),
        run_id=run.id,
        task_id=run.order.task_id,
    )


def _kind(run: Run) -> Kind | None:
    if run.row.status == "failed":
        return "failed_run"
    is_risky = str(run.kv.get("budget_needed")).startswith(f"{budget.RISKY}=")
    return "approval" if is_risky else _KINDS.get(str(run.kv.get("reason_code")))
