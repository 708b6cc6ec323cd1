"""Say what a child process may reach."""

import functools
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

# What nobody's agent needs to read, relative to the user's home.
_HIDDEN = """
    .ssh .gnupg .aws .azure .netrc .git-credentials .pypirc .kube .docker/config.json .config/gh
    .config/gcloud .local/share/keyrings .password-store .mozilla .config/google-chrome
    .config/chromium .pgpass .pg_service.conf .my.cnf .boto .s3cfg .config/rclone
"""
HIDDEN = tuple(f"~/{name}" for name in _HIDDEN.split())

Kind = Literal["hidden", "readable", "writable"]
Place = str | Path


class Policy(NamedTuple):
    """Where a child may write, what it may not read, and whom it may talk to.

    Below `home` it reads only what is `readable` or `writable`. Of two places that lie in each
    other the inner one counts.
    """

    writable: tuple[Path, ...] = ()
    hidden: tuple[Place, ...] = ()
    network: bool = True
    unix_sockets: bool = False
    home: Path | None = None
    readable: tuple[Place, ...] = ()

    def widened(self, folders: Iterable[Path]) -> "Policy":
        """Return this policy with more folders to write in."""
        return self._replace(writable=(*self.writable, *folders))


READ_ONLY = Policy()

# A handle that only names a file, if there is a list of handles to read the name from.
_OPEN = (
    os.O_PATH | os.O_CLOEXEC if sys.platform == "linux" and Path("/proc/self/fd").exists() else 0
)


def expand(paths: Iterable[str], env: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the paths with `~/` filled in; relative ones name nothing."""
    return _expand(tuple(paths), env.get("HOME") or "/")


@functools.lru_cache(maxsize=64)
def _expand(paths: tuple[str, ...], home: str) -> tuple[Path, ...]:
    full = (f"{home}{path[1:]}" if path.startswith("~/") else path for path in paths)
    return tuple(Path(path) for path in full if path.startswith("/"))


class Settled(str):
    """A path that was looked at: something is there, and no link on the way.

    For this start, or for one since which no folder on the way has changed.

    It stays here: what goes to a shim is plain text.
    """

    __slots__ = ()


def settled(paths: Iterable[Place]) -> tuple[Settled, ...]:
    """Return the paths that exist, without links in them and each once."""
    return tuple(dict.fromkeys(filter(None, map(real, paths))))


def real(path: Place) -> Settled:
    """Return a path without links, empty if there is nothing; the kernel is faster at it."""
    if isinstance(path, Settled):
        return path
    if not _OPEN:
        # Not `Path.exists`, which fails for names that are too long or behind a closed folder.
        return Settled(os.path.realpath(path) if os.access(path, os.F_OK) else "")
    try:
        handle = os.open(path, _OPEN)
    except OSError:
        return Settled()
    try:
        return Settled(os.readlink(f"/proc/self/fd/{handle}"))  # noqa: PTH115  # the kernel spells it
    finally:
        os.close(handle)


class Layer(NamedTuple):
    """A place where other rules begin than around it; `above` is the layer it lies in."""

    path: str
    kind: Kind
    above: "Layer | None"

    @property
    def is_island(self) -> bool:
        """Tell whether this opens what the layer around it hides."""
        return self.kind != "hidden" and bool(self.above and self.above.kind == "hidden")


def layers(policy: Policy) -> tuple[Layer, ...]:
    """Return where the rules change, each place after those it lies in; all else is readable."""
    kinds: dict[str, Kind] = dict.fromkeys(settled(policy.readable), "readable")
    kinds |= dict.fromkeys(settled(filter(None, (*policy.hidden, policy.home))), "hidden")
    kinds |= dict.fromkeys(settled(policy.writable), "writable")
    found: dict[str, Layer] = {}
    for path, kind in sorted(kinds.items()):
        above = _nearest(path, found)
        around = above.kind if above else "readable"
        if kind != around and (kind, around) != ("readable", "writable"):
            found[str(path)] = Layer(str(path), kind, above)
    return tuple(found.values())


def _nearest(path: str, found: Mapping[str, Layer]) -> Layer | None:
    while path := path.rpartition("/")[0]:
        if path in found:
            return found[path]
    return None


class Closed:
    """What the layers of a policy let nobody read, for those who ask about many paths."""

    def __init__(self, found: Iterable[Layer]) -> None:
        self._layers = {item.path: item for item in found}

    def around(self, path: str) -> str | None:
        """Return the place that hides a path without links, or None if it can be read."""
        found = self._layers.get(path) or _nearest(path, self._layers)
        return found.path if found and found.kind == "hidden" else None
