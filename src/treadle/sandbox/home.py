"""Choose what of the user's home a child may read: toolchains, caches and settings, no logins."""

import functools
import os
import re
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from treadle.proc import environment
from treadle.sandbox.policy import (
    HIDDEN,
    Place,
    Policy,
    Settled,
    expand,
    real,
    settled,
)

_LISTS = tomllib.loads(Path(__file__).with_name("home.toml").read_text())
_READABLE, _SECRETS = (tuple(_LISTS[name].split()) for name in ("readable", "secrets"))
CACHES: dict[str, dict[str, str]] = _LISTS["caches"]
VARIABLES = ".env"  # how the files begin that hold them: `.env.local`, `.envrc`
_FOLDERS = {"HOME", "PATH", "TMPDIR", "SHELL"}
_HOMES = ("/home", "/root")
_SHARED = ("/home/linuxbrew/.linuxbrew",)  # a toolchain, whatever its path looks like
_PROGRAMS = ("/bin", "/sbin", "/Scripts", "/shims")
_INSTALLED = ("lib", "lib64", "libexec", "pyvenv.cfg", "conda-meta")  # beside a folder of programs
_NAMED = re.compile(
    rb"^\s*(?:path|excludesfile|attributesfile|hookspath|template|templatedir)\s*=\s*\"?([^\"\n#;]+)",
    re.IGNORECASE | re.MULTILINE,
)
_MAX_SETTINGS = 1 << 20
_MAX_INCLUDES = 3
_KEPT = 60.0  # seconds before it is looked again what toolchains there are
# Nanoseconds in which a file system may give two changes the same time.
_YOUNG = 100_000_000
_NOBODYS = ("/usr/", "/bin", "/sbin", "/opt/", "/snap/")  # large folders that are in no home
_MOVED = {"XDG_CACHE_HOME": ".cache", "XDG_CONFIG_HOME": ".config", "XDG_DATA_HOME": ".local/share"}

# The home, what the user hides, what is secret, what may be read unless it leads there.
Looked = tuple[str, tuple[Path, ...], tuple[str, ...], tuple[str, ...]]


