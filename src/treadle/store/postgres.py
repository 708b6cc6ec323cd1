"""Keep projects in PostgreSQL, each in a schema of its own; what differs from SQLite is here."""

import math
import re
import time
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import Any

import psycopg
from psycopg import conninfo
from psycopg.adapt import Dumper
from psycopg.pq import TransactionStatus

from treadle.errors import StoreError
from treadle.ids import FLEET_SCHEMA, mask
from treadle.store.transaction import Database, Result, Row, explained, filled, read_queries

Line = psycopg.Connection[Any]
Answer = psycopg.Cursor[Any]

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
# Said again in every transaction, for that transaction only: a line serves all projects, and a
# pooler may give each transaction another one.
_PLACE = (
    "SELECT set_config('search_path', '{schema}', true),"
    " set_config('transaction_read_only', '{read_only}', true),"
    " set_config('lock_timeout', '30s', true),"
    " set_config('idle_in_transaction_session_timeout', '60s', true)"
)
_WHO = """
SELECT extract(epoch FROM clock_timestamp())::float8,
    obj_description(to_regnamespace(%s), 'pg_namespace')
"""
_VERSION = "SELECT max(version) FROM schema_migrations"
_READABLE = """
SELECT nspname FROM pg_namespace JOIN pg_class ON relnamespace = pg_namespace.oid
WHERE nspname = ANY(string_to_array(:schemas, ','))
    AND has_schema_privilege(pg_namespace.oid, 'USAGE')
    AND relname IN ('schema_migrations', 'runs', 'kv_run')
    AND has_table_privilege(pg_class.oid, 'SELECT')
GROUP BY nspname HAVING count(*) = 3 ORDER BY nspname
"""
# How many lines a process has to one server, for all its projects: for single statements, which
# wait for nobody, and for transactions. Together with one that listens they are fewer than 8.
_STATEMENTS = 3
_TRANSACTIONS = 4
_IDLE = 30.0
# Seconds after which something may have happened, for whoever cannot hear of it.
_DEAF = 2.0
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


class Lines:
    """Lines of this process to one server, each lent for a statement or a transaction."""

    def __init__(self, connect: Callable[[], Line], most: int) -> None:
        self._connect = connect
        self._room = BoundedSemaphore(most)
        self._lock = Lock()
        self._free: list[tuple[float, Line]] = []

    def borrow(self) -> Line:
        """Return a line that nobody else has: the one that was used last, or a new one."""
        self._room.acquire()
        try:
            with self._lock:
                found = self._free.pop()[1] if self._free else None
            return found or self._connect()
        except BaseException:
            self._room.release()
            raise

    def give_back(self, line: Line) -> None:
        """Keep a line for the next one; those that nobody needed for a while are closed."""
        if line.info.transaction_status == TransactionStatus.IDLE:
            with self._lock:
                self._free.append((time.monotonic(), line))
            self.close(time.monotonic() - _IDLE)
        else:
            line.close()
            self.close()  # whatever cut this one has cut the others as well
        self._room.release()

    def close(self, before: float = math.inf) -> None:
        """Close those that nobody has had since then."""
        with self._lock:
            late = [line for at, line in self._free if at < before]
            self._free = [it for it in self._free if it[0] >= before]
        for line in late:
            line.close()


