"""Write Landlock's rules for a policy: it only allows, so hiding means allowing all around."""

import functools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from treadle.proc import confine
from treadle.proc.command import Jail
from treadle.sandbox import seccomp
from treadle.sandbox.policy import Layer, Policy, layers, settled

OLDEST = 3  # before it, a file can be emptied that cannot be written

_EXECUTE, _WRITE, _READ, _LIST, _TRUNCATE = 1, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_ALL = (1 << 15) - 1  # everything version 3 knows: make, remove, link, rename, truncate
_LOOK = _EXECUTE | _READ | _LIST
_CHANGE = _ALL & ~_LOOK
_REFER = 1 << 13  # moving between folders: every layer must allow it
_SIGNALS, _ABSTRACT_SOCKETS = 1 << 1, 1
SCOPES = 6  # the version that can keep signals and sockets inside
# Nothing else in /dev: terminals are the user's, disks hold everything, memory there is shared.
_DEV = Path("/dev")
_DEVICES = tuple(f"{_DEV}/{name}" for name in ("null", "zero", "full", "random", "urandom"))


def jail(policy: Policy) -> Jail:
    """Return what the shim must take on for this policy: two layers, and both must agree.

    What may be read is the same for many steps; what may be written changes with every one.
    """
    rules = [(_WRITE | _TRUNCATE, device) for device in _DEVICES]
    rules += [(_CHANGE, str(path)) for path in settled(policy.writable)]
    return Jail(
        filter=seccomp.program(network=policy.network, unix_sockets=policy.unix_sockets),
        access=_CHANGE,
        scope=scope(),
        rules=tuple(rules),
        seen=_LOOK | _REFER,
        lasting=_lasting(layers(policy._replace(hidden=(*policy.hidden, _DEV)))),
    )


def scope() -> int:
    """Return what keeps signals and abstract sockets inside, where the kernel can."""
    return _SIGNALS | _ABSTRACT_SOCKETS if version() >= SCOPES else 0


def _lasting(found: tuple[Layer, ...]) -> str:
    """Write the rules about reading: right, inode and path each; a path never holds `//`."""
    secrets: dict[Layer | None, list[str]] = {None: []}
    secrets |= {item: [] for item in found if item.is_island}
    for item in found:
        if item.kind == "hidden":
            secrets[_shore(item.above)].append(item.path)
    rules = [f"{_LIST | _REFER} 0 /."]
    for island, hidden in secrets.items():
        start = island.path if island else "/"
        rules += [f"{_LOOK} {inode} {path}" for path, inode in around(hidden, start)]
    rules += [f"{_READ} 0 {device}" for device in _DEVICES]
    return "//".join(rules)


def _shore(layer: Layer | None) -> Layer | None:
    """Return the island that a layer lies on; None is the mainland."""
    while layer and not layer.is_island:
        layer = layer.above
    return layer


@functools.cache
def version() -> int:
    """Return which Landlock the kernel has; 0 is none."""
    return confine.landlock_version()


def around(hidden: Iterable[str], start: str = "/") -> Iterator[tuple[str, int]]:
    """Yield the fewest paths below `start` that hold all but what is hidden, and their inodes."""
    secret = set(hidden)
    ways = {way for path in secret for way in _ways(path, start)}
    if not ways:
        yield ("/.", 0) if start == "/" else (start, os.stat(start).st_ino)  # noqa: PTH116
    yield from (path for way in ways for path in _beside(way, ways | secret))


def _ways(path: str, start: str) -> Iterator[str]:
    while path != start:
        path = path.rpartition("/")[0] or "/"
        yield path


def _beside(folder: str, skip: set[str]) -> list[tuple[str, int]]:
    """List a folder without what leads to hidden things; one that may not be listed has nothing.

    A link is left out, for it may lead there too; where it leads has a path of its own.
    """
    try:
        with os.scandir(folder) as found:
            items = [item for item in found if item.path not in skip and not item.is_symlink()]
            return [(item.path, item.inode()) for item in items]
    except OSError:
        return []
