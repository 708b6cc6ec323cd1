"""Let a passed run go on: a person wants its change otherwise, or its checks elsewhere are red."""

from collections.abc import Sequence

from treadle.agents import table
from treadle.contract.events import EventType, NewEvent
from treadle.engine.landing import land
from treadle.engine.run import comments, resume
from treadle.engine.run.comments import Comment
from treadle.engine.run.memory import RunMemory
from treadle.engine.run.run import Run, Tools
from treadle.errors import BlockedError
from treadle.git import refs
from treadle.store.runs import RunRow
from treadle.tasks import claim, questions
from treadle.text import plural

_SENT_BACK = "sent_back"  # the reason of a run that passed before a person wanted more


def send_back(tools: Tools, row: RunRow, said: Sequence[Comment]) -> RunMemory:
    """Open a passed run again for its next act step, which reads the comments."""
    with land.taken(tools, row, resume.take_up) as run:
        land.require_not_landed(run)
        why = f"sent back with {plural(len(said), 'comment')}"
        known = reopen(run, _SENT_BACK, why, NewEvent(EventType.REJECTED, why))
        for comment in said:
            comments.leave(tools.store, run.folder, row, comment)
        return known


def reopen(run: Run, code: str, why: str, event: NewEvent) -> RunMemory:
    """Stop a run that had passed where its next step is act, with its branch where it left it."""
    _require_passed(run)
    tools, row = run.tools, run.row
    if row.branch and refs.resolve(tools.repo, row.branch) is None:
        refs.create(tools.repo, row.branch, run.head)
    questions.settle(tools.store, run.id, code, tools.now())
    if row.task_id:
        claim.take_back(tools.store, row.task_id, run.id, tools.now())
    known = run.memory._replace(
        ahead=("act" if table.can_change(run.order.agent("act").config, "act") else "do", "check"),
        reason_code=code,
        reason=why,
        landed=run.memory.landed if run.memory.undone else None,
        land_refused=None,
        protected=None,
        last_check=None,
        set_up=False,
    )
    run.record(event, cursor=run.cursor(status="stopped", verdict=None), **known._asdict())
    return known


def _require_passed(run: Run) -> None:
    if run.row.status == "passed" and run.order.script is None:
        return
    what = "is a script's" if run.order.script else f"has {run.row.status}"
    text = f"run {run.id} {what}: only the passed run of an agent is sent back"
    raise BlockedError(text, code="not_passed", fix=[f"treadle why {run.id}"])
