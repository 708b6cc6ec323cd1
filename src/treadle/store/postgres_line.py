"""One line to a PostgreSQL server, spoken to with the SQL that is written for SQLite."""

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg.adapt import Dumper
from psycopg.postgres import types

from treadle.errors import StoreError
from treadle.store.backend import Cursor
from treadle.store.queries import SQL, Queries

Line = psycopg.Connection[Any]

_CHANNEL = "treadle"
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")


class Connection:
    """A line to the server that is taken up again when it was cut between transactions."""

    def __init__(self, connect: Callable[[], Line]) -> None:
        self.in_transaction = False
        self._connect = connect
        self._line: Line | None = None
        self._first: Sequence[bytes] = ()

    def execute(self, sql: str, values: Any = (), /) -> Cursor:
        """Carry out one statement."""
        return self._ask(_translated(sql), values)

    def executemany(self, sql: str, rows: Any, /) -> Cursor:
        """Carry out one statement for each row."""
        literal = psycopg.ClientCursor(self.line())
        return self._ask(b";\n".join(_filled(literal, _translated(sql), row) for row in rows), None)

    def script(self, text: str) -> None:
        """Carry out statements without parameters in one go."""
        self._ask(text.encode(), None)

    def begin(self, *statements: str) -> None:
        """Begin a transaction with its first statement, so that the server is asked once."""
        self._first = [statement.encode() for statement in statements]

    def end(self, how: str) -> None:
        """End the transaction; one that asked nothing was never begun."""
        if not self._first and self.in_transaction:
            self._ask(how.encode(), None)
        self.in_transaction, self._first = False, ()

    def close(self) -> None:
        """Leave."""
        if self._line:
            self._line.close()

    def line(self) -> Line:
        """Return the line, new if there is none; a cut one stays cut until its turn is over."""
        if self._line is None or (self._line.closed and not self.in_transaction):
            self._line = self._connect()
        return self._line

    def _ask(self, sql: bytes, values: Any) -> Cursor:
        line, first = self.line(), self._first
        try:
            return self._send(line, sql, values)
        except psycopg.OperationalError:
            if not line.closed or (self.in_transaction and not first):
                raise
        self.in_transaction, self._first = False, first
        return self._send(self.line(), sql, values)

    def _send(self, line: Line, sql: bytes, values: Any) -> Cursor:
        first, self._first = self._first, ()
        if not first:
            return line.execute(sql, values)
        self.in_transaction = True
        filled = _filled(psycopg.ClientCursor(line), sql, values)
        # As one text, not as a pipeline: after one of those the server does not count for how
        # long a transaction is idle, and who stands still would keep everyone else waiting.
        cursor = line.execute(b";\n".join((*first, filled)))
        while cursor.nextset():
            pass
        return cursor


class Writer:
    """The connection that writes; the server lets processes take turns."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self.connection = connection
        self.mode = "postgresql"
        self._lock = f"SELECT pg_advisory_xact_lock(hashtext('treadle'), hashtext('{schema}'))"
        self._commit = f"COMMIT; NOTIFY {_CHANNEL}, '{schema}'"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is held between transactions."""

    def begin(self, *, alone: bool, lasting: bool = True) -> None:
        """Begin a transaction, as the only one of this project if it must be alone."""
        if not alone and not lasting:
            return  # one statement, which the server commits by itself
        quick = () if lasting else ("SET LOCAL synchronous_commit = off",)
        self.connection.begin("BEGIN", *quick, *((self._lock,) if alone else ()))

    def commit(self) -> None:
        """Make the transaction durable and wake who waits for changes."""
        try:
            # Calling is a transaction of its own: the server lets one at a time call, and a
            # change would keep all others waiting until it is on disk.
            self.connection.end(self._commit)
        except psycopg.errors.ProgramLimitExceeded:
            pass  # somebody listens and does not hear; what was to be saved is saved
        except psycopg.OperationalError as error:
            raise StoreError(
                "the connection was lost while a change was being saved; see whether it was",
                code="store_unreachable",
            ) from error

    def rollback(self) -> None:
        """Take the transaction back, if one is open."""
        if self.connection.in_transaction and self.connection.line().closed:
            self.connection.in_transaction = False
        self.connection.end("ROLLBACK")

    def close(self) -> None:
        """Leave."""
        self.connection.close()


class Waker:
    """A line on which the server tells of commits."""

    def __init__(self, connect: Callable[[], Line], schema: str) -> None:
        self._connect = connect
        self._schema = schema
        self._line: Line | None = None

    def wait(self, timeout: float) -> bool:
        """Listen; a new line tells at once, because nobody listened before."""
        try:
            if self._line is None:
                self._line = self._connect()
                self._line.execute(f"LISTEN {_CHANNEL}".encode())
                return True
            heard = self._line.notifies(timeout=timeout, stop_after=1)
            return any(it.payload == self._schema for it in heard)
        except (psycopg.Error, StoreError):
            self.close()
            time.sleep(timeout)
            return False

    def fileno(self) -> int | None:
        """Return the line's descriptor."""
        return self._line.fileno() if self._line else None

    def close(self) -> None:
        """Stop listening."""
        if self._line:
            self._line.close()
            self._line = None


def adapt(line: Line) -> None:
    """Let values look as they do in SQLite."""
    line.adapters.register_dumper(bool, _Truth)
    line.adapters.register_dumper(str, _Text)


class _Truth(Dumper):
    """Keep true and false as 1 and 0, as SQLite does."""

    oid = types["int8"].oid

    def dump(self, obj: bool) -> bytes:
        return b"1" if obj else b"0"


class _Text(Dumper):
    """Keep text; PostgreSQL has no room for NUL in it."""

    def dump(self, obj: str) -> bytes:
        return obj.replace("\0", "\ufffd").encode()


def _translated(sql: str) -> bytes:
    """Return a query with the driver's parameters, or PostgreSQL's own version of it."""
    if sql not in _KNOWN:
        name = SQL.name_of(sql)
        _KNOWN[sql] = _rewritten(_OWN.get(name or "", sql))
    return _KNOWN[sql]


def _filled(literal: psycopg.ClientCursor[Any], sql: bytes, values: Any) -> bytes:
    """Return a query with its values written into it."""
    return literal.mogrify(sql, values).encode() if values is not None else sql


def _rewritten(sql: str) -> bytes:
    text = sql.replace("%", "%%").replace("?", "%s")
    return _PARAMETER.sub(r"%(\1)s", text).encode()


_OWN = Queries(Path(__file__).with_name("postgres.sql"))
_KNOWN: dict[str, bytes] = {}
