"""Keep readers of the store between answers: opening one costs more than most answers."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from treadle.layout import Layout
from treadle.store.store import Reader

_KEPT = 8


class Readers:
    """The readers that nobody uses right now, for the database file they were opened on."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._free: list[tuple[int, Reader]] = []

    @contextmanager
    def one(self) -> Iterator[Reader]:
        """Lend a reader; one that met an error, or whose file was replaced, is not lent again."""
        mark = self._mark()
        reader = self._take(mark) or Reader.open(self._layout)
        try:
            yield reader
        except BaseException:
            reader.close()
            raise
        if len(self._free) < _KEPT and mark:
            self._free.append((mark, reader))
        else:
            reader.close()

    def __del__(self) -> None:
        """Let go of the files with the last page."""
        while self._free:
            self._free.pop()[1].close()

    def _take(self, mark: int) -> Reader | None:
        while self._free:
            found, reader = self._free.pop()
            if found == mark:
                return reader
            reader.close()
        return None

    def _mark(self) -> int:
        """Return which file the database is; 0 for none, which may change at any moment."""
        try:
            return os.stat(self._layout.database).st_ino  # noqa: PTH116  # for every answer
        except FileNotFoundError:
            return 0
