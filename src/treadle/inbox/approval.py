"""Ask a human before an agent's message does more than usual, and before a chain goes on and on.

What an agent leaves in its outbox is a wish. What a routine of the user's own leaves there is the
user's word, as the routine is; only the limits of a chain hold for both.
"""

import hashlib
from collections.abc import Iterator

from treadle.config.schema import Config
from treadle.engine.run import Tools
from treadle.errors import FormatError
from treadle.inbox import routines
from treadle.inbox.attempt import Job
from treadle.store.reader import Reader
from treadle.store.rows.message import MessageRow
from treadle.tasks import markdown, questions
from treadle.tasks.questions import Question

_APPROVE = "approve"
_MOST = 5
_LONGEST = 200


def open_question(tools: Tools, config: Config, job: Job) -> str | None:
    """Return what a human must answer before this is carried out; FormatError if it was a no."""
    row = job.known.row
    if row.parent is None or row.run_ids:
        return None
    for summary in (*_wishes(tools, config, job), *_limits(tools.store, config, row)):
        found = questions.newest(tools.store, summary)
        if found and found.answer == _APPROVE:
            continue
        if found is None or (found.answered_at and found.answered_at < row.updated_at):
            _ask(tools, job, summary)  # for the first time, or because it was tried again
            return summary
        if found.answered_at is None:
            return summary
        raise FormatError(f"{found.answered_by} answered: {found.answer}", code="not_approved")
    return None


def _ask(tools: Tools, job: Job, summary: str) -> None:
    fix = (f"cat '{tools.layout.inbox / job.known.message.place.name}'", "treadle process")
    question = Question("approval", summary, options=(_APPROVE, "drop it"), fix=fix)
    questions.ask(tools.store, question, tools.now())


def _wishes(tools: Tools, config: Config, job: Job) -> Iterator[str]:
    """Yield what an agent's message would run that the user has not named."""
    row, selected = job.known.row, job.selected.routine.name
    if not _is_agents(tools, config, row):
        return
    commands = [item.verify for item in markdown.criteria(job.text) if item.verify]
    wishes = [f"the command `{command[:_LONGEST]}`" for command in commands[:_MOST]]
    if len(commands) > _MOST:
        wishes.append(f"{len(commands) - _MOST} more commands")
    if selected != config.default_routine:
        wishes.append(f"the routine {selected}")
    if wishes:
        digest = hashlib.sha256(job.text.encode()).hexdigest()[:12]
        yield f"{row.message_id}, sent by an agent, would run {', '.join(wishes)} ({digest})"


def _is_agents(tools: Tools, config: Config, row: MessageRow) -> bool:
    """Tell whether the message was sent by an agent, and not by a routine of the user's own."""
    parent = tools.store.message(row.parent or "")
    known = routines.discover(tools.layout, config.notebook_support)
    found = known.get(parent.routine) if parent and parent.routine else None
    return found is None or found.kind == "builtin"


def _limits(store: Reader, config: Config, row: MessageRow) -> Iterator[str]:
    """Yield what asks whether the chain may go on, at every multiple of a limit."""
    limits = config.chain
    if limits.max_messages is not None:
        begun = sum(bool(item.run_ids) for item in store.chain_messages(row.chain))
        if times := begun // limits.max_messages:
            count = times * limits.max_messages
            yield f"chain {row.chain} has carried out {count} messages (chain.max_messages)"
    if limits.max_cost_usd is not None:
        times = int(_cost(store, row.chain) // limits.max_cost_usd)
        if times:
            yield (
                f"chain {row.chain} has cost {times * limits.max_cost_usd:g} USD or more"
                " (chain.max_cost_usd)"
            )


def _cost(store: Reader, chain: str) -> float:
    spent = (store.kv_value(run.run_id, "spent") for run in store.chain_runs(chain))
    return sum(float(item.get("cost_usd", 0)) for item in spent if isinstance(item, dict))
