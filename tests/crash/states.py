"""List the distinct states that a power cut may leave, under two models of a file system.

`ext4`: names and sizes reach the disk in order; a sync commits all of them; bytes that nobody
synced may be lost or torn, except those of a file that replaced another one. `strict`: what
POSIX promises and no more; anything not synced may be lost, alone or with others.
"""

import random
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from tests.crash.model import Entry, Model, Resize, Said, State, Sync, Torn, Write

Kind = Literal["ext4", "strict"]
_RECENT = 24
_TEARS = (1, 512, 4096)


class Cut(NamedTuple):
    """What is not durable yet at one moment: names and sizes in order, and bytes."""

    point: int
    names: tuple[int, ...]
    bytes: tuple[int, ...]

    @property
    def everything(self) -> list[int]:
        """Return all that can still be lost, in order."""
        return sorted(self.names + self.bytes)


def distinct(model: Model, kind: Kind, limit: int, seed: int = 1) -> list[State]:
    """Return up to `limit` states of a run with different trees."""
    return _distinct(model, _candidates(model, kind, limit, random.Random(seed)), limit)


def beyond(model: Model, mutant: Model, kind: Kind, limit: int) -> list[State]:
    """Return states that only the mutant can reach: something is lost that the sync had saved."""
    moments = zip(cuts(model, kind), cuts(mutant, kind), strict=True)
    fresh = [
        (cut, sorted(set(cut.everything) - set(base.everything)))
        for base, cut in moments
        if len(cut.everything) > len(base.everything)
    ]
    said = [pair for pair in fresh if _has_spoken(model, pair[0])]
    return _distinct(mutant, _newly_lost(mutant, kind, [*said, *fresh[-1:], *fresh]), limit)


def cuts(model: Model, kind: Kind) -> list[Cut]:
    """Return, for each moment, the operations that a power cut could still lose."""
    settle = _settle_ext4 if kind == "ext4" else _settle_strict
    names: list[int] = []
    content: list[int] = []
    found = [Cut(0, (), ())]
    for index, op in enumerate(model.operations):
        match op:
            case Entry() | Resize():
                names.append(index)
            case Write():
                content.append(index)
            case Sync():
                names, content = settle(model, op, names, content)
        found.append(Cut(index + 1, tuple(names), tuple(content)))
    return found


def _settle_strict(
    model: Model, sync: Sync, names: list[int], content: list[int]
) -> tuple[list[int], list[int]]:
    """Only what was asked for is durable: a file's bytes, a folder's names."""

    def is_open(index: int) -> bool:
        return index >= sync.covers or not _touches(model, index, sync.inode, as_child=False)

    return [n for n in names if is_open(n)], [n for n in content if is_open(n)]


def _settle_ext4(
    model: Model, sync: Sync, names: list[int], content: list[int]
) -> tuple[list[int], list[int]]:
    """A sync of anything whose names or size changed commits the journal, all of it."""
    before = [n for n in (*names, *content) if n < sync.covers]
    moved = [n for n in before if _touches(model, n, sync.inode, as_child=True)]
    saved = set(moved)
    if any(not isinstance(op := model.operations[n], Write) or op.grows for n in moved):
        saved |= {n for n in names if n < sync.covers}
        saved |= _flushed(model, sorted(saved.intersection(names)), content)
    return [n for n in names if n not in saved], [n for n in content if n not in saved]


def _flushed(model: Model, names: Iterable[int], content: Iterable[int]) -> set[int]:
    """Return the bytes that had to be on disk before these names were."""
    found: set[int] = set()
    for index in names:
        op = model.operations[index]
        if isinstance(op, Entry) and op.flushes is not None:
            found |= {n for n in content if n < index and _touches(model, n, op.flushes)}
    return found


def _touches(model: Model, index: int, inode: int | None, as_child: bool = False) -> bool:
    if inode is None:
        return True
    op = model.operations[index]
    if isinstance(op, Entry):
        folders = {folder for folder, _, _ in op.changes}
        children = {child for _, _, child in op.changes} if as_child else set()
        return inode in folders | children
    return isinstance(op, Write | Resize) and op.inode == inode


