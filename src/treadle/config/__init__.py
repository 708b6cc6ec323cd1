"""Read a configuration file, the few settings that every command needs, and who is trusted.

It buys quick commands: the whole schema takes longer to load and to judge than most of them work.
"""

import contextlib
import fcntl
import functools
import json
import os
import shlex
import tomllib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from treadle.contract import load_object
from treadle.errors import BlockedError, ConfigError, FormatError, ProjectError, edit
from treadle.files import atomic
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
        name = f"TREADLE_{'_'.join(setting.path).upper()}"
        if setting.parse and env.get(name):
            found[key] = _judged(setting, setting.parse(env[name]), name)
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


class TrustRecord(NamedTuple):
    """One repository: what `init` wrote into it, and which content of which file was accepted.

    `head` is the commit that was checked out when all of it was accepted for the last time.
    """

    root: str
    identity: str
    since: str
    wrote: Mapping[str, str] = {}
    trusted: bool = True
    head: str | None = None
    files: Mapping[str, tuple[str, ...]] = {}


def find_trust(env: Mapping[str, str], root: Path, common_dir: Path) -> TrustRecord | None:
    """Return what is on record of a repository, trusted or not."""
    found = _read_trust(trust_file(env)).get(str(root.resolve()))
    return found if found and found.identity == identity(common_dir) else None


def known_projects(env: Mapping[str, str]) -> list[Path]:
    """Return where the user has set projects up."""
    return [Path(root) for root in _read_trust(trust_file(env))]


def require_trust(env: Mapping[str, str], layout: Layout, what: str) -> None:
    """Stop, without starting git, unless this project is trusted.

    A run exists only where it is, and inside of one the record cannot be read.
    """
    if env.get("TREADLE_RUN"):
        return
    found = None
    with contextlib.suppress(OSError):
        if tree := find_work_tree(layout.root):
            found = find_trust(env, layout.shared, tree.common_dir)
    if found is None or not found.trusted:
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


@contextlib.contextmanager
def trust_records(env: Mapping[str, str]) -> Iterator[dict[str, TrustRecord]]:
    """Hand out the records by root for a change; the folder itself is the lock."""
    path = trust_file(env)
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        book = _read_trust(path)
        yield book
        _write_trust(path, book)
    finally:
        os.close(folder)


def _read_trust(path: Path) -> dict[str, TrustRecord]:
    try:
        found = map(_trust_record, json.loads(path.read_bytes())["repositories"])
        return {item.root: item for item in found}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ProjectError(
            f"{path} is damaged ({error}); remove it and trust your repositories again",
            code="trust_damaged",
            fix=[f"rm {shlex.quote(str(path))}", "treadle trust"],
        ) from error


def _trust_record(item: dict[str, Any]) -> TrustRecord:
    files = {name: tuple(marks) for name, marks in item.get("files", {}).items()}
    return TrustRecord(**{**item, "files": files})


def _write_trust(path: Path, book: Mapping[str, TrustRecord]) -> None:
    if not book:
        path.unlink(missing_ok=True)
        return
    document = {"version": 2, "repositories": [entry._asdict() for entry in book.values()]}
    atomic.write(path, json.dumps(document, indent=2).encode() + b"\n", mode=0o600)
