"""Find a project's database and open it, with the tables of this treadle, to read it."""

import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Self

from treadle.config import Early, read_early, require_trust
from treadle.errors import ConfigError, StoreError, install_extra
from treadle.ids import FLEET_SCHEMA, STORES, is_schema, mask, utc
from treadle.layout import Layout, lock_of
from treadle.store import sqlite
from treadle.store.sqlite import Sqlite
from treadle.store.transaction import (
    Connection,
    Database,
    Reading,
    Row,
    Writer,
    closed_on_error,
    explained,
    sql,
)

_EXAMPLE = "postgresql://user@host/database"


class OpenReader(Reading):
    """One connection that never waits for a writer and never writes; topics are mixed in."""

    def __init__(self, connection: Connection, database: Database) -> None:
        self._reading = connection
        self._database = database

    @classmethod
    def open(cls, layout: Layout, env: Mapping[str, str] = os.environ) -> Self:
        """Open the project's store, or an empty one if nothing was ever recorded."""
        return cls.at(find(layout, env))

    @classmethod
    def at(cls, database: Database) -> Self:
        """Open a store that may belong to no folder here."""
        return cls(open_reader(database), database)

    @property
    def is_there(self) -> bool:
        """Tell whether the store is set up; what stands for it until then never sees it."""
        return not isinstance(self._reading, sqlite.StandIn)

    def now(self) -> datetime:
        """Return the time that leases go by: the database's own, where many machines share it."""
        return self._database.now()

    def close(self) -> None:
        """Give the connection back."""
        self._reading.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def each(self, schemas: Sequence[str], *names: str) -> dict[str, list[list[Row]]]:
        """Return the rows that queries find in other projects of the same database, if it can."""
        with explained(self._database):
            queries = map(sql, names)
            return self._database.each(self._reading, schemas, latest(), *queries)

    def all(self, name: str, **values: object) -> list[Row]:
        """Return the rows that a query finds."""
        try:
            return self._reading.execute(sql(name), values).fetchall()
        except self._database.error as error:
            raise self._database.explain(error) from error


def require_kept(layout: Layout, reader: OpenReader) -> None:
    """Refuse a store that is gone: where nothing was ever recorded, there are no runs either."""
    if not reader.is_there and layout.runs.is_dir() and any(layout.runs.iterdir()):
        text = f"{find(layout).name} is missing; it can be rebuilt from the runs folder"
        raise StoreError(text, code="store_damaged", fix=["treadle doctor --repair"])


def find(layout: Layout, env: Mapping[str, str] = os.environ) -> Database:
    """Return the project's database, as the environment or the configuration names it."""
    found = settings(layout, env)
    if found.store is None:
        return Sqlite(layout.database, layout.store_lock)
    owner = None if found.store_schema else f"{os.uname().nodename}:{layout.shared}"
    url = absolute(found.store, layout.shared)
    return of_project(url, found.store_schema or default_schema(layout.shared), owner)


def settings(layout: Layout, env: Mapping[str, str]) -> Early:
    """Return what is said about the store.

    No database is opened because a clone says so: it could be anyone's server or file.
    """
    found = read_early(layout, env)
    if found.store and "store" in found.theirs:
        require_trust(env, layout, f"names a store: {mask(found.store)}")
    return found


def schema(layout: Layout, env: Mapping[str, str]) -> str:
    """Return the schema that the project has, or would have, in PostgreSQL."""
    return settings(layout, env).store_schema or default_schema(layout.shared)


def absolute(url: str, root: Path) -> str:
    """Return an address that means the same from everywhere."""
    if not url.startswith("sqlite:"):
        return url
    return f"sqlite:{root / url.removeprefix('sqlite:')}"


def of_project(url: str, schema: str, owner: str | None = None) -> Database:
    """Return a project's database at an address; the fleet's own schema is no project's."""
    if schema == FLEET_SCHEMA and not url.startswith("sqlite:"):
        raise ConfigError(
            f"{schema} is where the fleet lists its workers; set store_schema to another name",
            details={"key": "store_schema"},
            fix=["export TREADLE_STORE_SCHEMA=treadle_project"],
        )
    return at(url, schema, owner)


