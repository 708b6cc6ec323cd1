"""Lend a tool a folder for its state, with the user's login in it, and take back a refreshed one.

The folder is the tool's to change, and an agent's: no name in it is trusted, and it goes with the
turn. It lies among treadle's own records, which no other agent can read.
"""

import base64
import binascii
import contextlib
import fcntl
import json
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from treadle import layout
from treadle.agents import settings
from treadle.agents.backend import Refreshed, Tool
from treadle.config.schema import AgentConfig
from treadle.contract import load_object
from treadle.errors import FormatError, NotFoundError
from treadle.files import atomic, beneath, walk
from treadle.store.sqlite import WriteLock

_LONGEST = 16 << 10
# A token is refreshed when its time is up: before that there is no honest reason for a new one.
_EARLY = 15 * 60 * 1000
_LATE = 400 * 24 * 3600 * 1000
# What names the account in a token that says so itself.
_WHO = ("iss", "sub", "email", "https://api.openai.com/auth.chatgpt_account_id")
_MAX_LOGIN = 1 << 20
_TOKEN = re.compile(rb'(?i)(token\w*|key|access|refresh)"\s*:\s*(\{\s*)?"[^"]')
_IN_USE = ".in-use"
_NOTHING_SAID = AgentConfig()


class Lent(NamedTuple):
    """A tool's folder, and the logins as they went in by the user's own files."""

    folder: Path
    tool: Tool
    logins: Mapping[str, tuple[Path, bytes]]
    env: Mapping[str, str] = {}

    @property
    def is_outdated(self) -> bool:
        """Tell whether the user's login is another one by now: somebody else has refreshed it."""
        return any(_read_login(it.parent, it.name) != lent for it, lent in self.logins.values())

    def refreshed(self) -> Refreshed | None:
        """Return the login if the tool has refreshed it, and has done nothing else to it."""
        for name, (path, lent) in self.logins.items():
            found = _read_login(self.folder, name)
            if found is None or found == lent:
                continue
            if new := renewed(lent, found, self.tool.tokens, time.time()):
                return Refreshed(path, lent, *new)
        return None


def renewed(
    lent: bytes, found: bytes, tokens: Sequence[str], now: float
) -> tuple[bytes, tuple[str, ...]] | None:
    """Return the login with its new tokens and their names; None unless only those are new.

    `tokens` are dotted paths into the file, where `*` is any key; numbers are the millisecond at
    which a token ends. Everything else must be as it was lent: keys, account, settings.
    """
    try:
        old = load_object(lent, source="login")
        new = load_object(found, source="login")
    except FormatError:
        return None
    rule = _Rule([tuple(token.split(".")) for token in tokens], int(now * 1000), [])
    merged = _merged(old, new, (), rule)
    if merged is None or not rule.renewed:
        return None
    return json.dumps(merged, indent=2).encode() + b"\n", tuple(rule.renewed)


def own_login(tool: Tool, env: Mapping[str, str]) -> Path | None:
    """Return the user's own login file, if there is one; a keychain may have the login instead."""
    found = (path for path, data in _logins(tool, env).values() if _TOKEN.search(data))
    return next(found, None)


def seen(tool: Tool, config: AgentConfig, env: Mapping[str, str]) -> str | None:
    """Say how a tool would log in, as far as that can be seen from outside."""
    if tool.chosen and not tool.chosen(config, env):
        return None
    if found := settings.key(tool, config, env) or own_login(tool, env):
        return str(found)
    is_said = tool.chosen or settings.own_files(tool, config, env)
    return "as its settings say" if is_said else None


@contextlib.contextmanager
def lend(tool: Tool, env: Mapping[str, str], config: AgentConfig = _NOTHING_SAID) -> Iterator[Lent]:
    """Make a folder while the tool works: with the user's login, unless an API key makes that
    needless, with the user's own settings if wished, and with a provider's credentials.
    """
    clear_states(env)
    place = layout.agent_states(env)
    folder = place / f"{tool.name}-{secrets.token_hex(8)}"
    with _held(place, folder):
        try:
            found = {} if settings.key(tool, config, env) else _logins(tool, env)
            own = settings.own_files(tool, config, env)
            more = settings.credentials(tool, config, env, folder)
            logins = {name: data for name, (_, data) in found.items()}
            for name, data in {**own, **more.files, **logins}.items():
                beneath.write(folder, name, data)
            yield Lent(folder, tool, found, more.env)
        finally:
            _remove(folder)