def _distinct(model: Model, candidates: Iterable[State], limit: int) -> list[State]:
    """Keep one state per tree, at its latest moment: there the most has been promised."""
    found: dict[bytes, State] = {}
    for state in candidates:
        mark = model.signature(state)
        if mark not in found and len(found) >= limit:
            break
        if mark not in found or found[mark].point < state.point:
            found[mark] = state
    return list(found.values())


def _candidates(model: Model, kind: Kind, limit: int, chance: random.Random) -> Iterator[State]:
    """Yield first what matters most: moments at which something had just been promised."""
    moments = cuts(model, kind)
    for cut in moments:
        yield State(cut.point)
        yield State(cut.point, tuple(cut.everything))
    for cut in [*(cut for cut in moments if _has_spoken(model, cut)), moments[-1]]:
        yield from _patterns(model, cut, kind, len(model.operations))
    share = 8 + 8 * limit // len(moments)
    for cut in chance.sample(moments, len(moments)):
        states = list(_patterns(model, cut, kind, _RECENT))
        yield from chance.sample(states, min(share, len(states)))
    for _ in range(20 * limit):
        cut, odds = chance.choice(moments), chance.random()
        yield from _legal(model, cut, kind, [n for n in cut.everything if chance.random() < odds])


def _newly_lost(model: Model, kind: Kind, moments: list[tuple[Cut, list[int]]]) -> Iterator[State]:
    for cut, fresh in moments:
        yield from _legal(model, cut, kind, fresh)
        yield from _legal(model, cut, kind, cut.everything)
        for index in fresh:
            yield from _legal(model, cut, kind, [index])
            yield from _legal(model, cut, kind, [n for n in cut.everything if n >= index])
            for torn in _tears(model, index, kind):
                yield from _legal(model, cut, kind, [], torn)


def _has_spoken(model: Model, cut: Cut) -> bool:
    op = model.operations[cut.point - 1] if cut.point else None
    return isinstance(op, Said) and op.text != ""


def _patterns(model: Model, cut: Cut, kind: Kind, recent: int) -> Iterator[State]:
    """Yield the losses that break protocols: one, all but one, the tail, one file, a torn write."""
    everything = cut.everything
    last = everything[-recent:]
    files: dict[int, list[int]] = {}
    for index in cut.bytes:
        op = model.operations[index]
        if isinstance(op, Write):
            files.setdefault(op.inode, []).append(index)
    for index in last:
        yield from _legal(model, cut, kind, [index])
        yield from _legal(model, cut, kind, [n for n in everything if n != index])
        yield from _legal(model, cut, kind, [n for n in everything if n >= index])
    for own in list(files.values())[-recent:]:
        yield from _legal(model, cut, kind, own)
        yield from _legal(model, cut, kind, [n for n in everything if n not in own])
    for index in last:
        for torn in _tears(model, index, kind):
            yield from _legal(model, cut, kind, [], torn)
            yield from _legal(model, cut, kind, [n for n in everything if n != index], torn)
            yield from _legal(model, cut, kind, [n for n in everything if n > index], torn)


def _tears(model: Model, index: int, kind: Kind) -> Iterator[Torn]:
    op = model.operations[index]
    if not isinstance(op, Write):
        return
    size = len(op.data)
    for kept in sorted({*_TEARS, size // 2, size - 1}):
        if 0 < kept < size:
            yield Torn(index, kept, zeros=False)
    if kind == "strict":
        yield Torn(index, 0, zeros=True)
        yield Torn(index, size // 2, zeros=True)


def _legal(
    model: Model, cut: Cut, kind: Kind, dropped: list[int], torn: Torn | None = None
) -> Iterator[State]:
    """Yield a loss the file system could suffer; under ext4 the journal loses only its tail."""
    lost = set(dropped)
    if kind == "ext4":
        first = min((n for n in cut.names if n in lost), default=cut.point)
        lost |= {n for n in cut.names if n > first}
        safe = _flushed(model, [n for n in cut.names if n not in lost], cut.bytes)
        lost -= safe
        if torn and torn.operation in safe:
            return
    if torn is None or torn.operation not in lost:
        yield State(cut.point, tuple(sorted(lost)), torn)
