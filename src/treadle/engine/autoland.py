"""Land a passed run without being asked, or offer it as a pull request; else ask a person."""

from treadle.engine import pull_request
from treadle.engine.landing import land
from treadle.engine.run import memory
from treadle.engine.run.run import Tools
from treadle.errors import BlockedError, GitError, TreadleError
from treadle.git import repo
from treadle.store.questions import LEAVE, Action, Subject
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
            subject, ways = _ways_on(tools, row, error)
            _ask(tools, row, f"not landed: {error.message}", ways, error, subject)
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


def _ways_on(tools: Tools, row: RunRow, error: TreadleError) -> tuple[Subject, tuple[Action, ...]]:
    """Return what goes on with work that could not land; a script does it anew after a conflict."""
    run, found = Subject("run", row.run_id), tools.store.message(row.message_id or "")
    if f"treadle rebase {row.run_id}" in error.fix:
        return run, (Action("rebase"), Action("land"))
    if error.code != "merge_conflict" or found is None:
        return run, (Action("land"),)
    if found.spec:
        return Subject("spec", found.spec), (Action("again"),)
    return Subject("message", found.message_id), (Action("retry"),)


def _ask(
    tools: Tools,
    row: RunRow,
    text: str,
    actions: tuple[Action, ...],
    error: TreadleError,
    subject: Subject | None = None,
) -> None:
    tools.note(row.run_id, text)
    asked = questions.of_run(row, "refused_landing", text, (*actions, LEAVE), error.fix)
    questions.ask(tools.store, asked._replace(subject=subject or asked.subject), tools.now())
