"""Wait for a letter."""

import contextlib
import time
from collections.abc import Callable, Generator
from datetime import datetime

from treadle.layout import Layout
from treadle.mail import folders, look, sync
from treadle.store.letters import LetterRow
from treadle.store.store import Reader

_PAUSE = 0.1


def watch(
    layout: Layout, agent: str | None, timeout: float | None, now: Callable[[], datetime]
) -> list[LetterRow]:
    """Return what waits for an agent, or for anyone, as soon as there is something.

    Without an agent only letters count that arrive after the call. A glance at the folders'
    times is all that a round costs.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    with contextlib.closing(_looks(layout, now)) as looks:
        seen = look.waiting(next(looks), None) if agent is None else []
        known = {row.letter_id for row in seen}
        for reader in looks:
            found = [row for row in look.waiting(reader, agent) if row.letter_id not in known]
            if found or (deadline is not None and time.monotonic() >= deadline):
                break
            time.sleep(_PAUSE)
    return found


def _looks(layout: Layout, now: Callable[[], datetime]) -> Generator[Reader, None, None]:
    """Yield the store again and again, with every letter in it."""
    reader = Reader.open(layout)
    try:
        while True:
            if folders.is_stale(reader, layout.mail):
                reader.close()
                store, _ = sync.fresh(layout, now())
                store.close()
                reader = Reader.open(layout)
            yield reader
    finally:
        reader.close()
