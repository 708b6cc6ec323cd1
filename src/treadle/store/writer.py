"""Write the store: every method is one durable transaction."""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Self, TypeVar

from treadle.ids import utc
from treadle.layout import Layout, MailLayout
from treadle.store import address, codec, opening, run_changes, task_changes
from treadle.store.backend import Connection, Database
from treadle.store.group import Group
from treadle.store.inbox import InboxWrites
from treadle.store.reader import Reader
from treadle.store.records import (
    CheckRow,
    Cursor,
    Event,
    MissionStepRow,
    MoveRow,
    QuestionRow,
    RunRow,
    StepRow,
    TaskRow,
    UsageRow,
)
from treadle.store.run_changes import History
from treadle.store.transaction import Transactions

T = TypeVar("T")

NO_MAIL = MailLayout(Path(os.devnull))


class Store(Reader, InboxWrites):
    """Read and write the store; many threads may share one."""

    def __init__(
        self,
        connection: Connection,
        database: Database,
        transactions: Transactions,
        mail: MailLayout,
    ) -> None:
        super().__init__(connection, database)
        self.journal_mode = transactions.mode
        self.mail = mail
        self._transactions = transactions
        self._group = Group(transactions.commit)
        self._turn = Lock()

    @classmethod
    def open(cls, layout: Layout, env: Mapping[str, str] = os.environ) -> Self:
        """Open the project's store, made or brought up to date if need be."""
        return cls.at(address.find(layout, env), layout.mail)

    @classmethod
    def at(cls, database: Database, mail: MailLayout = NO_MAIL) -> Self:
        """Open a store that may belong to no folder here, and then has no letters."""
        reading, writer = opening.open_both(database)
        return cls(reading, database, Transactions(writer, database), mail)

    def close(self) -> None:
        """Close both connections and the lock."""
        super().close()
        self._transactions.close()

    def insert_run(self, run: RunRow, events: Sequence[Event], kv: Mapping[str, object]) -> None:
        """Begin a run."""
        rows = run_changes.rows(run.run_id, History(events=events, kv=kv))
        self._write(lambda tx: run_changes.insert(tx, run, rows))

    def commit_step(
        self,
        step: StepRow,
        events: Sequence[Event],
        cursor: Cursor,
        kv: Mapping[str, object],
        usage: UsageRow | None,
        checks: Sequence[CheckRow],
        epoch: int,
    ) -> None:
        """Commit a step with all that it brings, if `epoch` still owns the run."""
        spent = (usage,) if usage else ()
        history = History((step,), events, kv, spent, checks)
        self._advance(step.run_id, history, cursor, epoch)

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
        return self._write(lambda tx: run_changes.take_over(tx, run_id, owner))

    def release(self, run_id: str, epoch: int) -> None:
        """Say that no process drives a run any more."""
        self._write(lambda tx: run_changes.release(tx, run_id, epoch))

    def request_stop(self, run_id: str, reason: str, now: datetime) -> None:
        """Ask a run's owner to stop, through the key `stop_requested`."""
        self._write(lambda tx: run_changes.request_stop(tx, run_id, reason, utc(now)))

    def restore(self, run: RunRow, history: History) -> None:
        """Rebuild a run from its files; doing it twice changes nothing."""
        rows = run_changes.rows(run.run_id, history)
        self._write(lambda tx: run_changes.restore(tx, run, rows))

    def delete_run(self, run_id: str) -> bool:
        """Forget a run; False when there is none."""
        return self._write(lambda tx: run_changes.delete(tx, run_id))

    def reserve_task_id(self) -> str:
        """Return a task id like `T-7` that nobody else will get."""
        return self._write(task_changes.reserve_id)

    def add_task(self, task: TaskRow) -> TaskRow | None:
        """Add a task at the end; an empty id gets the next free one, a taken one gives None."""
        return self._write(lambda tx: task_changes.add(tx, task))

    def swap_task(self, before: TaskRow, after: TaskRow, move: MoveRow | None = None) -> bool:
        """Change a task's lane, owner and claim if they still are as in `before`."""
        return self._write(lambda tx: task_changes.swap(tx, before, after, move))

    def link_task(self, task_id: str, depends_on: str) -> tuple[str, ...]:
        """Make a task wait for another; a circle is refused and returned."""
        return self._write(lambda tx: task_changes.link(tx, task_id, depends_on))

    def unlink_task(self, task_id: str, depends_on: str) -> bool:
        """Let a task wait no longer; False when it did not."""
        return self._write(lambda tx: task_changes.unlink(tx, task_id, depends_on))

    def adopt_tasks(self, tasks: Sequence[TaskRow], links: Sequence[tuple[str, str]]) -> None:
        """Make a mission's tasks be as their files describe them; lanes and claims stay."""
        self._write(lambda tx: task_changes.adopt(tx, tasks, links))

    def report_step(self, row: MissionStepRow) -> None:
        """Remember that a mission's step failed or is blocked."""
        self._write(lambda tx: task_changes.report_step(tx, row))

    def clear_step(self, mission: str, step: str) -> bool:
        """Forget what was reported of a mission's step; False when it was nothing."""
        return self._write(lambda tx: task_changes.clear_step(tx, mission, step))

    def ask(self, question: QuestionRow) -> str:
        """Ask a human and return the question's id; an open one is not asked twice."""
        return self._write(lambda tx: task_changes.ask(tx, question))

    def answer(self, question_id: str, answer: str, by: str, now: datetime) -> bool:
        """Answer a question; False when it is not open."""
        return self._write(lambda tx: task_changes.answer(tx, question_id, answer, by, utc(now)))

    def settle(self, run_id: str, answer: str, by: str, now: datetime) -> int:
        """Answer all open questions of a run, because it has moved on."""
        return self._write(lambda tx: task_changes.settle(tx, run_id, answer, by, utc(now)))

    def _advance(self, run_id: str, history: History, cursor: Cursor, epoch: int) -> None:
        rows = run_changes.rows(run_id, history)

        def apply(tx: Connection) -> None:
            run_changes.advance(tx, run_id, cursor, epoch)
            run_changes.append(tx, rows)

        self._write(apply)

    def _write(self, apply: Callable[[Connection], T], *, alone: bool = True) -> T:
        return self._group.run(apply, alone=alone)

    def _all(self, name: str, **values: object) -> list[codec.Row]:
        # Two threads reading at once would share the older one's snapshot, and the younger
        # might miss what it has just written.
        with self._turn:
            return super()._all(name, **values)
