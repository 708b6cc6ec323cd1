"""Read one configuration file, TOML or JSON, into plain values."""

import shlex
import tomllib
from pathlib import Path

from treadle.contract import strictjson
from treadle.errors import ConfigError, FormatError

_MAX_BYTES = 1 << 20


def read(path: Path, *, name: str) -> dict[str, object]:
    """Return what the file says, or raise ConfigError that calls it `name`."""
    data = _bytes(path, name)
    return _json(data, name) if path.suffix == ".json" else _toml(data, name)


def wrong(source: str, complaint: str, key: str | None = None) -> ConfigError:
    """Return the error for a file, variable or flag, with the command that mends it."""
    if source.startswith("TREADLE_"):
        fix = f"unset {source}"
    else:
        is_file = source.endswith((".toml", ".json"))
        fix = f"${{EDITOR:-vi}} {shlex.quote(source)}" if is_file else "treadle run --help"
    details: dict[str, object] = {"source": source, "key": key} if key else {}
    return ConfigError(f"{source}: {complaint}", fix=[fix], details=details)


def _bytes(path: Path, name: str) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise wrong(name, f"cannot be read: {error.strerror}") from error
    if len(data) > _MAX_BYTES:
        raise wrong(name, "larger than 1 MiB; a configuration is a small file")
    return data


def _json(data: bytes, name: str) -> dict[str, object]:
    try:
        return strictjson.load_object(data, source=name)
    except FormatError as error:
        raise wrong(name, error.message.removeprefix(f"{name}: ")) from error


def _toml(data: bytes, name: str) -> dict[str, object]:
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise wrong(name, f"not UTF-8 at byte {error.start}") from error
    except ValueError as error:  # not only TOMLDecodeError: a number may have too many digits
        raise wrong(name, f"not TOML: {error}") from error
    except RecursionError as error:
        raise wrong(name, "nested too deeply") from error
