"""Give each tool a folder of its own for its state, with the user's login and nothing else."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from treadle import layout
from treadle.agents.tool import Tool
from treadle.errors import FormatError
from treadle.files import atomic, walk
from treadle.store.lock import WriteLock

_MAX_LOGIN = 1 << 20


def folder(tool: Tool, env: Mapping[str, str]) -> Path:
    """Return the tool's managed folder, which parallel runs share."""
    return layout.agent_state(env, tool.name)


def has_key(tool: Tool, env: Mapping[str, str]) -> bool:
    """Tell whether an API key in the environment makes a login needless."""
    return any(env.get(name) for name in tool.keys)


def login(tool: Tool, env: Mapping[str, str]) -> Path | None:
    """Return the user's own login file, if there is one."""
    paths = (_home(tool, env) / name for name in tool.logins)
    return next((path for path in paths if path.is_file()), None)


@contextlib.contextmanager
def lent(tool: Tool, env: Mapping[str, str]) -> Iterator[None]:
    """Lend the tool the user's login while it works."""
    lend(tool, env)
    try:
        yield
    finally:
        give_back(tool, env)


def lend(tool: Tool, env: Mapping[str, str]) -> Path:
    """Make the folder ready: a login newer than the copy goes in, with an API key none stays."""
    place = folder(tool, env)
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.closing(_lock(tool, env)) as lock, lock:
        for name in tool.logins:
            if has_key(tool, env):
                (place / name).unlink(missing_ok=True)
            else:
                _copy(_home(tool, env) / name, place / name)
    return place


def give_back(tool: Tool, env: Mapping[str, str]) -> None:
    """Hand a login that the tool has refreshed back to the user: refresh tokens work once."""
    if has_key(tool, env):
        return
    with contextlib.closing(_lock(tool, env)) as lock, lock:
        for name in tool.logins:
            own = _home(tool, env) / name
            if own.is_file():
                _copy(folder(tool, env) / name, own)


def _lock(tool: Tool, env: Mapping[str, str]) -> WriteLock:
    return WriteLock(folder(tool, env).with_suffix(".lock"))


def _home(tool: Tool, env: Mapping[str, str]) -> Path:
    """Return where the user's own installation keeps its state."""
    own = env.get(tool.state_variable, "")
    return Path(own) if own.startswith("/") else Path(env.get("HOME") or "/") / tool.home


def _copy(source: Path, target: Path) -> None:
    """Copy a file that is newer; links stay where they are, written through by nobody."""
    with contextlib.suppress(OSError, FormatError):
        newer = not target.exists() or source.stat().st_mtime_ns > target.stat().st_mtime_ns
        if newer and source.is_file():
            data = walk.read(source.resolve(), max_bytes=_MAX_LOGIN)
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            atomic.write(target.resolve(), data, mode=0o600)
