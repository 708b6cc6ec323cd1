"""Say what a child process may reach."""

import functools
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

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


class Policy(NamedTuple):
    """Where a child may write, what it may not read, and whom it may talk to."""

    writable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    network: bool = True
    unix_sockets: bool = False

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
    return tuple(dict.fromkeys(path.resolve() for path in paths if os.access(path, os.F_OK)))
