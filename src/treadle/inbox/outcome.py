"""What became of messages in one pass."""

from typing import Literal, NamedTuple

from treadle.errors import ExitCode

Status = Literal["done", "dead", "stopped", "refused", "held", "duplicate", "interrupted", "queued"]

_CODES = {
    "done": ExitCode.DONE,
    "duplicate": ExitCode.DONE,
    "queued": ExitCode.DONE,
    "dead": ExitCode.FAILED,
    "refused": ExitCode.BLOCKED,
    "held": ExitCode.BLOCKED,
    "stopped": ExitCode.BUDGET,
    "interrupted": ExitCode.TERMINATED,
}


class Outcome(NamedTuple):
    """How one message, or a spec that was not taken, ended."""

    name: str
    status: Status
    reason: str = ""
    message_id: str | None = None
    routine: str | None = None
    run_ids: tuple[str, ...] = ()

    @property
    def run_id(self) -> str | None:
        """Return the last run."""
        return self.run_ids[-1] if self.run_ids else None


class Summary(NamedTuple):
    """Everything that a pass did, and the signal that ended it, if one did."""

    outcomes: tuple[Outcome, ...]
    interrupted: str | None = None
    failed_hook: str | None = None

    @property
    def exit_code(self) -> ExitCode:
        """Return the worst of all exit codes; a signal is worse than any of them."""
        if self.interrupted:
            is_int = "SIGINT" in self.interrupted
            return ExitCode.INTERRUPTED if is_int else ExitCode.TERMINATED
        codes = [_CODES[item.status] for item in self.outcomes if item.status in _CODES]
        return max([*codes, ExitCode.FAILED if self.failed_hook else ExitCode.DONE])
