"""Read a configuration file, and the few settings that every command needs.

It buys quick commands: the whole schema takes longer to load and to judge than most of them work.
"""

import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from treadle.contract import strictjson
from treadle.errors import ConfigError, FormatError
from treadle.ids import mask
from treadle.layout import MAIL_ROOT, Layout, user_config

_MAX_BYTES = 1 << 20
_WEEK = 7 * 24 * 3600


class Early(NamedTuple):
    """Where the store and the letters are, which intents there are, how long a task is lent."""

    store: str | None = None
    store_schema: str | None = None
    mail_root: str = MAIL_ROOT
    extra_intents: tuple[str, ...] = ()
    lease: float = 4 * 3600
    theirs: frozenset[str] = frozenset()  # what the repository's own file decides


def read(layout: Layout, env: Mapping[str, str]) -> Early:
    """Return what the user's file, the project's and the environment say."""
    found: dict[str, object] = {}
    theirs: set[str] = set()
    for path, name in _files(layout, env):
        said = dict(_said(read_file(path, name=name), name))
        found |= said
        theirs |= said.keys() if path.parent == layout.home else set()
    for key, setting in _SETTINGS.items():
        name = f"TREADLE_{'_'.join(setting.path).upper()}"
        if setting.parse and env.get(name):
            found[key] = _judged(setting, setting.parse(env[name]), name)
            theirs.discard(key)
    return Early(**found, theirs=frozenset(theirs))  # type: ignore[arg-type]  # judged one by one


def read_file(path: Path, *, name: str) -> dict[str, object]:
    """Return what a file says, TOML or JSON, or raise ConfigError that calls it `name`."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise wrong(name, f"cannot be read: {error.strerror}") from error
    if len(data) > _MAX_BYTES:
        raise wrong(name, "larger than 1 MiB; a configuration is a small file")
    if path.suffix != ".json":
        return _toml(data, name)
    try:
        return strictjson.load_object(data, source=name)
    except FormatError as error:
        raise wrong(name, error.message.removeprefix(f"{name}: ")) from error


def wrong(source: str, complaint: str, key: str | None = None) -> ConfigError:
    """Return the error for a file, variable or flag, with the command that mends it."""
    if source.startswith("TREADLE_"):
        fix = f"unset {source}"
    else:
        is_file = source.endswith((".toml", ".json"))
        fix = f"${{EDITOR:-vi}} {shlex.quote(source)}" if is_file else "treadle run --help"
    details: dict[str, object] = {"source": source, "key": key} if key else {}
    return ConfigError(f"{source}: {complaint}", fix=[fix], details=details)


def _files(layout: Layout, env: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    user = user_config(env)
    if user.is_file():
        yield user, str(user)
    yield from ((path, layout.relative(path)) for path in layout.config_files())


def _toml(data: bytes, name: str) -> dict[str, object]:
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise wrong(name, f"not UTF-8 at byte {error.start}") from error
    except ValueError as error:  # not only TOMLDecodeError: a number may have too many digits
        raise wrong(name, f"not TOML: {error}") from error
    except RecursionError as error:
        raise wrong(name, "nested too deeply") from error


class _Setting(NamedTuple):
    path: tuple[str, ...]
    fits: Callable[[object], bool]
    words: str
    parse: Callable[[str], object] | None = str  # how a variable's text is read


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and value is not True and 0 < value <= _WEEK


def _number(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text


_TEXT = "a text that is not empty"
_SETTINGS = {
    "store": _Setting(("store",), _is_text, _TEXT),
    "store_schema": _Setting(("store_schema",), _is_text, _TEXT),
    "mail_root": _Setting(("mail", "root"), _is_text, _TEXT),
    "extra_intents": _Setting(("mail", "extra_intents"), _are_texts, "a list of strings", None),
    "lease": _Setting(
        ("task", "lease"), _is_time, "a number of seconds above 0, at most a week", _number
    ),
}


def _said(raw: Mapping[str, object], name: str) -> Iterator[tuple[str, object]]:
    for key, setting in _SETTINGS.items():
        value: object = raw
        for word in setting.path:
            value = value.get(word) if isinstance(value, dict) else None
        if value is not None:
            yield key, _judged(setting, value, name)


def _judged(setting: _Setting, value: object, source: str) -> object:
    if not setting.fits(value):
        key = ".".join(setting.path)
        raise wrong(source, f"{key} must be {setting.words}, not {mask(repr(value))[:60]}", key)
    return tuple(value) if isinstance(value, list) else value
