"""Keep projects in PostgreSQL, each in a schema of its own; what differs from SQLite is here."""

import re
import time
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

import psycopg
from psycopg import conninfo
from psycopg.adapt import Dumper

from treadle.errors import StoreError
from treadle.ids import mask
from treadle.store.transaction import Database, Result, explained, filled, read_queries

Line = psycopg.Connection[Any]

_CHANNEL = "treadle"
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
_OLDEST = 15
# Seconds after which the server is asked for its time again: two clocks drift apart, and one of
# a machine that slept stands still.
_CLOCK_HOLDS = 60.0
# Nobody waits for ever: not for a server that is gone, nor for a process that stands still
# in the middle of a transaction.
_DEFAULTS = {
    "fallback_application_name": "treadle",
    "client_encoding": "utf8",
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}
_SET_UP = """
SELECT set_config('search_path', %(schema)s, false),
    set_config('default_transaction_read_only', %(read_only)s, false),
    set_config('lock_timeout', '30s', false),
    set_config('idle_in_transaction_session_timeout', '60s', false),
    extract(epoch FROM clock_timestamp())::float8,
    obj_description(to_regnamespace(%(schema)s), 'pg_namespace')
"""
# Text is compared byte by byte, as SQLite does, and whole numbers have 64 bits.
_TYPES = (
    (re.compile(r"\bTEXT\b"), 'TEXT COLLATE "C"'),
    (re.compile(r"\bINTEGER\b"), "BIGINT"),
    (re.compile(r"\bREAL\b"), "DOUBLE PRECISION"),
    (re.compile(r"\bBLOB\b"), "BYTEA"),
    (re.compile(r"\) WITHOUT ROWID"), ")"),
)
_SENTENCES = {
    "23": "{text}",
    "25006": "read-only, nothing was saved; ask for a server that takes changes",
    "40": "another process was in the way ({text}); repeat the command",
    "42501": "the user may not do this ({text}); grant it or use another user",
    "53100": "the server's disk is full, nothing was saved; free some space",
    "53300": "the server takes no more connections ({text})",
    "55P03": "another process has kept it busy for 30 seconds, nothing was saved; repeat it",
}
_OWN = read_queries(Path(__file__).with_name("postgres.sql"))


class PostgresConnection:
    """A line to the server that is taken up again when it was cut between transactions."""

    def __init__(self, connect: Callable[[], Line]) -> None:
        self.in_transaction = False
        self._connect = connect
        self._line: Line | None = None
        self._first: Sequence[bytes] = ()

    def execute(self, sql: str, values: Any = (), /) -> Result:
        """Carry out one statement."""
        return self._ask(_translated(sql), values)

    def executemany(self, sql: str, rows: Any, /) -> Result:
        """Carry out one statement for each row."""
        literal = psycopg.ClientCursor(self.line())
        return self._ask(b";\n".join(_filled(literal, _translated(sql), row) for row in rows), None)

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

    def _ask(self, sql: bytes, values: Any) -> Result:
        line, first = self.line(), self._first
        try:
            return self._send(line, sql, values)
        except psycopg.OperationalError:
            if not line.closed or (self.in_transaction and not first):
                raise
        self.in_transaction, self._first = False, first
        return self._send(self.line(), sql, values)

    def _send(self, line: Line, sql: bytes, values: Any) -> Result:
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


class PostgresWriter:
    """The connection that writes; the server lets processes take turns."""

    def __init__(self, connection: PostgresConnection, schema: str) -> None:
        self.connection = connection
        self.mode = "postgresql"
        self.turn = nullcontext()  # nothing is held between transactions
        self._lock = f"SELECT pg_advisory_xact_lock(hashtext('treadle'), hashtext('{schema}'))"
        self._commit = f"COMMIT; NOTIFY {_CHANNEL}, '{schema}'"

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


class PostgresWaker:
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

    def close(self) -> None:
        """Stop listening."""
        if self._line:
            self._line.close()
            self._line = None


class _Text(Dumper):
    """Keep text; PostgreSQL has no room for NUL in it."""

    def dump(self, obj: str) -> bytes:
        return obj.replace("\0", "\ufffd").encode()


@cache
def _translated(query: str) -> bytes:
    """Return a query with the driver's parameters, or PostgreSQL's own version of it."""
    own = _OWN.get(query.partition("\n")[0].removeprefix("-- "))
    text = (filled(own) if own else query).replace("%", "%%").replace("?", "%s")
    return _PARAMETER.sub(r"%(\1)s", text).encode()


def _filled(literal: psycopg.ClientCursor[Any], sql: bytes, values: Any) -> bytes:
    """Return a query with its values written into it."""
    return literal.mogrify(sql, values).encode() if values is not None else sql


