"""Give each turn of a tool a folder of its own for its state, with the user's login in it.

The folder is the tool's to change, and an agent's: no name in it is trusted, and it goes with the
turn. It lies among treadle's own records, which no other agent can read.
"""

import contextlib
import fcntl
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from treadle import layout
from treadle.agents import login
from treadle.agents.login import Refreshed
from treadle.agents.tool import Tool
from treadle.errors import NotFoundError
from treadle.files import atomic, beneath, remove, walk
from treadle.store.database.sqlite import WriteLock

_MAX_LOGIN = 1 << 20
_IN_USE = ".in-use"


class Lent(NamedTuple):
    """A tool's folder, and the logins as they went in by the user's own files."""

    folder: Path
    tool: Tool
    logins: Mapping[str, tuple[Path, bytes]]

    def refreshed(self) -> Refreshed | None:
        """Return the login if the tool has refreshed it, and has done nothing else to it."""
        for name, (path, lent) in self.logins.items():
            found = _read(self.folder, name)
            if found is None or found == lent:
                continue
            if new := login.renewed(lent, found, self.tool.tokens, time.time()):
                return Refreshed(path, lent, *new)
        return None


def has_key(tool: Tool, env: Mapping[str, str]) -> bool:
    """Tell whether an API key in the environment makes a login needless."""
    return any(env.get(name) for name in tool.keys)


def own_login(tool: Tool, env: Mapping[str, str]) -> Path | None:
    """Return the user's own login file, if there is one."""
    paths = (_home(tool, env) / name for name in tool.logins)
    return next((path for path in paths if path.is_file()), None)


@contextlib.contextmanager
def lent(tool: Tool, env: Mapping[str, str]) -> Iterator[Lent]:
    """Make a folder with the user's login while the tool works; with an API key it is empty."""
    clear(env)
    place = layout.agent_states(env)
    folder = place / f"{tool.name}-{secrets.token_hex(8)}"
    with _held(place, folder):
        try:
            found = {} if has_key(tool, env) else _logins(tool, env)
            for name, (_, data) in found.items():
                beneath.write(folder, name, data)
            yield Lent(folder, tool, found)
        finally:
            _remove(folder)


def give_back(found: Refreshed, env: Mapping[str, str]) -> bool:
    """Renew the tokens in the user's own login, if nobody else has changed it meanwhile."""
    with _locked(layout.agent_states(env)):
        if _read(found.path.parent, found.path.name) != found.lent:
            return False
        atomic.write(found.path, found.data, mode=0o600)
    return True


def clear(env: Mapping[str, str]) -> None:
    """Remove the folders that killed processes left."""
    place = layout.agent_states(env)
    left = [name for name in walk.names(place) if name.endswith(_IN_USE)]
    if not left:
        return
    with _locked(place):
        for name in left:
            with contextlib.suppress(OSError), (place / name).open("rb") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(place / name.removesuffix(_IN_USE))


@contextlib.contextmanager
def _held(place: Path, folder: Path) -> Iterator[None]:
    """Make a folder and mark it as in use for as long as this process lives."""
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.ExitStack() as stack:
        with _locked(place):
            stream = stack.enter_context(folder.with_name(f"{folder.name}{_IN_USE}").open("xb"))
            fcntl.flock(stream, fcntl.LOCK_EX)
            folder.mkdir(mode=0o700)
        yield


def _remove(folder: Path) -> None:
    """Remove a folder and its mark; what resists is left for the next time."""
    with contextlib.suppress(OSError):
        remove.remove_tree(folder)
        folder.with_name(f"{folder.name}{_IN_USE}").unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[None]:
    with contextlib.closing(WriteLock(place / "lock")) as lock, lock:
        yield


def _logins(tool: Tool, env: Mapping[str, str]) -> dict[str, tuple[Path, bytes]]:
    found = {}
    for name in tool.logins:
        path = (_home(tool, env) / name).resolve()  # the user's own may well be a link
        data = _read(path.parent, path.name)
        if data is not None:
            found[name] = (path, data)
    return found


def _read(folder: Path, name: str) -> bytes | None:
    try:
        with beneath.opened(folder, name) as stream:
            data = stream.read(_MAX_LOGIN + 1)
    except (NotFoundError, OSError):
        return None
    return data if len(data) <= _MAX_LOGIN else None


def _home(tool: Tool, env: Mapping[str, str]) -> Path:
    """Return where the user's own installation keeps its state."""
    own = env.get(tool.state_variable, "")
    return Path(own) if own.startswith("/") else Path(env.get("HOME") or "/") / tool.home
