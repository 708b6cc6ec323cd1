"""Find out where a project's store is: a file of its own unless someone says otherwise."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

from treadle.errors import BlockedError, ConfigError, StoreError
from treadle.ids import STORES, is_schema, mask
from treadle.layout import Layout, user_config
from treadle.store.database.interface import Database, Waker
from treadle.store.database.sqlite import Sqlite

_KEYS = ("store", "store_schema")
# A setting above the first table, as TOML spells it: a name and a plain text in quotes.
_LINE = r"""(?m)^[ \t]*(["']?)(store|store_schema)\1[ \t]*=[ \t]*(?:"([^"\\]*)"|'([^']*)')?"""
_EXAMPLE = "postgresql://user@host/database"
_TABLE = r"(?m)^[ \t]*\["


def find(layout: Layout, env: Mapping[str, str] = os.environ) -> Database:
    """Return the project's database, as the environment or the configuration names it."""
    found = settings(layout, env)
    if "store" not in found:
        return Sqlite(layout.database, layout.store_lock)
    require_trust(layout, env)
    owner = None if "store_schema" in found else f"{os.uname().nodename}:{layout.root}"
    url = absolute(found["store"], layout.root)
    return at(url, found.get("store_schema") or default_schema(layout.root), owner)


def require_trust(layout: Layout, env: Mapping[str, str]) -> None:
    """Open no database because a clone says so: it could be anyone's server or file."""
    url = _own(layout, env)
    if url is None:
        return
    module = __import__("treadle.config.trusted", fromlist=["trusted"])
    if not module.has(env, layout.root):
        raise BlockedError(
            f"{layout.root} is not trusted, and its configuration names a store: {mask(url)}",
            code="untrusted",
            fix=["treadle trust"],
        )


def schema(layout: Layout, env: Mapping[str, str]) -> str:
    """Return the schema that the project has, or would have, in PostgreSQL."""
    return settings(layout, env).get("store_schema") or default_schema(layout.root)


def absolute(url: str, root: Path) -> str:
    """Return an address that means the same from everywhere."""
    if not url.startswith("sqlite:"):
        return url
    return f"sqlite:{root / url.removeprefix('sqlite:')}"


def at(url: str, schema: str, owner: str | None = None) -> Database:
    """Return the database at an address; `owner` is the one folder that may use the schema."""
    if url.startswith("sqlite:"):
        path = Path(url.removeprefix("sqlite:"))
        return Sqlite(path, path.parent / "locks" / "store.lock")
    if not url.startswith(STORES):
        raise ConfigError(
            f"store must begin with {' or '.join(STORES)}, not {mask(url)!r}",
            details={"key": "store"},
            fix=[f"export TREADLE_STORE={_EXAMPLE}", f"treadle store copy --to {_EXAMPLE}"],
        )
    if not is_schema(schema):
        raise ConfigError(
            f"store_schema must be lower-case letters, digits and _, not {schema!r}",
            details={"key": "store_schema"},
            fix=["export TREADLE_STORE_SCHEMA=treadle_project"],
        )
    return _postgres(url, schema, owner)


def exists(layout: Layout, env: Mapping[str, str] = os.environ) -> bool:
    """Tell whether anything was ever recorded."""
    return find(layout, env).exists()


def open_waker(layout: Layout, env: Mapping[str, str] = os.environ) -> Waker:
    """Return what tells of changes to the project's store; the first wait ends at once."""
    return find(layout, env).open_waker()


def default_schema(root: Path) -> str:
    """Return the schema of a project that names none, after its folder."""
    return "treadle_" + re.sub(r"[^a-z0-9]+", "_", root.name.lower()).strip("_")[:50]


def settings(layout: Layout, env: Mapping[str, str]) -> dict[str, str]:
    """Return what is said about the store, without loading what reads a whole configuration."""
    found: dict[str, str] = {}
    for path in (user_config(env), *layout.config_files()):
        if path.is_file() and b"store" in (data := path.read_bytes()):
            found.update(_said(path, data.decode("utf-8", "replace")))
    named = {key: env.get(f"TREADLE_{key.upper()}") for key in _KEYS}
    return found | {key: value for key, value in named.items() if value}


def _own(layout: Layout, env: Mapping[str, str]) -> str | None:
    """Return the store that the repository itself names, if nothing else does."""
    said = [_said(path, path.read_text("utf-8", "replace")) for path in layout.config_files()]
    return None if env.get("TREADLE_STORE") else dict(chain(*said)).get("store")


def _said(path: Path, text: str) -> Iterator[tuple[str, str]]:
    if path.suffix == ".json":
        yield from _said_in_json(path, text)
        return
    table = re.search(_TABLE, text)
    for line in re.finditer(_LINE, text[: table.start()] if table else text):
        value = line[3] or line[4]
        if not value:
            raise ConfigError(
                f"{path}: {line[2]} must be a plain text in quotes, on its line",
                details={"key": line[2]},
            )
        yield line[2], value


def _said_in_json(path: Path, text: str) -> Iterator[tuple[str, str]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON: {error}") from error
    for key in _KEYS:
        if isinstance(document, dict) and isinstance(document.get(key), str):
            yield key, document[key]


def _postgres(url: str, schema: str, owner: str | None) -> Database:
    """Load the driver's side only now: an ordinary command must not pay for it."""
    try:
        module = __import__("treadle.store.database.postgres", fromlist=["postgres"])
    except ModuleNotFoundError as error:
        raise StoreError(
            f"{mask(url)} needs the PostgreSQL driver, which is not installed ({error.name})",
            code="extra_missing",
            fix=['pip install "treadle[fleet]"'],
        ) from error
    found: Database = module.Postgres(url, schema, owner)
    return found
