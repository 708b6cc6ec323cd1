"""Copy a whole store into an empty one, and compare the two before it counts."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from treadle.errors import StoreError
from treadle.store import address
from treadle.store.transaction import Connection, Database, Writer, explained

_TABLE = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)
_BATCH = 1000


def copy(source: Database, target: Database) -> dict[str, int]:
    """Copy every table in one transaction; return how many rows each has."""
    with _begun(source) as old, _begun(target) as new:
        _require_empty(new.connection, target)
        found = {name: _table(old.connection, new.connection, name) for name in tables()}
        new.commit()
    return found


def tables() -> list[str]:
    """Return the tables that hold something of their own; what is referred to comes first."""
    scripts = (path.read_text("utf-8") for path in sorted(address.FOLDER.iterdir()))
    names = [name for script in scripts for name in _TABLE.findall(script)]
    return [name for name in names if name != "schema_migrations"]


@contextmanager
def _begun(database: Database) -> Iterator[Writer]:
    """Open a database in a transaction that keeps all others out, taken back unless committed."""
    with explained(database), closing(address.open_writer(database)) as writer, writer.turn:
        writer.begin(alone=True)
        yield writer
        writer.rollback()


def _require_empty(target: Connection, database: Database) -> None:
    for name in tables():
        if target.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchone():
            raise StoreError(
                f"{database.name} already holds something (in {name}); only an empty store takes"
                " another one's place",
                code="store_not_empty",
                fix=["treadle store copy --help"],
            )


def _table(source: Connection, target: Connection, name: str) -> int:
    cursor = source.execute(f"SELECT * FROM {name}")
    columns = [column[0] for column in cursor.description]
    rows = [_clean(row) for row in cursor.fetchall()]
    places = ", ".join("?" * len(columns))
    insert = f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({places})"
    for start in range(0, len(rows), _BATCH):
        target.executemany(insert, rows[start : start + _BATCH])
    copied = target.execute(f"SELECT {', '.join(columns)} FROM {name}").fetchall()
    if Counter(rows) != Counter(map(tuple, copied)):
        raise StoreError(f"table {name} was not copied faithfully; the new store is left empty")
    return len(rows)


def _clean(row: Sequence[object]) -> tuple[object, ...]:
    """Leave out what PostgreSQL has no room for, so that both stores hold the same."""
    return tuple(it.replace("\0", "\ufffd") if isinstance(it, str) else it for it in row)
