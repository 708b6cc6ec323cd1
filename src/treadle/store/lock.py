"""Let processes write one after the other, each in its turn."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from treadle.errors import StoreError


class WriteLock:
    """A file that is locked around every write transaction and checkpoint.

    SQLite's own waiting sleeps and retries, so a busy neighbour can starve a process until it
    gives up; a blocking flock queues. It also keeps two checkpoints apart.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise self._explain(error) from error

    def __enter__(self) -> Self:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        except OSError as error:
            raise self._explain(error) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give the file back; nobody holds it after that."""
        os.close(self._fd)

    def _explain(self, error: OSError) -> StoreError:
        return StoreError(f"{self._path}: cannot be locked ({error.strerror}); nothing was saved")
