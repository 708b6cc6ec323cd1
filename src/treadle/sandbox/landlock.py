"""Write Landlock's rules for a policy: it only allows, so hiding means allowing all around."""

from collections.abc import Iterator
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
    hidden = settled(policy.hidden)
    rules = [(_LIST, "/"), *((_LOOK, path) for path in _around(Path("/"), hidden))]
    rules += [(_READ | _WRITE | _TRUNCATE | _LIST, f"/dev/{name}") for name in _DEVICES]
    rules += [(_ALL, str(path)) for path in settled(policy.writable)]
    return Jail(
        filter=seccomp.program(network=policy.network, unix_sockets=policy.unix_sockets),
        access=_ALL,
        scope=_SIGNALS | _ABSTRACT_SOCKETS if confine.landlock_version() >= _SCOPES else 0,
        rules=tuple(rules),
    )


def _around(folder: Path, hidden: tuple[Path, ...]) -> Iterator[str]:
    """Yield the fewest paths that hold everything below `folder` but what is hidden."""
    if folder in hidden:
        return
    if not any(path.is_relative_to(folder) for path in hidden):
        yield str(folder)
        return
    for path in _children(folder, hidden):
        # A link may lead to what is hidden; where it leads has a path of its own.
        if not path.is_symlink():
            yield from _around(path, hidden)


def _children(folder: Path, known: tuple[Path, ...]) -> list[Path]:
    """List a folder; in one that may be entered but not listed only the known names count."""
    try:
        return list(folder.iterdir())
    except PermissionError:
        below = {path.relative_to(folder).parts[0] for path in known if folder in path.parents}
        return [folder / name for name in below]
