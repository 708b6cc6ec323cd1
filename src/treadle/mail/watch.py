"""Wait for a letter."""

import time
from collections.abc import Callable
from datetime import datetime

from treadle.layout import Layout
from treadle.mail import folders, look, sync
from treadle.store.rows.letter import LetterRow
from treadle.store.task_reader import TaskReader

_PAUSE = 0.1


def watch(
    layout: Layout, agent: str | None, timeout: float | None, now: Callable[[], datetime]
) -> list[LetterRow]:
    """Return what waits for an agent, or for anyone, as soon as there is something.

    Without an agent only letters count that arrive after the call. A glance at the folders'
    times is all that a round costs.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    known = {row.letter_id for row in _waiting(layout, None, now)} if agent is None else set()
    while True:
        found = [row for row in _waiting(layout, agent, now) if row.letter_id not in known]
        if found or (deadline is not None and time.monotonic() >= deadline):
            return found
        time.sleep(_PAUSE)


def _waiting(layout: Layout, agent: str | None, now: Callable[[], datetime]) -> list[LetterRow]:
    with TaskReader.open(layout) as reader:
        if not folders.is_stale(reader, layout.mail):
            return look.waiting(reader, agent)
    store, _ = sync.fresh(layout, now())
    with store:
        return look.waiting(store, agent)
