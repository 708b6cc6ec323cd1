"""How messages ended in a pass: what the user is told of it, and the exit code."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from treadle.engine.run import memory
from treadle.engine.show import ends
from treadle.engine.show.ends import FailedCommand
from treadle.errors import ExitCode, argument
from treadle.inbox import specs
from treadle.inbox.known import InboxView
from treadle.inbox.spec_choice import decide_spec, look_at_question
from treadle.inbox.specs import NotTaken
from treadle.store.messages import MessageRow
from treadle.store.runs import RunRow

Status = Literal[
    "done", "waiting", "dead", "stopped", "refused", "held", "duplicate", "interrupted", "queued",
    "spent", "down",
]  # fmt: skip
_CODES = {
    "done": ExitCode.DONE,
    "duplicate": ExitCode.DONE,
    "waiting": ExitCode.DONE,
    "queued": ExitCode.DONE,
    "dead": ExitCode.FAILED,
    "refused": ExitCode.BLOCKED,
    "held": ExitCode.BLOCKED,
    "down": ExitCode.BLOCKED,
    "stopped": ExitCode.BUDGET,
    "spent": ExitCode.BUDGET,
    "interrupted": ExitCode.TERMINATED,
}


class Outcome(NamedTuple):
    """How one message, or a spec that was not taken, ended, and the files that follow from it.

    `fix` is the command that goes on with it.
    """

    name: str
    status: Status
    reason: str = ""
    row: MessageRow | None = None
    followups: Sequence[Path] = ()
    fix: str | None = None
    failed: tuple[FailedCommand, ...] = ()

    @property
    def is_dropped(self) -> bool:
        """Tell whether it is not carried out because a human said so."""
        return bool(self.row and self.row.reason == "not_approved")


class Summary(NamedTuple):
    """Everything that a pass did, and the signal that ended it, if one did."""

    outcomes: tuple[Outcome, ...]
    interrupted: str | None = None
    failed_hook: str | None = None
    not_taken: tuple[NotTaken, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """Return the worst of all exit codes; a signal is worse than any of them."""
        if self.interrupted:
            is_int = "SIGINT" in self.interrupted
            return ExitCode.INTERRUPTED if is_int else ExitCode.TERMINATED
        left = [item for item in self.outcomes if not item.is_dropped]
        codes = [_CODES[item.status] for item in left]
        return max([*codes, ExitCode.FAILED if self.failed_hook else ExitCode.DONE])


def explained(view: InboxView, item: Outcome) -> Outcome:
    """Add what a person wants to know of a message that is not done, or has not landed."""
    row = item.row
    if item.status in ("done", "duplicate"):
        last = row.run_ids[-1] if row and row.run_ids and item.status == "done" else None
        return item._replace(fix=ends.landing_command(view.store, last))
    run = view.store.run(row.run_ids[-1]) if row and row.run_ids else None
    failed = ends.failed_commands(view.layout, view.store, run) if run else ()
    return item._replace(fix=item.fix or _next_command(view, item, run), failed=failed)


def _next_command(view: InboxView, item: Outcome, run: RunRow | None) -> str | None:
    """Return the command that goes on with a message that is not done."""
    row = item.row
    if row and row.spec in specs.names(view.layout):
        return decide_spec(view, row.spec).fix
    if item.status == "dead":
        return f"treadle dead retry {argument(row.message_id if row else item.name)}"
    if run and item.status in ("stopped", "refused"):
        known = memory.recall(view.store, run.run_id)
        return look_at_question(view, run.run_id) or memory.next_commands(run, known)[-1]
    about = (row.message_id, row.chain) if row and item.status == "held" else ()
    asked = [look for it in about if (look := look_at_question(view, it))]
    return asked[0] if asked else "treadle process"