class Switchboard:
    """All lines of this process: a server's are kept while any of its stores is open."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._lines: dict[str, tuple[Lines, Lines]] = {}
        self._users: dict[str, int] = {}

    def join(self, url: str, connect: Callable[[], Line]) -> tuple[Lines, Lines]:
        """Return the lines to a server, for statements and for transactions."""
        with self._lock:
            if url not in self._lines:
                self._lines[url] = Lines(connect, _STATEMENTS), Lines(connect, _TRANSACTIONS)
            self._users[url] = self._users.get(url, 0) + 1
            return self._lines[url]

    def leave(self, url: str) -> None:
        """Close the lines to a server that nobody asks any more."""
        with self._lock:
            self._users[url] -= 1
            found = () if self._users[url] else self._lines.pop(url)
        for lines in found:
            lines.close()


_SWITCHBOARD = Switchboard()


class PostgresConnection:
    """Speaks of one schema, on whatever line is free; one that was cut is replaced."""

    def __init__(self, database: "Postgres", *, read_only: bool) -> None:
        place = _PLACE.format(schema=database.schema, read_only="on" if read_only else "off")
        self._database = database
        self._place = place.encode()
        self._statements, self._transactions = database.join()
        self._line: Line | None = None  # while a transaction is open
        self._first: Sequence[bytes] = ()
        self._is_known = self._was_cut = self._is_closed = False

    def execute(self, sql: str, values: Any = (), /) -> Result:
        """Carry out one statement."""
        return _last(self._ask((_translated(sql), values)))

    def executemany(self, sql: str, rows: Any, /) -> Result:
        """Carry out one statement for each row."""
        return _last(self._ask(*((_translated(sql), row) for row in rows)))

    def each(self, schemas: Sequence[str], *queries: str) -> dict[str, list[list[Row]]]:
        """Ask several schemas the same in one breath; return what each query found in each."""
        if not schemas:
            return {}
        paths = [f"SELECT set_config('search_path', '{it}', true)".encode() for it in schemas]
        texts = [(it, ()) for path in paths for it in (path, *map(_translated, queries))]
        cursor = self._ask(*texts)
        found = []
        while cursor.nextset():  # the first one is of the line itself
            found.append(cursor.fetchall())
        size = len(queries) + 1
        return {it: found[at * size + 1 : (at + 1) * size] for at, it in enumerate(schemas)}

    def begin(self, *statements: str) -> None:
        """Begin a transaction with its first statement, so that the server is asked once."""
        self._first = [b"BEGIN", self._place, *(it.encode() for it in statements)]

    def end(self, how: str) -> None:
        """End the transaction; one that asked nothing was never begun."""
        line, self._line, self._first = self._line, None, ()
        if line:
            try:
                line.execute(how.encode())
            finally:
                self._transactions.give_back(line)

    def close(self) -> None:
        """Leave."""
        if not self._is_closed:
            self._is_closed = True
            with suppress(psycopg.OperationalError):
                self.end("ROLLBACK")
            self._database.leave()

    def _ask(self, *statements: tuple[bytes, Any]) -> Answer:
        if self._line:
            return _send(self._line, (), statements)
        try:
            return self._ask_anew(statements)
        except psycopg.OperationalError:
            if not self._was_cut:
                raise
        return self._ask_anew(statements)

    def _ask_anew(self, statements: Sequence[tuple[bytes, Any]]) -> Answer:
        """Ask on a line of which nothing is known: it may have been cut since it was used."""
        first, self._was_cut = self._first or [self._place], False
        lines = self._transactions if self._first else self._statements
        line = lines.borrow()
        try:
            if not self._is_known:
                self._database.greet(line)
                self._is_known = True
            return _send(line, first, statements)
        finally:
            self._was_cut = line.closed
            if self._first and not line.closed:
                self._line, self._first = line, ()
            else:
                lines.give_back(line)


def _send(line: Line, first: Sequence[bytes], statements: Sequence[tuple[bytes, Any]]) -> Answer:
    """Send everything as one text.

    Not as a pipeline: after one of those the server does not count for how long a transaction is
    idle, and who stands still would keep everyone else waiting.
    """
    literal = psycopg.ClientCursor(line)
    texts = [literal.mogrify(sql, values).encode() for sql, values in statements]
    return line.execute(b";\n".join((*first, *texts)))


def _last(cursor: Answer) -> Result:
    """Return what the last statement gave."""
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
        self.connection.begin(*quick, *((self._lock,) if alone else ()))

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
        with suppress(psycopg.OperationalError):  # what was cut is taken back already
            self.connection.end("ROLLBACK")

    def close(self) -> None:
        """Leave."""
        self.connection.close()


class PostgresWaker:
    """A line on which the server tells of commits.

    A pooler may give each transaction another line: then nothing is heard, and all that can be
    told is, now and then, that something may have happened.
    """

    def __init__(self, connect: Callable[[], Line], schema: str) -> None:
        self._connect = connect
        self._schema = schema
        self._line: Line | None = None
        self._due = math.inf

    def wait(self, timeout: float) -> bool:
        """Listen; a new line tells at once, because nobody listened before."""
        try:
            if self._line is None:
                self._line = self._connect()
                (pid,) = self._line.execute(b"SELECT pg_backend_pid()").fetchone() or (0,)
                is_own = pid == self._line.info.backend_pid
                self._due = math.inf if is_own else time.monotonic() + _DEAF
                self._line.execute(f"LISTEN {_CHANNEL}".encode())
                return True
            heard = self._line.notifies(timeout=timeout, stop_after=1)
            if any(it.payload == self._schema for it in heard):
                return True
            if is_due := time.monotonic() >= self._due:
                self._due = time.monotonic() + _DEAF
            return is_due
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
                # A worker's machine need not have a project that a doctor could look at.
                fix=["treadle fleet check" if self.schema == FLEET_SCHEMA else "treadle doctor"],
            )
        sentence = _SENTENCES.get(code) or _SENTENCES.get(code[:2]) or "{text}"
        return StoreError(f"{self.name}: {sentence.format(text=text)}")

    def exists(self) -> bool:
        """Tell whether the schema has tables."""
        with explained(self), closing(self.open_reader()) as connection:
            return self.version(connection) > 0

    def open_reader(self) -> PostgresConnection:
        """Open the schema for reading only, when it is first asked something."""
        return PostgresConnection(self, read_only=True)

    def open_writer(self) -> PostgresWriter:
        """Open the schema, which need not be there yet."""
        return PostgresWriter(PostgresConnection(self, read_only=False), self.schema)

    def version(self, connection: PostgresConnection) -> int:
        """Return the schema version; 0 means it was never set up."""
        table = f"{self.schema}.schema_migrations"
        if connection.execute("SELECT to_regclass(:table)", {"table": table}).fetchone()[0] is None:
            return 0
        found = connection.execute(_VERSION).fetchone()[0]
        return int(found or 0)

    def each(
        self, connection: PostgresConnection, schemas: Sequence[str], version: int, *queries: str
    ) -> dict[str, list[list[Row]]]:
        """Ask all projects of that schema version the same; those it cannot ask are left out."""
        found = connection.execute(_READABLE, {"schemas": ",".join(schemas)}).fetchall()
        known = connection.each([row[0] for row in found], _VERSION)
        same = [name for name, ((row,),) in known.items() if row[0] == version]
        return connection.each(same, *queries)

    def make_room(self, connection: PostgresConnection) -> None:
        """Make the schema, and say whose it is."""
        found = connection.execute("SELECT to_regnamespace(:schema)", {"schema": self.schema})
        if found.fetchone()[0] is None:
            owner = (self._owner or "treadle: whoever names it").replace("'", "''")
            connection.execute(f"CREATE SCHEMA {self.schema}")
            connection.execute(f"COMMENT ON SCHEMA {self.schema} IS '{owner}'")

    def open_waker(self) -> PostgresWaker:
        """Return what listens to the server."""
        return PostgresWaker(self._connect, self.schema)

    def now(self) -> datetime:
        """Return the server's time: many machines share it, and none of them is asked."""
        if self._clock is None or time.monotonic() - self._clock[1] > _CLOCK_HOLDS:
            self._set_clock()
        server, here = self._clock or (0.0, 0.0)
        return datetime.fromtimestamp(server + time.monotonic() - here, UTC)

    def _set_clock(self) -> None:
        """Ask the server for its time; while it is away, go on from when it was last asked."""
        try:
            with closing(self.open_reader()) as connection:
                connection.execute("SELECT 1")
        except psycopg.Error as error:
            if self._clock is None:
                raise self.explain(error) from error
            server, here = self._clock
            self._clock = server + time.monotonic() - here, time.monotonic()

    def join(self) -> tuple[Lines, Lines]:
        """Return the lines to this server, which the caller leaves again."""
        return _SWITCHBOARD.join(self._url, self._connect)

    def leave(self) -> None:
        """Need the lines no longer."""
        _SWITCHBOARD.leave(self._url)

    def greet(self, line: Line) -> None:
        """Ask for the time, and whose the schema is, before anything else."""
        clock, owner = line.execute(_WHO, (self.schema,)).fetchone() or (0.0, None)
        self._clock = clock, time.monotonic()
        self._check_owner(owner)

    def _connect(self) -> Line:
        settings = conninfo.conninfo_to_dict(self._url)
        self._secret = str(settings.get("password") or "")
        line = psycopg.connect(
            conninfo.make_conninfo("", **{**_DEFAULTS, **settings}),
            autocommit=True,
            prepare_threshold=None,  # behind a pooler the next transaction has another line
        )
        line.adapters.register_dumper(str, _Text)
        self._check_version(line)
        return line

    def _check_version(self, line: Line) -> None:
        found = line.info.server_version // 10000
        if found < _OLDEST:
            line.close()
            raise StoreError(
                f"{self.name} is PostgreSQL {found}; treadle needs {_OLDEST} or newer",
                code="store_too_old",
            )

    def _check_owner(self, owner: str | None) -> None:
        """Keep two folders of one name apart, unless someone says that they are one project."""
        if self._owner and owner and owner != self._owner:
            raise StoreError(
                f"{self.name} is in use already (by {owner.removeprefix('treadle: ')}); set"
                f' store_schema = "{self.schema}" if it is the same project, else another name',
                code="store_taken",
                details={"key": "store_schema"},
            )
