"""Commit what many threads want with one fsync: whoever comes first commits for all who wait."""

# The lock itself: threading adds nothing to it and costs a tenth of a bare start.
from _thread import LockType as Lock
from _thread import allocate_lock
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from treadle.errors import StoreError
from treadle.store.backend import Connection

T = TypeVar("T")


class Change(Generic[T]):
    """What one thread wants done, alone or not, to last or not, and what came of it."""

    __slots__ = ("alone", "apply", "error", "lasting", "result", "saved", "settled", "wake")

    def __init__(
        self, apply: Callable[[Connection], T], alone: bool = True, lasting: bool = True
    ) -> None:
        self.apply = apply
        self.alone = alone
        self.lasting = lasting
        self.wake: Lock | None = None
        self.settled = False
        self.saved = False
        self.result: T | None = None
        self.error: Exception | None = None

    def outcome(self) -> T:
        """Return the result of a change that is durable, or raise why it is not."""
        if self.error is not None:
            raise self.error
        if not self.saved:
            raise StoreError("a change was interrupted before it was saved; repeat the command")
        return self.result  # type: ignore[return-value]  # a saved change has its result


class Group:
    """Let the first thread lead: it takes what waits, commits it, and appoints the next one."""

    def __init__(self, commit: Callable[[Sequence[Change[Any]]], None]) -> None:
        self._commit = commit
        self._guard = allocate_lock()
        self._waiting: list[Change[Any]] = []
        self._leader: Change[Any] | None = None

    def run(
        self, apply: Callable[[Connection], T], *, alone: bool = True, lasting: bool = True
    ) -> T:
        """Apply a change and return its result when it is durable."""
        change = Change(apply, alone, lasting)
        try:
            self._enqueue(change)
            if change.wake:
                change.wake.acquire()
            if not change.settled:
                self._lead()
        except BaseException:
            self._withdraw(change)
            raise
        return change.outcome()

    def _enqueue(self, change: Change[Any]) -> None:
        with self._guard:
            if self._leader is None:
                self._leader = change
            else:
                change.wake = allocate_lock()
                change.wake.acquire()
            self._waiting.append(change)

    def _lead(self) -> None:
        batch: list[Change[Any]] = []
        try:
            with self._guard:
                batch, self._waiting = self._waiting, batch
            self._commit(batch)
        finally:
            self._hand_over(batch)

    def _hand_over(self, batch: Sequence[Change[Any]]) -> None:
        with self._guard:
            heir = self._appoint()
        for change in batch:
            change.settled = True
            _wake(change)
        _wake(heir)

    def _withdraw(self, change: Change[Any]) -> None:
        """Leave the queue after a signal, without taking the lead along."""
        with self._guard:
            if change in self._waiting:
                self._waiting.remove(change)
            heir = self._appoint() if self._leader is change else None
        _wake(heir)

    def _appoint(self) -> Change[Any] | None:
        self._leader = self._waiting[0] if self._waiting else None
        return self._leader


def _wake(change: Change[Any] | None) -> None:
    if change and change.wake:
        change.wake.release()
