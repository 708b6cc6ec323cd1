"""Write Landlock's rules for a policy: it only allows, so hiding means allowing all around."""

import functools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from treadle.proc import confine
from treadle.proc.command import Jail
from treadle.sandbox import seccomp
from treadle.sandbox.policy import Policy, settled

OLDEST = 3  # before it, a file can be emptied that cannot be written

_EXECUTE, _WRITE, _READ, _LIST, _TRUNCATE = 1, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_ALL = (1 << 15) - 1  # everything version 3 knows: make, remove, link, rename, truncate
_LOOK = _EXECUTE | _READ | _LIST
_SIGNALS, _ABSTRACT_SOCKETS = 1 << 1, 1
_SCOPES = 6  # the version that can keep signals and sockets inside
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")


def jail(policy: Policy) -> Jail:
    """Return what the shim must take on for this policy."""
    rules = [(_LIST, "/"), *((_LOOK, path) for path in around(settled(policy.hidden)))]
    rules += [(_READ | _WRITE | _TRUNCATE | _LIST, f"/dev/{name}") for name in _DEVICES]
    rules += [(_ALL, str(path)) for path in settled(policy.writable)]
    return Jail(
        filter=seccomp.program(network=policy.network, unix_sockets=policy.unix_sockets),
        access=_ALL,
        scope=_SIGNALS | _ABSTRACT_SOCKETS if version() >= _SCOPES else 0,
        rules=tuple(rules),
    )


@functools.cache
def version() -> int:
    """Return which Landlock the kernel has; 0 is none."""
    return confine.landlock_version()


def around(hidden: Iterable[Path]) -> Iterator[str]:
    """Yield the fewest paths that hold everything but what is hidden."""
    secret = {str(path) for path in hidden}
    ways = {str(up) for path in hidden for up in path.parents}
    if not ways:
        yield "/"
    yield from (path for way in ways for path in _beside(way, ways | secret))


def _beside(folder: str, skip: set[str]) -> list[str]:
    """List a folder without what leads to hidden things; one that may not be listed has nothing.

    A link is left out, for it may lead there too; where it leads has a path of its own.
    """
    try:
        with os.scandir(folder) as found:
            return [i.path for i in found if i.path not in skip and not i.is_symlink()]
    except OSError:
        return []
