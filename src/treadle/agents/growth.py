"""Note when what a command prints on stdout and stderr grew, so that both can be read as one.

A command writes into its files itself, so it is only known by looking now and then which of them
has grown: what was printed between two looks is in the order of the last writes.
"""

import contextlib
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from treadle.errors import NotFoundError
from treadle.files import beneath
from treadle.layout import GROWTH, STDERR, STDOUT
from treadle.sandbox.mask import MASKED

STREAMS = (STDOUT, STDERR)
_LASTS = 1.0  # seconds that are one chunk if only one stream grows
MOST = 20_000  # chunks; what is printed after them has no order

_LATEST = 1e11  # seconds, which is far beyond any life
MAX_BYTES = MOST * 64


class Chunk(NamedTuple):
    """What a stream took in without a break: up to where, and when it was written last."""

    stream: str
    end: int
    at: float


class Growth:
    """Looks at the files of one command while it runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sizes = dict.fromkeys(STREAMS, 0)
        self._looked = time.time()
        self._chunk: Chunk | None = None
        self._begun = 0.0
        self._kept = 0

    def look(self) -> None:
        """See what has grown since the last look."""
        now = time.time()
        grown = [found for name in STREAMS if (found := self._grown(name, now))]
        for found in sorted(grown, key=lambda it: it.at):
            if self._chunk and self._chunk.stream != found.stream:
                self._keep()
            self._begun = self._begun if self._chunk else now
            self._chunk = found
        if now - self._begun >= _LASTS:
            self._keep()
        self._looked = now

    def close(self) -> None:
        """See the rest; a single chunk needs no order, and no file."""
        self.look()
        if self._kept:
            self._keep()

    def _grown(self, name: str, now: float) -> Chunk | None:
        try:
            seen = (self._folder / name).stat()
        except OSError:
            return None
        if seen.st_size <= self._sizes[name]:
            return None
        self._sizes[name] = seen.st_size
        return Chunk(name, seen.st_size, min(max(seen.st_mtime, self._looked), now))

    def _keep(self) -> None:
        if self._chunk and self._kept < MOST:
            self._kept += 1
            with (self._folder / GROWTH).open("ab") as stream:
                stream.write(_encode([self._chunk]))
        self._chunk = None


def read(data: bytes) -> list[Chunk]:
    """Return what was noted; a line that a crash cut off, or that somebody spoilt, is left out."""
    found = []
    for line in data.splitlines()[:MOST]:
        with contextlib.suppress(ValueError, TypeError, OverflowError, RecursionError):
            stream, end, at = json.loads(line)
            if stream in STREAMS and 0 < at < _LATEST:
                found.append(Chunk(stream, int(end), float(at)))
    return found


def shorten(folder: Path, name: str, spans: Sequence[tuple[int, int]]) -> None:
    """Follow a log in which what stood in `spans` is masked now, if its growth was noted."""
    above, _, stream = name.rpartition("/")
    noted = f"{above}/{GROWTH}"
    if not spans or stream not in STREAMS:
        return
    with contextlib.suppress(NotFoundError):
        with beneath.opened(folder, noted) as handle:
            chunks = read(handle.read(MAX_BYTES))
        moved = [
            it._replace(end=_moved(it.end, spans)) if it.stream == stream else it for it in chunks
        ]
        beneath.write(folder, noted, _encode(moved))


def _moved(end: int, spans: Iterable[tuple[int, int]]) -> int:
    """Return where the end of a chunk is now; one within a secret is behind it."""
    before = [span for span in spans if span[0] < end]
    end = max([end, *(stop for _, stop in before[-1:])])
    return end - sum(stop - start - len(MASKED) for start, stop in before)


def _encode(chunks: Iterable[Chunk]) -> bytes:
    return b"".join(
        json.dumps([it.stream, it.end, round(it.at, 3)]).encode() + b"\n" for it in chunks
    )
