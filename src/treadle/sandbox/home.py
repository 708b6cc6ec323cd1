"""Choose what of the user's home a child may read: toolchains, caches and settings, no logins."""

import contextlib
import functools
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from treadle.proc import environment
from treadle.sandbox.policy import HIDDEN, Closed, Policy, expand, layers, real, settled

# Toolchains and caches as they lie in a home. Few and coarse where that is safe: in tier A
# every one that exists is a mount.
_READABLE = """
    .asdf .bun .cabal/bin .cabal/packages .cabal/store .cache .cargo .ccache .conda/envs .conda/pkgs
    .config/fontconfig .config/git .config/matplotlib .config/mise .config/nvm .coursier .cpan .deno
    .dotnet .elan .fnm .fonts .gem .ghcup .gitattributes .gitconfig .gitignore .gitignore_global
    .gradle .hex/packages .inputrc .ivy2/cache .jbang .jdks .jenv .julia .juliaup .local/bin
    .local/lib .local/pipx .local/share/asdf .local/share/coursier .local/share/fnm
    .local/share/fonts .local/share/gem .local/share/gopls .local/share/jupyter .local/share/mise
    .local/share/nvm .local/share/pdm .local/share/pipx .local/share/pnpm .local/share/pypoetry
    .local/share/rtx .local/share/uv .local/share/virtualenv .local/share/virtualenvs
    .local/state/nix .luarocks .m2 .mix .n .nimble .nix-profile .nodenv .npm .npm-global
    .npm-packages .nuget/packages .nvm .opam .phpenv .plenv .pnpm-store .pub-cache .pyenv .rbenv
    .rustup .rvm .sdkman .ssl .stack .swiftpm .virtualenvs .volta .yarn anaconda3 go mambaforge
    micromamba miniconda3 miniforge3 perl5 Library/Caches Library/Java Library/Python Library/pnpm
"""
# What holds keys and logins inside of those.
_SECRETS = """
    .cache/BraveSoftware .cache/chromium .cache/google-chrome .cache/huggingface/stored_tokens
    .cache/huggingface/token .cache/microsoft-edge .cache/mozilla .cache/opencode .cache/thunderbird
    .cache/treadle .cargo/credentials .cargo/credentials.toml .config/git/credentials
    .gem/credentials .gradle/gradle.properties .gradle/init.d .gradle/init.gradle
    .julia/servers .local/share/gem/credentials .local/share/jupyter/runtime .m2/settings.xml
    .m2/settings-security.xml .pub-cache/credentials.json
    .stack/upload Library/Caches/Google Library/Caches/Firefox
"""
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
_MAX_KEPT = 64
_FRESH = 50 * 10**6  # nanoseconds: clocks of file systems are coarse
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
    key = (tuple(env.items()), tuple(hide), tuple(read))
    kept = _KEPT.get(key)
    if not kept or kept.stamp != _stamp(kept.watched):
        if len(_KEPT) >= _MAX_KEPT:
            _KEPT.clear()
        kept = _KEPT[key] = _choose(dict(env), tuple(hide), tuple(read))
    found = kept.policy
    if found.home is None:
        return found
    own = _places(places, str(found.home), expand(hide, env))
    return found._replace(readable=(*found.readable, *own))


class _Kept(NamedTuple):
    """What was chosen once, and the folders and files whose times tell that it still holds."""

    policy: Policy
    watched: tuple[str, ...]
    stamp: tuple[int, ...]


_KEPT: dict[tuple[object, ...], _Kept] = {}


def _stamp(watched: tuple[str, ...]) -> tuple[int, ...]:
    """Return when each was changed; what changed just now may change again and look the same."""
    found = tuple(map(_changed, watched))
    return (*found, time.time_ns()) if max(found) > time.time_ns() - _FRESH else found


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116  # text paths, on every start
    except OSError:
        return 0


def _choose(env: dict[str, str], hide: tuple[str, ...], read: tuple[str, ...]) -> _Kept:
    home = os.path.realpath(env.get("HOME") or "/")
    hidden, asked = expand(hide, env), expand(read, env)
    if home == "/":
        return _Kept(Policy(hidden=hidden), ("/",), _stamp(("/",)))
    listed, known = _lists(home, tuple(env.get(name, "") for name in _MOVED))
    known = tuple(path for path in known if path not in asked)
    homes = _homes(home)
    settings = tuple(_git_files(home, env))
    found = (
        *listed,
        *_SHARED,
        *settings,
        *_from_environment(env),
        *_programs(env),
        *_own(),
        *map(str, asked),
    )
    folders = map(_parent, (*found, *map(str, known)))
    more = (*settings, *_git_settings(home, env), *_path(env), *_HOMES)
    watched = tuple(dict.fromkeys((*folders, *more)))
    stamp = _stamp(watched)
    secret = tuple(f"{path}/" for path in settled((*hidden, *known)))
    readable = (path for path in dict.fromkeys(found) if _is_open(path, home, homes, secret))
    policy = Policy(
        hidden=(*hidden, *settled(known), *map(Path, homes)),
        home=Path(home),
        readable=tuple(map(Path, readable)),
    )
    return _Kept(policy, watched, stamp)


def is_known(path: str, policy: Policy) -> bool:
    """Tell whether it is treadle itself that hides this, not the user."""
    home = str(policy.home)
    return path.removeprefix(f"{home}/") in _SECRETS.split() or path in _homes(home)


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


def _places(places: Iterable[Path], home: str, hidden: tuple[Path, ...]) -> Iterator[Path]:
    """Yield those that neither hold the home nor lie in what the user hides."""
    closed = tuple(f"{path}/" for path in settled(hidden))
    for path in places:
        found = real(path)
        if found and not _holds(found, home) and not f"{found}/".startswith(closed):
            yield path


@functools.lru_cache(maxsize=16)
def _lists(home: str, moved: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """Return both lists as paths; a user may keep caches, settings and data somewhere else."""
    bases = {usual: full for usual, full in zip(_MOVED.values(), moved, strict=True) if full}

    def full(name: str) -> str:
        for usual, base in bases.items():
            if f"{name}/".startswith(f"{usual}/") and base.startswith("/"):
                return base + name[len(usual) :]
        return f"{home}/{name}"

    return tuple(map(full, _READABLE.split())), tuple(Path(full(name)) for name in _SECRETS.split())


def _git_files(home: str, env: Mapping[str, str]) -> Iterator[str]:
    """Yield what the user's settings of git name: ignores, attributes, further settings."""
    for path in _git_settings(home, env):
        yield from _named_in(path, home)


def _git_settings(home: str, env: Mapping[str, str]) -> tuple[str, str]:
    return f"{home}/.gitconfig", f"{env.get('XDG_CONFIG_HOME') or f'{home}/.config'}/git/config"


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


@functools.cache
def _own() -> tuple[str, ...]:
    """Return the interpreter that runs treadle, and its libraries."""
    return (sys.prefix, sys.base_prefix, str(Path(__file__).parents[2]))


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
