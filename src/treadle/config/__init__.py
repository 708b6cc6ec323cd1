"""Read a configuration file, the few settings that every command needs, and what is trusted.

It buys quick commands: the whole schema takes longer to load and to judge than most of them work.
"""

import contextlib
import functools
import json
import tomllib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from treadle.contract import load_object
from treadle.errors import BlockedError, ConfigError, FormatError, ProjectError, argument, edit
from treadle.ids import mask
from treadle.layout import MAIL_ROOT, Layout, find_work_tree, trust_file, user_config

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


def read_early(layout: Layout, env: Mapping[str, str]) -> Early:
    """Return what the user's file, the project's and the environment say."""
    found: dict[str, object] = {}
    theirs: set[str] = set()
    for kind, name, raw in read_files(layout, env):
        said = dict(_said(raw, name))
        found |= said
        theirs |= said.keys() if kind == "project" else set()
    for key, setting in _SETTINGS.items():
        path, *_, parse = setting
        name = f"TREADLE_{path.replace('.', '_').upper()}"
        if parse and env.get(name):
            found[key] = _judged(setting, parse(env[name]), name)
            theirs.discard(key)
    return Early(**found, theirs=frozenset(theirs))  # type: ignore[arg-type]  # judged one by one


def read_files(
    layout: Layout, env: Mapping[str, str]
) -> Iterator[tuple[Literal["user", "project"], str, Mapping[str, object]]]:
    """Yield what the user's file and the project's say, TOML or JSON, with the file's name."""
    user = user_config(env)
    if user.is_file():
        yield "user", str(user), _read_file(user, str(user))
    found = layout.config_files()
    if len(found) > 1:
        first, second = map(layout.relative, found)
        raise ConfigError(
            f"{first} and {second} are both there; keep one of them", fix=[f"rm {second}"]
        )
    for path in found:
        yield "project", layout.relative(path), _read_file(path, layout.relative(path))


def wrong(source: str, complaint: str, key: str | None = None) -> ConfigError:
    """Return the error for a file, variable or flag, with the command that mends it."""
    if source.startswith("TREADLE_"):
        fix = f"unset {source}"
    else:
        is_file = source.endswith((".toml", ".json"))
        fix = edit(source) if is_file else "treadle run --help"
    details: dict[str, object] = {"source": source, "key": key} if key else {}
    return ConfigError(f"{source}: {complaint}", fix=[fix], details=details)


def _read_file(path: Path, name: str) -> Mapping[str, object]:
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
        return load_object(data, source=name)
    except FormatError as error:
        raise wrong(name, error.message.removeprefix(f"{name}: ")) from error


@functools.lru_cache(maxsize=2)  # a command asks for its letters and then for its store
def _toml(data: bytes, name: str) -> Mapping[str, object]:
    try:
        return tomllib.loads(data.removeprefix(BOM_UTF8).decode())
    except UnicodeDecodeError as error:
        raise wrong(name, f"not UTF-8 at byte {error.start}") from error
    except ValueError as error:  # not only TOMLDecodeError: a number may have too many digits
        raise wrong(name, f"not TOML: {error}") from error
    except RecursionError as error:
        raise wrong(name, "nested too deeply") from error


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
# For each setting its key, what fits, in words too, and how the text of a variable is read.
_Setting = tuple[str, Callable[[object], bool], str, Callable[[str], object] | None]
_SETTINGS: dict[str, _Setting] = {
    "store": ("store", _is_text, _TEXT, str),
    "store_schema": ("store_schema", _is_text, _TEXT, str),
    "mail_root": ("mail.root", _is_text, _TEXT, str),
    "extra_intents": ("mail.extra_intents", _are_texts, "a list of strings", None),
    "lease": ("task.lease", _is_time, "a number of seconds above 0, at most a week", _number),
}


def _said(raw: Mapping[str, object], name: str) -> Iterator[tuple[str, object]]:
    for key, setting in _SETTINGS.items():
        value: object = raw
        for word in setting[0].split("."):
            value = value.get(word) if isinstance(value, dict) else None
        if value is not None:
            yield key, _judged(setting, value, name)


def _judged(setting: _Setting, value: object, source: str) -> object:
    key, fits, words, _ = setting
    if not fits(value):
        raise wrong(source, f"{key} must be {words}, not {mask(repr(value))[:60]}", key)
    return tuple(value) if isinstance(value, list) else value


def require_trust(env: Mapping[str, str], layout: Layout, what: str) -> None:
    """Stop, without starting git, unless this project is trusted.

    A run exists only where it is, and inside of one the record cannot be read.
    """
    if env.get("TREADLE_RUN"):
        return
    is_trusted = False
    with contextlib.suppress(OSError):
        if tree := find_work_tree(layout.root):
            found = trusted_roots(env).get(str(layout.shared.resolve()), {})
            is_mine = found.get("identity") == identity(tree.common_dir)
            is_trusted = is_mine and found.get("trusted", True) is True
    if not is_trusted:
        raise BlockedError(
            f"{layout.root} is not trusted, and its configuration {what}",
            code="untrusted",
            fix=["treadle trust"],
        )


def identity(git_dir: Path) -> str:
    """Tell this git folder from any other that may come to stand at its path.

    Numbers of deleted files are soon used again, so the age of a file that git writes
    once and never touches is part of it; without that file, the device must do.
    """
    found = git_dir.stat()
    with contextlib.suppress(OSError):
        birth = (git_dir / "description").stat()
        return f"{found.st_ino}-{birth.st_ino}-{birth.st_mtime_ns}"
    return f"{found.st_dev}-{found.st_ino}"


def trusted_roots(env: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return what is on record of each repository, by its root, as it was written down."""
    path = trust_file(env)
    try:
        return {item["root"]: item for item in json.loads(path.read_bytes())["repositories"]}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, KeyError) as error:
        raise damaged(path, error) from error


def damaged(path: Path, error: Exception) -> ProjectError:
    """Say that nobody can tell any more what is trusted."""
    return ProjectError(
        f"{path} is damaged ({error}); remove it and trust your repositories again",
        code="trust_damaged",
        fix=[f"rm {argument(str(path))}", "treadle trust"],
    )
