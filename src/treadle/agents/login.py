"""Tell a refreshed login from anything else that a tool's folder may hold after a turn."""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from treadle.contract import strictjson
from treadle.errors import FormatError

_LONGEST = 16 << 10
# A token is refreshed when its time is up: before that there is no honest reason for a new one.
_EARLY = 15 * 60 * 1000
_LATE = 400 * 24 * 3600 * 1000
# What names the account in a token that says so itself.
_WHO = ("iss", "sub", "email", "https://api.openai.com/auth.chatgpt_account_id")


class Refreshed(NamedTuple):
    """A login with new tokens: the user's file, what it held when it was lent, what it becomes."""

    path: Path
    lent: bytes
    data: bytes
    fields: tuple[str, ...]


def renewed(
    lent: bytes, found: bytes, tokens: Sequence[str], now: float
) -> tuple[bytes, tuple[str, ...]] | None:
    """Return the login with its new tokens and their names; None unless only those are new.

    `tokens` are dotted paths into the file, where `*` is any key; numbers are the millisecond at
    which a token ends. Everything else must be as it was lent: keys, account, settings.
    """
    try:
        old = strictjson.load_object(lent, source="login")
        new = strictjson.load_object(found, source="login")
    except FormatError:
        return None
    rule = _Rule([tuple(token.split(".")) for token in tokens], int(now * 1000), [])
    merged = _merged(old, new, (), rule)
    if merged is None or not rule.renewed:
        return None
    return json.dumps(merged, indent=2).encode() + b"\n", tuple(rule.renewed)


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
        claims = strictjson.load_object(body, source="token")
    except (FormatError, binascii.Error, ValueError):
        return None
    return [_claim(claims, name) for name in _WHO]


def _claim(claims: Mapping[str, object], name: str) -> object:
    if name in claims:
        return claims[name]
    outer, _, inner = name.rpartition(".")
    found = claims.get(outer)
    return found.get(inner) if isinstance(found, dict) else None
