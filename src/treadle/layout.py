"""Spell every path that treadle uses: inside a repository and in the user's folders."""

import binascii
import os
from collections.abc import Mapping
from pathlib import Path

HOME_NAME = ".treadle"
CONFIG_NAMES = ("config.toml", "config.json")


class Layout:
    """The paths of one project, from its root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / HOME_NAME
        self.database = self.home / "treadle.db"
        self.locks = self.home / "locks"
        self.run_lock = self.locks / "run.lock"
        self.store_lock = self.locks / "store.lock"
        self.runs = self.home / "runs"
        self.routines = self.home / "routines"
        self.home_gitignore = self.home / ".gitignore"
        self.config_toml = self.home / "config.toml"
        self.specs = root / "specs"
        self.root_gitignore = root / ".gitignore"

    def config_files(self) -> list[Path]:
        """Return the project's configuration files that exist."""
        return [path for name in CONFIG_NAMES if (path := self.home / name).is_file()]

    def run(self, run_id: str) -> "RunLayout":
        """Return the paths of one run."""
        return RunLayout(self.runs / run_id)

    def relative(self, path: Path) -> str:
        """Spell a path the way the store keeps it: relative to the root, so projects may move."""
        return path.relative_to(self.root).as_posix()


class RunLayout:
    """The paths of one run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run_json = folder / "run.json"
        self.readme = folder / "treadle.md"
        self.spec = folder / "spec.md"
        self.workspace_link = folder / "workspace"
        self.index = folder / "index"
        self.live = folder / "live"
        self.steps = folder / "steps"
        self.interrupted = folder / "interrupted"
        self.landing = folder / "landing"

    def step(self, index: int, role: str) -> Path:
        """Return a committed step's folder."""
        return self.steps / step_name(index, role)

    def staged(self, index: int, role: str, rand: str) -> Path:
        """Return the temporary name a step's folder has until it is committed."""
        return self.steps / f"{step_name(index, role)}.tmp-{rand}"


def step_name(index: int, role: str) -> str:
    """Return `003-check` for the third step."""
    return f"{index:03d}-{role}"


def cache_home(env: Mapping[str, str]) -> Path:
    """Return the folder that holds workspaces."""
    return _xdg(env, "XDG_CACHE_HOME", ".cache") / "treadle"


def workspace_root(env: Mapping[str, str], root: Path) -> Path:
    """Return the folder of one repository's workspaces, unique by its path."""
    digest = binascii.crc32(os.fsencode(root))
    return cache_home(env) / f"{root.name or 'root'}-{digest:08x}"


def trust_file(env: Mapping[str, str]) -> Path:
    """Return the record of the repositories the user trusts."""
    return _xdg(env, "XDG_STATE_HOME", ".local/state") / "treadle" / "trust.json"


def user_config(env: Mapping[str, str]) -> Path:
    """Return the user's own configuration file."""
    return _xdg(env, "XDG_CONFIG_HOME", ".config") / "treadle" / "config.toml"


def bug_log(env: Mapping[str, str], stamp: str) -> Path:
    """Return where the report of a bug in treadle itself is written."""
    return _xdg(env, "XDG_STATE_HOME", ".local/state") / "treadle" / f"bug-{stamp}.log"


def _xdg(env: Mapping[str, str], variable: str, fallback: str) -> Path:
    value = env.get(variable, "")
    return Path(value) if value.startswith("/") else Path(env.get("HOME") or "/") / fallback
