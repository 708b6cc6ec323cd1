"""Land a passed run without being asked, or offer it as a pull request; else ask a person."""

from treadle.engine import pull_request
from treadle.engine.landing import land
from treadle.engine.run import memory
from treadle.engine.run.run import Tools
from treadle.errors import BlockedError, GitError, TreadleError
from treadle.git import repo
from treadle.store.questions import LEAVE, Action
from treadle.store.runs import RunRow
from treadle.tasks import questions


def land_or_ask(tools: Tools, row: RunRow, mode: str | None = None) -> str | None:
    """Land a passed run as the configuration or `mode` says; a refusal goes to the desk."""
    wanted = tools.today.land
    mode = mode or (wanted.process if row.message_id else wanted.run)
    with tools.landing:
        known = memory.recall(tools.store, row.run_id)
        try:
            if not known.landed_commit:
                _land(tools, row, mode in ("branch", "pr") or not row.base_branch)
        except (BlockedError, GitError) as error:
            rebases = (Action("rebase"),) if f"treadle rebase {row.run_id}" in error.fix else ()
            _ask(tools, row, f"not landed: {error.message}", (*rebases, Action("land")), error)
            return error.message
        try:
            if mode == "pr" and not (known.landed_commit and known.pull):
                pull_request.propose_landed(tools, row)
        except (BlockedError, GitError) as error:
            _ask(tools, row, f"no pull request: {error.message}", (Action("pr"),), error)
    return None


def _land(tools: Tools, row: RunRow, aside: bool) -> None:
    found = land.land(tools, row, asked=False, branch=aside)
    if found.commit:
        here = repo.head(tools.repo).branch
        away = f", which is not checked out ({here or 'no branch'} is)"
        where = found.branch + (away if here != found.branch else "")
        tools.note(row.run_id, f"landed as {found.commit[:12]} on {where}")


def _ask(
    tools: Tools, row: RunRow, text: str, actions: tuple[Action, ...], error: TreadleError
) -> None:
    tools.note(row.run_id, text)
    question = questions.of_run(row, "refused_landing", text, (*actions, LEAVE), error.fix)
    questions.ask(tools.store, question, tools.now())
