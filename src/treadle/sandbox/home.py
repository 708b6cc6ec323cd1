"""Choose what of the user's home a child may read: toolchains, caches and settings, no logins."""

import contextlib
import functools
import os
import re
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path

from treadle.proc import environment
from treadle.sandbox.policy import HIDDEN, Closed, Policy, expand, layers, real, settled

_LISTS = tomllib.loads((resources.files("treadle.sandbox") / "home.toml").read_text())
_READABLE, _SECRETS = _LISTS["readable"].split(), _LISTS["secrets"].split()
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
_NOBODYS = ("/usr/", "/bin", "/sbin", "/opt/", "/snap/")  # large folders that are in no home
_MOVED = {"XDG_CACHE_HOME": ".cache", "XDG_CONFIG_HOME": ".config", "XDG_DATA_HOME": ".local/share"}


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
    home = os.path.realpath(env.get("HOME") or "/")
    hidden, asked = expand(hide, env), tuple(map(str, expand(read, env)))
    if home == "/":
        return Policy(hidden=hidden)
    homes, closed = _homes(home), settled(hidden)
    known = settled(path for path in _moved(_SECRETS, home, env) if path not in asked)
    secret = tuple(f"{path}/" for path in (*closed, *known))
    found = (*_candidates(home, tuple(env.items()), time.monotonic() // _KEPT), *asked)
    readable = (path for path in found if _is_open(path, home, homes, secret))
    own = _places(places, home, secret[: len(closed)])
    return Policy(
        hidden=(*hidden, *known, *map(Path, homes)),
        home=Path(home),
        readable=(*map(Path, readable), *own),
    )


@functools.lru_cache(maxsize=16)
def _candidates(home: str, variables: tuple[tuple[str, str], ...], _: float) -> tuple[str, ...]:
    """Return what might be read: whether it leads to a secret is looked at with every start."""
    env = dict(variables)
    found = (
        *_moved(_READABLE, home, env),
        *_SHARED,
        *_git_files(home, env),
        *_from_environment(env),
        *_programs(env),
        *(sys.prefix, sys.base_prefix, str(Path(__file__).parents[2])),  # treadle's own
    )
    return tuple(filter(os.path.lexists, dict.fromkeys(found)))


def is_known(path: str, policy: Policy) -> bool:
    """Tell whether it is treadle itself that hides this, not the user."""
    home = str(policy.home)
    return path.removeprefix(f"{home}/") in _SECRETS or path in _homes(home)


def unreadable_programs(policy: Policy, env: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return programs on PATH with the file behind them, where a child could not read that."""
    closed, found = Closed(layers(policy)), []
    for folder in _path(env):
        with contextlib.suppress(OSError):
            for item in sorted(Path(folder).iterdir()):
                target = real(item)
                if target and closed.around(target) and os.access(target, os.X_OK):
                    found.append((str(item), target))
    return found


def _places(places: Iterable[Path], home: str, closed: tuple[str, ...]) -> Iterator[Path]:
    """Yield those that neither hold the home nor lie in what the user hides."""
    for path in places:
        found = real(path)
        if found and not _holds(found, home) and not f"{found}/".startswith(closed):
            yield path


def _moved(names: Iterable[str], home: str, env: Mapping[str, str]) -> Iterator[str]:
    """Yield names as paths; a user may keep caches, settings and data somewhere else."""
    bases = {usual: env.get(name, "") for name, usual in _MOVED.items()}
    for name in names:
        usual = next((it for it in bases if f"{name}/".startswith(f"{it}/")), "")
        if usual and bases[usual].startswith("/"):
            yield bases[usual] + name[len(usual) :]
        else:
            yield f"{home}/{name}"


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
    for folder in _path(env):
        yield from _installation(folder)
        yield from _linked(folder)


def _path(env: Mapping[str, str]) -> tuple[str, ...]:
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


def _homes(home: str) -> tuple[str, ...]:
    """Return the folders that hold homes, this user's perhaps among them, if one may look in."""
    found = (os.path.realpath(path) for path in _HOMES if os.access(path, os.R_OK | os.X_OK))
    return tuple(path for path in found if path != home and os.listdir(path))  # noqa: PTH208  # text paths, on every start


def _is_open(path: str, home: str, homes: tuple[str, ...], secret: tuple[str, ...]) -> bool:
    """Tell whether this needs a rule, and leads neither to a home as a whole nor to a secret."""
    full = real(path)
    if not full or _holds(full, home) or f"{full}/".startswith(secret):
        return False
    return _is_below(full, (home, *homes)) or _is_below(path, (home,))


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(f"{folder}/") for folder in folders)


def _holds(path: str | Path, home: str) -> bool:
    """Tell whether the home is this folder or lies in it."""
    return f"{home}/".startswith(f"{str(path).rstrip('/')}/")
