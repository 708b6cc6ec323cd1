"""Read a repository's settings once, and notice programs that appear in them later."""

import os
import shlex
from pathlib import Path
from typing import NamedTuple

from treadle.errors import GitError
from treadle.files import walk
from treadle.git import call
from treadle.git.repo import Repo

_COMMANDS = ("clean", "smudge", "process")
_TEXT_MERGE = "git merge-file --marker-size=%L %A %O %B"


class Setting(NamedTuple):
    """One setting: `local` and `worktree` are the repository's own scopes."""

    scope: str
    key: str
    value: str

    @property
    def is_local(self) -> bool:
        """Tell whether the repository itself brings this setting."""
        return self.scope in ("local", "worktree")


# How a settings file looked; nothing if it was not there.
Stamp = tuple[Path, tuple[int, ...]]


class GitSettings(NamedTuple):
    """All settings in force, and the files they came from."""

    entries: tuple[Setting, ...]
    stamps: tuple[Stamp, ...]

    def get(self, key: str) -> str | None:
        """Return the value in force."""
        values = [entry.value for entry in self.entries if entry.key == key]
        return values[-1] if values else None

    def filters(self) -> dict[str, dict[str, str]]:
        """Return each content filter with its commands."""
        found: dict[str, dict[str, str]] = {}
        for entry in self.entries:
            section, _, name = entry.key.partition(".")
            driver, _, command = name.rpartition(".")
            if section == "filter" and command in _COMMANDS:
                found.setdefault(driver, {})[command] = entry.value
        return found


def read(repo: Repo) -> GitSettings:
    """Read all settings in force."""
    listing = call.out(["config", "--list", "-z", "--show-origin", "--show-scope"], repo.place)
    fields = os.fsdecode(listing).split("\0")
    rows = list(zip(fields[0::3], fields[1::3], fields[2::3], strict=False))
    entries = tuple(_entry(scope, text) for scope, _, text in rows if scope != "command")
    files = {Path("/", row[1].removeprefix("file:")) for row in rows if row[1].startswith("file:")}
    files |= {repo.common_dir / "config", repo.git_dir / "config.worktree"}
    return GitSettings(entries, tuple(_stamp(path) for path in sorted(files)))


def disabled_filters(repo: Repo, trusted: GitSettings) -> tuple[str, ...]:
    """Return the filters that must not run in a workspace.

    These are filters that were not there, or ran something else, when `trusted` was read, and
    filters whose program lies in the work tree: in a workspace that is the agent's copy.
    """
    is_same = all(stamp == _stamp(stamp[0]) for stamp in trusted.stamps)
    now = trusted if is_same else read(repo)
    known = trusted.filters()
    return tuple(
        driver
        for driver, commands in now.filters().items()
        if known.get(driver) != commands or _lies_in_tree(repo.root, commands)
    )


def plain_merges(repo: Repo) -> tuple[str, ...]:
    """Return the settings that put git's own text merge in place of the repository's drivers."""
    found = [entry.key.split(".", 1) for entry in read(repo).entries if entry.is_local]
    names = [name for section, name in found if section == "merge" and name.endswith(".driver")]
    drivers = tuple(name.removesuffix(".driver") for name in dict.fromkeys(names))
    _require_plain(drivers, "merge")
    return tuple(f"merge.{driver}.driver={_TEXT_MERGE}" for driver in drivers)


def switches(drivers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the settings that turn content filters off for one call of git."""
    _require_plain(drivers, "filter")
    off = [f"filter.{driver}.{command}=" for driver in drivers for command in _COMMANDS]
    return (*off, *(f"filter.{driver}.required=false" for driver in drivers))


def _require_plain(drivers: tuple[str, ...], section: str) -> None:
    """Refuse names that git's command line cannot carry."""
    for driver in drivers:
        if "=" in driver:
            raise GitError(
                f"the {section} driver {driver!r} must not run here and cannot be switched off",
                code="filter_refused",
                fix=[f"git config --remove-section '{section}.{driver}'"],
            )


def _entry(scope: str, text: str) -> Setting:
    key, found, value = text.partition("\n")
    return Setting(scope, key, value if found else "true")


def _stamp(path: Path) -> Stamp:
    try:
        state = path.stat()
    except OSError:
        return path, ()
    return path, (state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)


def _lies_in_tree(root: Path, commands: dict[str, str]) -> bool:
    words = [word for command in commands.values() for word in _words(command)]
    names = [word for word in words if "/" in word or "." in word]
    paths = [root / name for name in names if not name.startswith(("/", "~"))]
    # A word may be a whole program, and too long for a name.
    return any(os.path.lexists(path) and not walk.is_folder(path) for path in paths)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()
