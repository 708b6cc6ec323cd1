"""The key by which machines of a fleet know each other's orders and archives.

It lies in a file of the user's that no agent can read, outside every repository. Its first line
signs; a second one, the key before, is still believed, so that machines can change keys in turn.
"""

import contextlib
import hashlib
import hmac
import os
import secrets
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from treadle import layout
from treadle.errors import ConfigError
from treadle.files import atomic

_MOST, _SHORTEST, _MAX = 2, 32, 4096
_NOT_OURS = stat.S_IWGRP | stat.S_IRWXO
_MAKE = "treadle fleet key"


class FleetKey(NamedTuple):
    """One key, or a new and an old one."""

    path: Path
    lines: tuple[bytes, ...]

    @property
    def name(self) -> str:
        """Return what tells this key from others without giving it away."""
        return self.sign("name")[:12]

    @property
    def labels(self) -> set[str]:
        """Return what runs may need of a worker: this key, or the one that is still believed."""
        return {f"key {_sign(line, 'name', ())[:12]}" for line in self.lines}

    def sign(self, what: str, *parts: str) -> str:
        """Return the signature of some parts of a kind."""
        return _sign(self.lines[0], what, parts)

    def knows(self, signature: object, what: str, *parts: str) -> bool:
        """Tell whether somebody with the key has signed exactly this."""
        said = str(signature).encode()
        made = [_sign(line, what, parts).encode() for line in self.lines]
        return any([hmac.compare_digest(said, one) for one in made])


def read(env: Mapping[str, str], root: Path | None = None) -> FleetKey:
    """Return the fleet's key; ConfigError if there is none, or one that others could know."""
    path = layout.fleet_key(env)
    tree = layout.find_work_tree(root.resolve()) if root else None
    top = tree.top if tree else root
    if not path.is_absolute() or (top and path.resolve().is_relative_to(top.resolve())):
        raise _unfit(path, "must lie outside the repository, named by an absolute path", _MAKE)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(
            f"there is no key for the fleet at {path} ({error.strerror}):"
            " make one, or copy it from the machine that queues runs",
            code="fleet_key_missing",
            fix=[_MAKE],
        ) from error
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in (0, os.geteuid()):
            raise _unfit(path, "is not a file of yours", _MAKE)
        if found.st_mode & _NOT_OURS:
            raise _unfit(
                path, "can be read or changed by others", f"chmod 600 {shlex.quote(str(path))}"
            )
        lines = tuple(file.read(_MAX).split())
    if not 1 <= len(lines) <= _MOST or any(len(line) < _SHORTEST for line in lines):
        raise _unfit(path, "does not hold one or two lines of 32 characters or more", _MAKE)
    return FleetKey(path, lines)


def make(env: Mapping[str, str], root: Path | None = None) -> FleetKey:
    """Return the fleet's key, made if there is none."""
    path = layout.fleet_key(env)
    if path.is_absolute() and not os.path.lexists(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):  # somebody else made one meanwhile
            atomic.deliver(path.parent, [path.name], _new(), mode=0o600)
    return read(env, root)


def rotate(env: Mapping[str, str]) -> FleetKey:
    """Put a new key before the present one, which is believed until the next rotation."""
    old = read(env)
    atomic.write(old.path, _new() + old.lines[0] + b"\n", mode=0o600)
    return read(env)


def _new() -> bytes:
    return secrets.token_hex(32).encode() + b"\n"


def _sign(line: bytes, what: str, parts: tuple[str, ...]) -> str:
    return hmac.new(line, msgspec.json.encode([what, *parts]), hashlib.sha256).hexdigest()


def _unfit(path: Path, why: str, command: str) -> ConfigError:
    return ConfigError(f"the fleet's key {path} {why}", code="fleet_key_unfit", fix=[command])
