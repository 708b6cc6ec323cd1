"""Open the files a command reads and writes, and keep what it writes within a cap."""

import os
from pathlib import Path

from treadle.errors import TreadleError
from treadle.proc.command import Command

_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class Files:
    """A command's three descriptors, open while it runs.

    The command gets them as they are, so nothing is copied, and sizes are asked of the open
    files, so no other file can be put in their place.
    """

    def __init__(self, command: Command) -> None:
        self._fds: list[int] = []
        same = command.stdout == command.stderr
        try:
            self._open(command.stdin or Path(os.devnull), os.O_RDONLY | os.O_CLOEXEC)
            self._open(command.stdout, _WRITE | (os.O_APPEND if same else 0))
            if not same:
                self._open(command.stderr, _WRITE)
        except OSError as error:
            self.close()
            raise TreadleError(
                f"{error.filename}: cannot be opened ({error.strerror})", code="unreadable_file"
            ) from error

    def _open(self, path: Path, flags: int) -> None:
        self._fds.append(os.open(path, flags, 0o600))

    @property
    def handed_over(self) -> list[int]:
        """Return the descriptors of stdin, stdout and stderr."""
        return [self._fds[0], self._fds[1], self._fds[-1]]

    def sizes(self) -> list[int]:
        """Return how much each output file holds."""
        return [os.fstat(fd).st_size for fd in self._fds[1:]]

    def cut(self, cap: int) -> None:
        """Shorten the files to `cap` bytes in all; the smaller one keeps up to half of it."""
        for fd, keep in zip(self._fds[1:], shares(self.sizes(), cap), strict=True):
            os.ftruncate(fd, keep)

    def close(self) -> None:
        """Close what is open."""
        while self._fds:
            os.close(self._fds.pop())

    def __enter__(self) -> "Files":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def shares(sizes: list[int], cap: int) -> list[int]:
    """Divide `cap` bytes among one or two files."""
    if len(sizes) == 1:
        return [min(sizes[0], cap)]
    first = min(sizes[0], max(cap // 2, cap - sizes[1]))
    return [first, min(sizes[1], cap - first)]
