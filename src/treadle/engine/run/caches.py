"""Lead package managers to caches: private ones, the user's own, and what a setup has fetched."""

import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path

from treadle.sandbox.home import CACHES, moved

_CARGO_SETTINGS = "config.toml"


def private_caches(place: Path, env: Mapping[str, str]) -> dict[str, str]:
    """Return variables that lead package managers to caches below `place`, and make these."""
    found = {name: place / folder for name, folder in CACHES["private"].items()}
    for path in found.values():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = Path(env.get("CARGO_HOME") or f"{env.get('HOME')}/.cargo", _CARGO_SETTINGS)
    if settings.is_file():  # which mirror the user has
        with contextlib.suppress(FileExistsError):
            (found["CARGO_HOME"] / _CARGO_SETTINGS).symlink_to(settings)
    return {name: str(path) for name, path in found.items()}


def fetched(place: Path, temporary: Path) -> dict[str, str]:
    """Return variables that lead builds to what a setup has fetched below `place`."""
    signs = [(name, place / it) for name, them in CACHES["builds"].items() for it in them.split()]
    found = {name: str(sign.parent) for name, sign in signs if sign.exists()}
    return found | ({"GOCACHE": f"{temporary}/go-build"} if "GOMODCACHE" in found else {})


def shared_caches(env: Mapping[str, str]) -> tuple[Path, ...]:
    """Return where the package managers on PATH keep their caches in the home."""
    there = [name for name in CACHES["shared"] if shutil.which(name, path=env.get("PATH", ""))]
    names = tuple(path for name in there for path in CACHES["shared"][name].split())
    return tuple(map(Path, moved(names, env.get("HOME") or "/", env)))
