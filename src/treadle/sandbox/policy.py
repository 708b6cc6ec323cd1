"""Say what a child process may reach."""

import functools
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

# What nobody's agent needs to read, relative to the user's home.
HIDDEN = (
    "~/.ssh",
    "~/.gnupg",
    "~/.aws",
    "~/.azure",
    "~/.netrc",
    "~/.git-credentials",
    "~/.pypirc",
    "~/.kube",
    "~/.docker/config.json",
    "~/.config/gh",
    "~/.config/gcloud",
    "~/.local/share/keyrings",
    "~/.password-store",
    "~/.mozilla",
    "~/.config/google-chrome",
    "~/.config/chromium",
)


Kind = Literal["hidden", "readable", "writable"]


class Policy(NamedTuple):
    """Where a child may write, what it may not read, and whom it may talk to.

    Below `home` it reads only what is `readable` or `writable`. Of two places that lie in each
    other the inner one counts.
    """

    writable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    network: bool = True
    unix_sockets: bool = False
    home: Path | None = None
    readable: tuple[Path, ...] = ()

    def widened(self, folders: Iterable[Path]) -> "Policy":
        """Return this policy with more folders to write in."""
        return self._replace(writable=(*self.writable, *folders))


READ_ONLY = Policy()


def expand(paths: Iterable[str], env: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the paths with `~/` filled in; relative ones name nothing."""
    return _expand(tuple(paths), env.get("HOME") or "/")


@functools.lru_cache(maxsize=64)
def _expand(paths: tuple[str, ...], home: str) -> tuple[Path, ...]:
    full = (f"{home}{path[1:]}" if path.startswith("~/") else path for path in paths)
    return tuple(Path(path) for path in full if path.startswith("/"))


def settled(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the paths that exist, without links in them and each once."""
    # Not `Path.exists`, which fails for names that are too long or behind a closed folder.
    found = (os.path.realpath(path) for path in paths if os.access(path, os.F_OK))
    return tuple(map(Path, dict.fromkeys(found)))


class Layer(NamedTuple):
    """A place where other rules begin than around it; `above` is the layer it lies in."""

    path: Path
    kind: Kind
    above: "Layer | None"

    def depth(self) -> int:
        """Return how many layers lie around this one."""
        return 1 + self.above.depth() if self.above else 0

    @property
    def is_island(self) -> bool:
        """Tell whether this opens what the layer around it hides."""
        return self.kind != "hidden" and bool(self.above and self.above.kind == "hidden")


def layers(policy: Policy) -> tuple[Layer, ...]:
    """Return where the rules change, each place after those it lies in; all else is readable."""
    kinds: dict[Path, Kind] = dict.fromkeys(settled(policy.readable), "readable")
    kinds |= dict.fromkeys(settled((*policy.hidden, *_closed(policy))), "hidden")
    kinds |= dict.fromkeys(settled(policy.writable), "writable")
    found: dict[Path, Layer] = {}
    for path in sorted(kinds, key=lambda path: len(path.parts)):
        above = next((found[up] for up in path.parents if up in found), None)
        around = above.kind if above else "readable"
        if kinds[path] != around and (kinds[path], around) != ("readable", "writable"):
            found[path] = Layer(path, kinds[path], above)
    return tuple(sorted((found[path] for path in kinds if path in found), key=Layer.depth))


def _closed(policy: Policy) -> Iterable[Path]:
    return (policy.home,) if policy.home else ()
