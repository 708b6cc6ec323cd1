"""Land passed runs without being asked, where the configuration says so."""

from treadle.config.schema import Config
from treadle.engine import land, whereabouts
from treadle.engine.run import Tools
from treadle.errors import BlockedError, GitError, TreadleError
from treadle.store.runs import RunRow
from treadle.tasks import questions
from treadle.tasks.questions import Question


def settle(tools: Tools, config: Config, row: RunRow) -> RunRow:
    """Land a passed run; a refusal goes to the desk and holds up nothing."""
    if config.land.run == "auto" and row.status == "passed":
        bring(tools, row)
    return row


def bring(tools: Tools, row: RunRow) -> str | None:
    """Land a passed run; a refusal goes to the desk and is returned."""
    with tools.landing:
        return _land(tools, row)


def waits(tools: Tools, row: RunRow) -> bool:
    """Tell whether a passed run should have landed and could not."""
    kv = tools.store.kv(row.run_id)
    return row.status == "passed" and not whereabouts.now(kv) and "land_refused" in kv


def _land(tools: Tools, row: RunRow) -> str | None:
    if whereabouts.now(tools.store.kv(row.run_id)):
        return None
    try:
        found = land.land(tools, row)
    except (BlockedError, GitError) as error:
        tools.note(row.run_id, f"not landed: {error.message}")
        questions.ask(tools.store, _question(row, error), tools.now())
        return error.message
    if found.commit:
        tools.note(row.run_id, f"landed as {found.commit[:12]} on {found.branch}")
    return None


def _question(row: RunRow, error: TreadleError) -> Question:
    return Question(
        kind="refused_landing",
        summary=f"{row.goal}: not landed: {error.message}",
        options=("land", "leave it"),
        fix=(*error.fix, f"treadle land {row.run_id}"),
        run_id=row.run_id,
        task_id=row.task_id,
    )
