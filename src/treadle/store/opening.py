"""Open a database whose tables are those of this treadle."""

from treadle.store import migrate, sqlite
from treadle.store.backend import Connection, Database, Writer, closed_on_error


def open_both(database: Database) -> tuple[Connection, Writer]:
    """Open a database, made or brought up to date if need be, for reading and for writing."""
    try:
        writer = _open_writer(database)
        with closed_on_error(writer):
            return database.open_reader(), writer
    except database.error as error:
        raise database.explain(error) from error


def open_reader(database: Database) -> Connection:
    """Open a database for reading; one that was never set up reads as an empty one."""
    try:
        return _open_reader(database)
    except database.error as error:
        raise database.explain(error) from error


def _open_writer(database: Database) -> Writer:
    writer = database.open_writer()
    with closed_on_error(writer), writer:
        found = database.version(writer.connection)
        migrate.check(found, database)
        if found < migrate.latest():
            migrate.apply(writer.connection, database)
    return writer


def _open_reader(database: Database) -> Connection:
    connection = database.open_reader()
    with closed_on_error(connection):
        found = database.version(connection)
        migrate.check(found, database)
    if found == migrate.latest():
        return connection
    connection.close()
    if found == 0:
        return _empty()
    _open_writer(database).close()
    return database.open_reader()


def _empty() -> Connection:
    connection = sqlite.open_empty()
    migrate.apply(connection)
    return connection
