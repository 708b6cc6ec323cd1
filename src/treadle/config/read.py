"""Read one configuration file, TOML or JSON, into plain values."""

import tomllib
from pathlib import Path

from treadle.contract import strictjson
from treadle.errors import ConfigError, FormatError

_MAX_BYTES = 1 << 20


def read(path: Path, *, name: str) -> dict[str, object]:
    """Return what the file says, or raise ConfigError that calls it `name`."""
    data = _bytes(path, name)
    return _json(data, name) if path.suffix == ".json" else _toml(data, name)


def _bytes(path: Path, name: str) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror}") from error
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"{name}: larger than 1 MiB; a configuration is a small file")
    return data


def _json(data: bytes, name: str) -> dict[str, object]:
    try:
        return strictjson.load_object(data, source=name)
    except FormatError as error:
        raise ConfigError(error.message) from error


def _toml(data: bytes, name: str) -> dict[str, object]:
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: not UTF-8 at byte {error.start}") from error
    except ValueError as error:  # not only TOMLDecodeError: a number may have too many digits
        raise ConfigError(f"{name}: not TOML: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{name}: nested too deeply") from error