def closed(
    env: Mapping[str, str],
    *,
    hide: Iterable[str] = HIDDEN,
    read: Iterable[str] = (),
    places: Iterable[Path] = (),
) -> Policy:
    """Return a policy under which little of the home can be read, and nothing be written.

    `read` is what the user adds; `hide` wins over it. `places` are treadle's own for this
    command, wherever they lie.
    """
    home = real(env.get("HOME") or "/") or os.path.realpath(env["HOME"])
    hidden, asked = expand(hide, env), tuple(map(str, expand(read, env)))
    if home == "/":
        return Policy(hidden=hidden)
    secrets = tuple(path for path in moved(_SECRETS, home, env) if path not in asked)
    found = (*_candidates(home, tuple(env.items()), time.monotonic() // _KEPT), *asked)
    paths, now = (home, hidden, secrets, found), time.time_ns()
    stamps = tuple(_stamp(folder, now) for folder in _folders(paths))
    # What becomes of places that links lead to is told by none of these folders.
    look = _look if _is_plain(paths, stamps) else _look.__wrapped__
    shut, readable, closed = look(paths, stamps)
    own = _places(places, home, closed)
    return Policy(hidden=shut, home=Path(home), readable=(*readable, *own))


@functools.lru_cache(maxsize=16)
def _look(paths: Looked, _: object) -> tuple[tuple[Settled, ...], tuple[str, ...], tuple[str, ...]]:
    """Return what is shut, what may be read, and the beginnings of what the user hides."""
    home, hidden, secrets, found = paths
    homes, there = _homes(home), _names(home)
    closed = settled(_in_home(hidden, home, there))
    known = settled(_in_home(secrets, home, there))
    secret = tuple(f"{path}/" for path in (*closed, *known))
    readable = tuple(_open(found, home, homes, secret))
    return (*closed, *known, *homes), readable, secret[: len(closed)]


@functools.lru_cache(maxsize=16)
def _is_plain(paths: Looked, _: object) -> bool:
    home, hidden, secrets, found = paths
    there = (*_in_home((*hidden, *secrets), home, _names(home)), *found)
    return all((real(path) or path) == path and not Path(path).is_symlink() for path in there)


@functools.lru_cache(maxsize=16)
def _folders(paths: Looked) -> tuple[str, ...]:
    """Return every folder on the way to what is looked for: no name comes or goes without it."""
    home, hidden, secrets, found = paths
    above = dict.fromkeys(("/", home, *_HOMES))
    for path in (*map(str, hidden), *secrets, *found):
        while (path := _parent(path) or "/") not in above:
            above[path] = None
    return tuple(above)


def _stamp(folder: str, now: int) -> tuple[int, ...]:
    """Return how a folder looks now; one that has just changed looks new every time."""
    try:
        found = os.stat(folder)  # noqa: PTH116  # text paths, on every start
    except OSError:
        return ()
    at = found.st_ctime_ns
    return found.st_dev, found.st_ino, at, now if now - at < _YOUNG else 0


def _names(home: str) -> set[str] | None:
    """List a home, if that is allowed: of the many names that may be there, few are."""
    try:
        return set(os.listdir(home))  # noqa: PTH208  # text, on every start
    except OSError:
        return None


def _in_home(paths: Iterable[Place], home: str, there: set[str] | None) -> Iterator[str]:
    """Yield paths but for those in the home that cannot be there."""
    above = f"{home}/"
    for path in map(str, paths):
        first = path[len(above) :].partition("/")[0] if path.startswith(above) else ""
        if not first or there is None or first in there:
            yield path


@functools.lru_cache(maxsize=16)
def _candidates(home: str, variables: tuple[tuple[str, str], ...], _: float) -> tuple[str, ...]:
    """Return what might be read: whether it leads to a secret is looked at with every start."""
    env = dict(variables)
    found = (
        *moved(_READABLE, home, env),
        *_SHARED,
        *_git_files(home, env),
        *_from_environment(env),
        *_programs(env),
        *(sys.prefix, sys.base_prefix, str(Path(__file__).parents[2])),  # treadle's own
    )
    return tuple(filter(os.path.lexists, dict.fromkeys(found)))


def is_known(path: str, policy: Policy) -> bool:
    """Tell whether it is treadle itself that hides this, not the user."""
    home, name = str(policy.home), path.rpartition("/")[2]
    is_listed = path.removeprefix(f"{home}/") in _SECRETS or path in _homes(home)
    return is_listed or name.startswith(VARIABLES)


def _places(places: Iterable[Path], home: str, closed: tuple[str, ...]) -> Iterator[Path]:
    """Yield those that neither hold the home nor lie in what the user hides."""
    for path in places:
        if (at := real(path)) and not _holds(at, home) and not f"{at}/".startswith(closed):
            yield path


def moved(names: tuple[str, ...], home: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return names as paths; a user may keep caches, settings and data somewhere else."""
    return _in_their_place(names, home, tuple(env.get(name, "") for name in _MOVED))


@functools.lru_cache(maxsize=16)
def _in_their_place(names: tuple[str, ...], home: str, bases: tuple[str, ...]) -> tuple[str, ...]:
    moved = [(usual, at) for usual, at in zip(_MOVED.values(), bases, strict=True) if at[:1] == "/"]

    def place(name: str) -> str:
        for usual, base in moved:
            if f"{name}/".startswith(f"{usual}/"):
                return base + name[len(usual) :]
        return f"{home}/{name}"

    return tuple(map(place, names))


def _git_files(home: str, env: Mapping[str, str]) -> Iterator[str]:
    """Yield what the user's settings of git name: ignores, attributes, further settings."""
    folder = env.get("XDG_CONFIG_HOME") or f"{home}/.config"
    yield from _named_in(f"{home}/.gitconfig", home)
    yield from _named_in(f"{folder}/git/config", home)


def _named_in(path: str, home: str, depth: int = 0) -> Iterator[str]:
    try:
        with Path(path).open("rb") as handle:
            names = _NAMED.findall(handle.read(_MAX_SETTINGS))
    except OSError:
        return
    for text in names:
        name = os.fsdecode(text.strip())
        full = f"{home}{name[1:]}" if name.startswith("~/") else str(Path(path).parent / name)
        yield os.path.normpath(full)
        if depth < _MAX_INCLUDES:
            yield from _named_in(full, home, depth + 1)


def _from_environment(env: Mapping[str, str]) -> Iterator[str]:
    """Yield where the variables that every child gets say that toolchains and certificates are."""
    for name, value in environment.allowed(env).items():
        if value.startswith("/") and name not in _FOLDERS and not name.startswith("XDG_"):
            yield from value.split(os.pathsep)


def _programs(env: Mapping[str, str]) -> Iterator[str]:
    """Yield the folders of the programs on PATH, and where they are installed."""
    for folder in program_folders(env):
        yield from _installation(folder)
        yield from _linked(folder)


def program_folders(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the folders of programs that may lie in a home."""
    found = dict.fromkeys(env.get("PATH", "").split(os.pathsep))
    return tuple(it for it in found if it.startswith("/") and not it.startswith(_NOBODYS))


def installation(program: str) -> tuple[Path, ...]:
    """Return what a program needs to be read to run: itself, and where it is installed."""
    real = os.path.realpath(program)
    folders = (*_installation(_parent(program)), *_installation(_parent(real)))
    return tuple(Path(path) for path in dict.fromkeys((program, real, *folders)))


def _installation(folder: str) -> tuple[str, ...]:
    """Return a folder of programs, with all around it if that looks installed."""
    above, _, name = os.path.normpath(folder).rpartition("/")
    if f"/{name}" not in _PROGRAMS:
        return (folder,) if name else ()
    is_whole = any(os.path.lexists(f"{above}/{beside}") for beside in _INSTALLED)
    return (above,) if is_whole and not above.endswith("/.local") else (folder,)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _linked(folder: str) -> Iterator[str]:
    """Yield where the links in a folder lead, each with its installation."""
    try:
        with os.scandir(folder) as items:
            links = [item.path for item in items if item.is_symlink()]
    except OSError:
        return
    for link in links:
        yield from _target(os.path.realpath(link))


def _target(path: str) -> tuple[str, ...]:
    before, packages, _ = path.partition("/node_modules/")
    if packages:
        return (f"{before}/node_modules",)
    folder = _parent(path)
    return (path, *(_installation(folder) if folder.endswith(_PROGRAMS) else ()))


def _homes(home: str) -> tuple[Settled, ...]:
    """Return the folders that hold homes, this user's perhaps among them, if one may look in."""
    found = (real(path) for path in _HOMES if os.access(path, os.R_OK | os.X_OK))
    return tuple(path for path in found if path != home and os.listdir(path))  # noqa: PTH208  # text paths, on every start


def _open(
    paths: Iterable[str], home: str, homes: tuple[str, ...], secret: tuple[str, ...]
) -> Iterator[str]:
    """Yield what needs a rule, and leads neither to a home as a whole nor to a secret."""
    for path in paths:
        full = real(path)
        is_shut = not full or _holds(full, home) or f"{full}/".startswith(secret)
        if not is_shut and (_is_below(full, (home, *homes)) or _is_below(path, (home,))):
            yield full if full == path else path


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(f"{folder}/") for folder in folders)


def _holds(path: str | Path, home: str) -> bool:
    """Tell whether the home is this folder or lies in it."""
    return f"{home}/".startswith(f"{str(path).rstrip('/')}/")
