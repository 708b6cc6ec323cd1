"""Write runs, their steps and events."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from treadle.ids import utc
from treadle.store import run_changes
from treadle.store.rows.run import Cursor, Event, RunRow
from treadle.store.run_changes import History
from treadle.store.run_reader import RunReader
from treadle.store.writing import Writing


class RunStore(Writing, RunReader):
    """Read and write runs."""

    def insert_run(
        self, run: RunRow, events: Sequence[Event], kv: Mapping[str, object], lasting: bool = True
    ) -> None:
        """Begin a run; one whose folder is durable need not be `lasting` before its first step."""
        rows = run_changes.rows(run.run_id, History(events=events, kv=kv))
        self._write(lambda tx: run_changes.insert(tx, run, rows), lasting=lasting)

    def commit_step(
        self, history: History, cursor: Cursor, epoch: int, releases: bool = False
    ) -> None:
        """Commit a step with all that it brings, if `epoch` still owns the run.

        It `releases` a run that it ends and that nothing is left to do for.
        """
        self._advance(history.steps[0].run_id, history, cursor, epoch, releases)

    def record(
        self,
        run_id: str,
        events: Sequence[Event],
        cursor: Cursor,
        kv: Mapping[str, object],
        epoch: int,
    ) -> None:
        """Commit what happens between steps, if `epoch` still owns the run."""
        self._advance(run_id, History(events=events, kv=kv), cursor, epoch)

    def take_over(self, run_id: str, owner: str | None) -> int:
        """Give a run a new owner and return its epoch; every older one is fenced off."""
        return self._write(lambda tx: run_changes.take_over(tx, run_id, owner), alone=False)

    def release(self, run_id: str, epoch: int, owner: str | None = None) -> None:
        """Say that no process drives a run any more; `owner` has something left to do for it."""
        # Recovery does it again for an owner that is gone.
        self._write(lambda tx: run_changes.release(tx, run_id, epoch, owner), lasting=False)

    def request_stop(self, run_id: str, reason: str, now: datetime) -> None:
        """Ask a run's owner to stop, through the key `stop_requested`."""
        self.leave(run_id, run_changes.STOP_REQUESTED, {"reason": reason, "at": utc(now)})

    def leave(self, run_id: str, key: str, note: Mapping[str, object]) -> None:
        """Leave a note for a run's owner."""
        self._write(lambda tx: run_changes.leave(tx, run_id, key, note))

    def restore(self, run: RunRow, history: History) -> None:
        """Rebuild a run from its files; doing it twice changes nothing."""
        rows = run_changes.rows(run.run_id, history)
        self._write(lambda tx: run_changes.restore(tx, run, rows))

    def delete_run(self, run_id: str) -> bool:
        """Forget a run; False when there is none."""
        return self._write(lambda tx: run_changes.delete(tx, run_id))

    def _advance(
        self, run_id: str, history: History, cursor: Cursor, epoch: int, releases: bool = False
    ) -> None:
        rows = run_changes.rows(run_id, history)
        # The run's row is locked first, so whoever else wants this run waits.
        self._write(
            lambda tx: run_changes.advance(tx, run_id, cursor, epoch, rows, releases), alone=False
        )