def give_back(found: Refreshed, env: Mapping[str, str]) -> bool:
    """Renew the tokens in the user's own login, if nobody else has changed it meanwhile."""
    with _locked(layout.agent_states(env)):
        if _read_login(found.path.parent, found.path.name) != found.lent:
            return False
        atomic.write(found.path, found.data, mode=0o600)
    return True


def clear_states(env: Mapping[str, str]) -> None:
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


def _read_login(folder: Path, name: str) -> bytes | None:
    try:
        with beneath.opened(folder, name) as stream:
            data = stream.read(_MAX_LOGIN + 1)
    except (NotFoundError, OSError):
        return None
    return data if len(data) <= _MAX_LOGIN else None


class _Rule(NamedTuple):
    tokens: Sequence[tuple[str, ...]]
    now: int
    renewed: list[str]


def _merged(
    old: Mapping[str, object], new: Mapping[str, object], above: tuple[str, ...], rule: _Rule
) -> dict[str, object] | None:
    """Return an object with its tokens renewed, those that end together with their end."""
    if set(old) != set(new):
        return None
    found, renewed = dict(old), []
    for key, was in old.items():
        here, value = (*above, key), new[key]
        if isinstance(was, dict) and isinstance(value, dict):
            if (inner := _merged(was, value, here, rule)) is None:
                return None
            found[key] = inner
        elif was != value:
            if not _is_token(rule.tokens, here) or not _may_follow(was, value, rule.now):
                return None
            found[key] = value
            renewed.append(key)
    ends = {key for key in old if _is_number(old[key]) and _is_token(rule.tokens, (*above, key))}
    if renewed and not ends <= set(renewed):
        return None
    rule.renewed.extend(".".join((*above, key)) for key in renewed)
    return found


def _is_token(allowed: Sequence[tuple[str, ...]], here: tuple[str, ...]) -> bool:
    return any(
        len(path) == len(here)
        and all(part in ("*", key) for part, key in zip(path, here, strict=True))
        for path in allowed
    )


def _may_follow(old: object, new: object, now: int) -> bool:
    if _is_number(old) and _is_number(new):
        return bool(old <= now + _EARLY and now < new <= now + _LATE)  # type: ignore[operator]  # numbers
    if not isinstance(old, str) or not isinstance(new, str):
        return False
    plain = new.isascii() and new.isprintable() and 0 < len(new) <= _LONGEST
    return plain and _who(old) == _who(new)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _who(token: str) -> list[object] | None:
    """Return whose token this is; None for one that does not say so."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        body = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        claims = load_object(body, source="token")
    except (FormatError, binascii.Error, ValueError):
        return None
    return [_claim(claims, name) for name in _WHO]


def _claim(claims: Mapping[str, object], name: str) -> object:
    if name in claims:
        return claims[name]
    outer, _, inner = name.rpartition(".")
    found = claims.get(outer)
    return found.get(inner) if isinstance(found, dict) else None


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


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[None]:
    with contextlib.closing(WriteLock(place / "lock")) as lock, lock:
        yield


def _logins(tool: Tool, env: Mapping[str, str]) -> dict[str, tuple[Path, bytes]]:
    found = {}
    for name in tool.logins:
        path = (settings.state_home(tool, env) / name).resolve()  # it may well be a link
        data = _read_login(path.parent, path.name)
        if data is not None:
            found[name] = (path, data)
    return found


def _remove(folder: Path) -> None:
    """Remove a folder and its mark; what resists is left for the next time."""
    with contextlib.suppress(OSError):
        beneath.remove_tree(folder)
        folder.with_name(f"{folder.name}{_IN_USE}").unlink(missing_ok=True)
