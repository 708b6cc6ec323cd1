"""Read logs of any size by their lines, and search them whole, without holding them in memory."""

import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import BinaryIO, NamedTuple, Protocol

from treadle.agents.growth import Chunk

_CHUNK = 1 << 20
_LEFT, _RIGHT = 60, 180  # bytes shown around what was looked for
_MARGIN = 64 << 10  # read before what is shown, because a key that is masked may begin there


class Range(NamedTuple):
    """Some lines of a file: the number of the first, their text, and how many there are in all."""

    first: int
    lines: tuple[str, ...]
    total: int
    size: int
    before: str = ""  # what stands just before, for whoever masks
    is_cut: bool = False  # whether the last line goes on, or is being written right now
    places: tuple[int, ...] = ()  # where each line begins


class ReadableLog(Protocol):
    """What can be read from any place on."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes."""

    def seek(self, at: int, whence: int = ..., /) -> int:
        """Go to a place; return where that is."""


class Stretch(NamedTuple):
    """Whole lines of one stream that were written without a break, and when."""

    stream: str
    begin: int
    end: int
    at: float | None  # what was written after the last look has none


class Woven:
    """Several streams as one log: their lines in the order in which they were written."""

    def __init__(self, handles: Mapping[str, BinaryIO], parts: Iterable[Stretch]) -> None:
        self._handles, self._parts = handles, [*parts]
        self._ends = [*accumulate(it.end - it.begin for it in self._parts)]
        self._at = 0

    def seek(self, at: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place of the whole; return where that is."""
        size = self._ends[-1] if self._ends else 0
        self._at = at + size if whence == os.SEEK_END else at
        return self._at

    def read(self, size: int) -> bytes:
        """Return the next bytes of the whole."""
        found, left = [], size
        while left and self._at < (self._ends[-1] if self._ends else 0):
            part, begin = self.find(self._at)
            handle = self._handles[part.stream]
            handle.seek(begin)
            data = handle.read(min(left, part.end - begin)) or b"\n"
            found.append(data)
            self._at += len(data)
            left -= len(data)
        return b"".join(found)

    def find(self, place: int) -> tuple[Stretch, int]:
        """Return the part that a place of the whole is in, and its place in that stream."""
        number = bisect_right(self._ends, place)
        part = self._parts[number]
        return part, part.end - (self._ends[number] - place)

    def before(self, place: int) -> str:
        """Return what its stream said before a place, for whoever masks."""
        part, at = self.find(place)
        handle = self._handles[part.stream]
        handle.seek(max(at - _MARGIN, 0))
        return handle.read(min(at, _MARGIN)).decode(errors="replace")


def weave(handles: Mapping[str, BinaryIO], chunks: list[Chunk], *, is_live: bool) -> Woven:
    """Lay the lines of streams one after the other; a line stands where its end was written.

    What was written after the last chunk waits while there may be another.
    """
    parts: list[Stretch] = []
    begun = dict.fromkeys(handles, 0)
    for stream, noted, at in chunks:
        handle = handles[stream]
        end = _line_end(handle, begun[stream], min(noted, handle.seek(0, os.SEEK_END)))
        if end > begun[stream]:
            parts.append(Stretch(stream, begun[stream], end, at))
            begun[stream] = end
    for stream, handle in handles.items() if not is_live else ():
        end = handle.seek(0, os.SEEK_END)
        if end > begun[stream]:  # where a line has no end, `read` gives it one
            parts.append(Stretch(stream, begun[stream], end + 1 - _ends_line(handle), None))
    return Woven(handles, parts)


def _ends_line(handle: BinaryIO) -> bool:
    handle.seek(-1, os.SEEK_END)
    return handle.read(1) == b"\n"


def _line_end(handle: BinaryIO, begin: int, end: int) -> int:
    """Return where the last whole line between two places ends; the first place if there is none.

    The end of a line of many megabytes is not looked for.
    """
    start = max(begin, end - _MARGIN)
    if end <= start:
        return begin
    handle.seek(start)
    cut = handle.read(end - start).rfind(b"\n") + 1
    return start + cut if cut else begin


class Match(NamedTuple):
    """A line that was looked for."""

    number: int
    text: str


def read_range(handle: ReadableLog, first: int | None, most: int, limit: int) -> Range:
    """Return lines from the first on, or the last ones; as many as fit into `limit` bytes."""
    size, total = handle.seek(0, os.SEEK_END), _count(handle)
    start = max(total - most + 1, 1) if first is None else max(min(first, total), 1)
    begin = _offset_of(handle, start)
    handle.seek(max(begin - _MARGIN, 0))
    before = handle.read(begin - max(begin - _MARGIN, 0))
    *whole, rest = handle.read(limit + 1).split(b"\n")
    is_cut = bool(rest) and len(whole) < most and (not whole or begin + limit >= size)
    found = [*whole, rest[:limit]] if is_cut else whole
    lines = tuple(it.decode(errors="replace") for it in found[:most])
    places = accumulate((len(it) + 1 for it in found[: len(lines) - 1]), initial=begin)
    return Range(
        start,
        lines,
        total,
        size,
        before.decode(errors="replace"),
        is_cut,
        (*places,) if lines else (),
    )


def search(handle: ReadableLog, words: str, most: int) -> tuple[list[Match], int]:
    """Return the first lines that have these words in any case, and how many lines have them."""
    pattern = re.compile(re.escape(words.encode(errors="surrogateescape")), re.IGNORECASE)
    found: list[Match] = []
    count, number = 0, 1
    for chunk in _whole_lines(handle):
        at = 0
        while match := pattern.search(chunk, at):
            begin = chunk.rfind(b"\n", 0, match.start()) + 1
            end = chunk.find(b"\n", match.end())
            end = len(chunk) if end < 0 else end
            count += 1
            if len(found) < most:
                line = number + chunk.count(b"\n", 0, begin)
                is_short = end - begin <= _LEFT + _RIGHT
                start = begin if is_short else max(begin, match.start() - _LEFT)
                around = chunk[start : min(end, match.end() + _RIGHT)].decode(errors="replace")
                found.append(Match(line, f"…{around}" if start > begin else around))
            at = end + 1
        number += chunk.count(b"\n")
    return found, count


def _whole_lines(handle: ReadableLog) -> Iterator[bytes]:
    """Yield the file in pieces that end with a line."""
    handle.seek(0)
    rest = b""
    while data := handle.read(_CHUNK):
        cut = data.rfind(b"\n") + 1
        if not cut and len(rest) < 8 * _CHUNK:
            rest += data
            continue
        yield rest + data[:cut]
        rest = data[cut:]
    if rest:
        yield rest


def _count(handle: ReadableLog) -> int:
    """Return how many lines there are; one that nobody ended yet counts."""
    handle.seek(0)
    total, last = 0, b"\n"
    while data := handle.read(_CHUNK):
        total += data.count(b"\n")
        last = data[-1:]
    return total + (last != b"\n")


def _offset_of(handle: ReadableLog, line: int) -> int:
    """Return where a line begins."""
    handle.seek(0)
    left, base = line - 1, 0
    while left and (data := handle.read(_CHUNK)):
        here = data.count(b"\n")
        if here >= left:
            at = 0
            for _ in range(left):
                at = data.index(b"\n", at) + 1
            return base + at
        left, base = left - here, base + len(data)
    return base
