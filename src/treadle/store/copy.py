"""Copy a whole store into an empty one, and compare the two before it counts."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from treadle.errors import StoreError
from treadle.store import address
from treadle.store.transaction import Connection, Database

_TABLE = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)
_BATCH = 1000
_SIZE = 1 << 128


class Digest(NamedTuple):
    """What a table holds, whatever the order of its rows."""

    rows: int
    checksum: int


def copy(source: Database, target: Database) -> dict[str, int]:
    """Copy every table in one transaction; return how many rows each has."""
    reading, old = address.open_both(source)
    reading.close()
    try:
        with old:
            old.begin(alone=True)
            found = _into(old.connection, target)
            old.rollback()
    except source.error as error:
        raise source.explain(error) from error
    finally:
        old.close()
    return found


def _into(source: Connection, target: Database) -> dict[str, int]:
    reading, new = address.open_both(target)
    reading.close()
    try:
        with new:
            new.begin(alone=True)
            try:
                _require_empty(new.connection, target)
                found = {name: _table(source, new.connection, name) for name in tables()}
                new.commit()
            finally:
                new.rollback()
    except target.error as error:
        raise target.explain(error) from error
    finally:
        new.close()
    return found


def tables() -> list[str]:
    """Return the tables that hold something of their own; what is referred to comes first."""
    scripts = (path.read_text("utf-8") for path in sorted(address.FOLDER.iterdir()))
    names = [name for script in scripts for name in _TABLE.findall(script)]
    return [name for name in names if name != "schema_migrations"]


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
    if digest(rows) != digest(copied):
        raise StoreError(f"table {name} did not arrive as it was; nothing was copied")
    return len(rows)


def digest(rows: Iterable[Sequence[object]]) -> Digest:
    """Count rows and add up what they look like."""
    count = total = 0
    for row in rows:
        seen = hashlib.blake2b(repr(tuple(row)).encode("utf-8", "backslashreplace"), digest_size=16)
        count, total = count + 1, (total + int.from_bytes(seen.digest())) % _SIZE
    return Digest(count, total)


def _clean(row: Sequence[object]) -> tuple[object, ...]:
    """Leave out what PostgreSQL has no room for, so that both stores hold the same."""
    return tuple(it.replace("\0", "\ufffd") if isinstance(it, str) else it for it in row)
