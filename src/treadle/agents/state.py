"""Give each tool a folder of its own for its state, with the user's login and nothing else."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from treadle import layout
from treadle.agents.tool import Tool
from treadle.errors import NotFoundError
from treadle.files import atomic, beneath
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
    """Make the folder ready: a login newer than the copy goes in, with an API key none stays.

    What is in there is the tool's to change, so that no name in it is trusted.
    """
    place = folder(tool, env)
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.closing(_lock(tool, env)) as lock, lock:
        for name in tool.logins:
            own, copy = _read(_home(tool, env), name), _copy(place, name)
            if has_key(tool, env):
                beneath.remove(place, name)
            elif own and (copy is None or own.changed > copy.changed):
                beneath.write(place, name, own.data)
    return place


def give_back(tool: Tool, env: Mapping[str, str]) -> None:
    """Hand a login that the tool has refreshed back to the user: refresh tokens work once."""
    if has_key(tool, env):
        return
    with contextlib.closing(_lock(tool, env)) as lock, lock:
        for name in tool.logins:
            own, copy = _read(_home(tool, env), name), _copy(folder(tool, env), name)
            if own and copy and copy.data != own.data and copy.changed > own.changed:
                atomic.write((_home(tool, env) / name).resolve(), copy.data, mode=0o600)


class _Login(NamedTuple):
    data: bytes
    changed: int


def _read(home: Path, name: str) -> _Login | None:
    """Read the user's own login, which may well be a link."""
    path = (home / name).resolve()
    return _copy(path.parent, path.name)


def _copy(place: Path, name: str) -> _Login | None:
    try:
        with beneath.opened(place, name) as stream:
            data = stream.read(_MAX_LOGIN + 1)
            changed = os.fstat(stream.fileno()).st_mtime_ns
    except (NotFoundError, OSError):
        return None
    return _Login(data, changed) if len(data) <= _MAX_LOGIN else None


def _lock(tool: Tool, env: Mapping[str, str]) -> WriteLock:
    return WriteLock(folder(tool, env).with_suffix(".lock"))


def _home(tool: Tool, env: Mapping[str, str]) -> Path:
    """Return where the user's own installation keeps its state."""
    own = env.get(tool.state_variable, "")
    return Path(own) if own.startswith("/") else Path(env.get("HOME") or "/") / tool.home