def at(url: str, schema: str, owner: str | None = None) -> Database:
    """Return the database at an address; `owner` is the one folder that may use the schema."""
    if url.startswith("sqlite:"):
        path = Path(url.removeprefix("sqlite:"))
        return Sqlite(path, lock_of(path))
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


def default_schema(root: Path) -> str:
    """Return the schema of a project that names none, after its folder."""
    return "treadle_" + re.sub(r"[^a-z0-9]+", "_", root.name.lower()).strip("_")[:50]


def _postgres(url: str, schema: str, owner: str | None) -> Database:
    """Load the driver's side only now: an ordinary command must not pay for it."""
    try:
        module = __import__("treadle.store.postgres", fromlist=["postgres"])
    except ModuleNotFoundError as error:
        raise StoreError(
            f"{mask(url)} needs the PostgreSQL driver, which is not installed ({error.name})",
            code="extra_missing",
            fix=[install_extra("fleet")],
        ) from error
    found: Database = module.Postgres(url, schema, owner)
    return found


FOLDER = Path(__file__).with_name("migrations")


def open_both(database: Database) -> tuple[Connection, Writer]:
    """Open a database, made or brought up to date if need be, for reading and for writing."""
    with explained(database):
        writer = open_writer(database)
        with closed_on_error(writer):
            return database.open_reader(), writer


def open_writer(database: Database) -> Writer:
    """Open a database for writing, made or brought up to date if need be."""
    writer = database.open_writer()
    with closed_on_error(writer), writer.turn:
        if _version(writer.connection, database) < latest():
            _migrate(writer, database)
    return writer


def open_reader(database: Database) -> Connection:
    """Open a database for reading; one that was never set up reads as an empty one."""
    with explained(database):
        connection = database.open_reader()
        with closed_on_error(connection):
            found = _version(connection, database)
        if found == latest():
            return connection
        connection.close()
        if found == 0:
            return open_empty()
        open_writer(database).close()
        return database.open_reader()


def open_empty() -> Connection:
    """Open a database in memory that has every table and no row."""
    connection = sqlite.open_empty()
    for _, path in _migrations():
        connection.executescript(path.read_text("utf-8"))
    return connection


@cache
def latest() -> int:
    """Return the schema version this treadle knows."""
    return max(_number(path.name) for path in FOLDER.iterdir())


def _version(connection: Connection, database: Database) -> int:
    """Return a database's version; one that a newer treadle has written is refused."""
    found = database.version(connection)
    if found > latest():
        raise StoreError(
            f"{database.name} has schema {found} of a newer treadle; this one knows {latest()}",
            code="store_newer",
            fix=["pip install --upgrade treadle"],
        )
    return found


def _migrate(writer: Writer, database: Database) -> None:
    """Apply what is missing in one transaction; the caller has its turn."""
    writer.begin(alone=True)
    try:
        database.make_room(writer.connection)
        have = database.version(writer.connection)
        for number, path in _migrations():
            if number > have:
                _apply(writer.connection, database, path)
                values = (number, utc(datetime.now(UTC)))
                writer.connection.execute("INSERT INTO schema_migrations VALUES (?, ?)", values)
        writer.commit()
    finally:
        writer.rollback()


def _apply(connection: Connection, database: Database, path: Path) -> None:
    script = path.read_text("utf-8")
    for pattern, type_ in database.types:
        script = pattern.sub(type_, script)
    for statement in script.split(";\n"):
        if statement.strip():
            connection.execute(statement)


def _migrations() -> list[tuple[int, Path]]:
    """Return the migrations and their numbers, in order."""
    return [(_number(path.name), path) for path in sorted(FOLDER.iterdir())]


def _number(name: str) -> int:
    return int(name.partition("_")[0])