class Postgres(Database):
    """One project's schema in a PostgreSQL database."""

    error = psycopg.Error
    # Two processes waited for each other, and the server stopped this one.
    passing = (psycopg.errors.DeadlockDetected,)
    types = _TYPES

    def __init__(self, url: str, schema: str, owner: str | None = None) -> None:
        self.name = f"{mask(url)} (schema {schema})"
        self.schema = schema
        self._url = url
        self._owner = f"treadle: {owner}" if owner else None
        self._secret = ""
        self._clock: tuple[float, float] | None = None

    def explain(self, error: Exception) -> StoreError:
        """Turn what the server says into a sentence that helps, without the password."""
        code = getattr(error, "sqlstate", None) or ""
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        text = mask(text.replace(self._secret, "***") if self._secret else text)
        if isinstance(error, psycopg.OperationalError) and code[:2] in ("", "08", "57"):
            return StoreError(
                f"{self.name} cannot be reached: {text}",
                code="store_unreachable",
                fix=["treadle doctor"],
            )
        sentence = _SENTENCES.get(code) or _SENTENCES.get(code[:2]) or "{text}"
        return StoreError(f"{self.name}: {sentence.format(text=text)}")

    def exists(self) -> bool:
        """Tell whether the schema has tables."""
        with explained(self), closing(self.open_reader()) as connection:
            return self.version(connection) > 0

    def open_reader(self) -> PostgresConnection:
        """Open the schema for reading only, when it is first asked something."""
        return PostgresConnection(partial(self._open, read_only=True))

    def open_writer(self) -> PostgresWriter:
        """Open the schema, which need not be there yet."""
        return PostgresWriter(PostgresConnection(partial(self._open, read_only=False)), self.schema)

    def version(self, connection: PostgresConnection) -> int:
        """Return the schema version; 0 means it was never set up."""
        table = f"{self.schema}.schema_migrations"
        if connection.execute("SELECT to_regclass(:table)", {"table": table}).fetchone()[0] is None:
            return 0
        found = connection.execute("SELECT max(version) FROM schema_migrations").fetchone()[0]
        return int(found or 0)

    def make_room(self, connection: PostgresConnection) -> None:
        """Make the schema, and say whose it is."""
        found = connection.execute("SELECT to_regnamespace(:schema)", {"schema": self.schema})
        if found.fetchone()[0] is None:
            owner = (self._owner or "treadle: whoever names it").replace("'", "''")
            connection.execute(f"CREATE SCHEMA {self.schema}")
            connection.execute(f"COMMENT ON SCHEMA {self.schema} IS '{owner}'")

    def open_waker(self) -> PostgresWaker:
        """Return what listens to the server."""
        return PostgresWaker(partial(self._open, read_only=True), self.schema)

    def now(self) -> datetime:
        """Return the server's time: many machines share it, and none of them is asked."""
        if self._clock is None or time.monotonic() - self._clock[1] > _CLOCK_HOLDS:
            self._set_clock()
        server, here = self._clock or (0.0, 0.0)
        return datetime.fromtimestamp(server + time.monotonic() - here, UTC)

    def _set_clock(self) -> None:
        """Ask the server for its time; while it is away, go on from when it was last asked."""
        try:
            self._open(read_only=True).close()
        except psycopg.Error as error:
            if self._clock is None:
                raise self.explain(error) from error
            server, here = self._clock
            self._clock = server + time.monotonic() - here, time.monotonic()

    def _open(self, *, read_only: bool) -> Line:
        """Open a line that speaks of this schema only."""
        settings = conninfo.conninfo_to_dict(self._url)
        self._secret = str(settings.get("password") or "")
        line = psycopg.connect(
            conninfo.make_conninfo("", **{**_DEFAULTS, **settings}), autocommit=True
        )
        line.adapters.register_dumper(str, _Text)
        self._check_version(line)
        values = {"schema": self.schema, "read_only": "on" if read_only else "off"}
        *_, clock, owner = line.execute(_SET_UP, values).fetchone() or (0.0, None)
        self._clock = clock, time.monotonic()
        self._check_owner(line, owner)
        return line

    def _check_version(self, line: Line) -> None:
        found = line.info.server_version // 10000
        if found < _OLDEST:
            line.close()
            raise StoreError(
                f"{self.name} is PostgreSQL {found}; treadle needs {_OLDEST} or newer",
                code="store_too_old",
            )

    def _check_owner(self, line: Line, owner: str | None) -> None:
        """Keep two folders of one name apart, unless someone says that they are one project."""
        if self._owner and owner and owner != self._owner:
            line.close()
            raise StoreError(
                f"{self.name} is in use already (by {owner.removeprefix('treadle: ')}); set"
                f' store_schema = "{self.schema}" if it is the same project, else another name',
                code="store_taken",
                details={"key": "store_schema"},
            )
