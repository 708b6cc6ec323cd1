"""Keep projects in PostgreSQL, each in a schema of its own; what differs from SQLite is here."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import psycopg
from psycopg import conninfo

from treadle.errors import StoreError
from treadle.ids import mask
from treadle.store.postgres_line import Connection, Line, Waker, Writer, adapt

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


class Postgres:
    """One project's schema in a PostgreSQL database."""

    error = psycopg.Error
    moment = """to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""

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

    def passes(self, error: Exception) -> bool:
        """Tell whether two processes waited for each other and the server stopped this one."""
        return isinstance(error, psycopg.errors.DeadlockDetected)

    def exists(self) -> bool:
        """Tell whether the schema has tables."""
        connection = Connection(self._connect_to_read)
        try:
            return self.version(connection) > 0
        except psycopg.Error as error:
            raise self.explain(error) from error
        finally:
            connection.close()

    def open_reader(self) -> Connection:
        """Open the schema for reading only, when it is first asked something."""
        return Connection(self._connect_to_read)

    def open_writer(self) -> Writer:
        """Open the schema, which need not be there yet."""
        return Writer(Connection(self._connect_to_write), self.schema)

    def version(self, connection: Connection) -> int:
        """Return the schema version; 0 means it was never set up."""
        table = f"{self.schema}.schema_migrations"
        if connection.execute("SELECT to_regclass(:table)", {"table": table}).fetchone()[0] is None:
            return 0
        found = connection.execute("SELECT max(version) FROM schema_migrations").fetchone()[0]
        return int(found or 0)

    @contextmanager
    def migrating(self, connection: Connection) -> Iterator[None]:
        """Let one process migrate in one transaction; the others find it done."""
        writer = Writer(connection, self.schema)
        writer.begin(alone=True)
        try:
            self._make_schema(connection)
            yield
            writer.commit()
        finally:
            writer.rollback()

    def run_script(self, connection: Connection, script: str) -> None:
        """Carry out a migration inside the transaction around all of them."""
        for pattern, type_ in _TYPES:
            script = pattern.sub(type_, script)
        connection.script(script)

    def open_waker(self) -> Waker:
        """Return what listens to the server."""
        return Waker(self._connect_to_read, self.schema)

    def now(self) -> datetime:
        """Return the server's time: many machines share it, and none of them is asked."""
        if self._clock is None or time.monotonic() - self._clock[1] > _CLOCK_HOLDS:
            self._set_clock()
        server, here = self._clock or (0.0, 0.0)
        return datetime.fromtimestamp(server + time.monotonic() - here, UTC)

    def _set_clock(self) -> None:
        """Ask the server for its time; while it is away, go on from when it was last asked."""
        try:
            self._connect_to_read().close()
        except psycopg.Error as error:
            if self._clock is None:
                raise self.explain(error) from error
            server, here = self._clock
            self._clock = server + time.monotonic() - here, time.monotonic()

    def _connect_to_read(self) -> Line:
        return self._open(read_only=True)

    def _connect_to_write(self) -> Line:
        return self._open(read_only=False)

    def _open(self, *, read_only: bool) -> Line:
        """Open a line that speaks of this schema only."""
        settings = conninfo.conninfo_to_dict(self._url)
        self._secret = str(settings.get("password") or "")
        line = psycopg.connect(
            conninfo.make_conninfo("", **{**_DEFAULTS, **settings}), autocommit=True
        )
        adapt(line)
        self._check_version(line)
        values = {"schema": self.schema, "read_only": "on" if read_only else "off"}
        *_, clock, owner = line.execute(_SET_UP, values).fetchone() or (0.0, None)
        self._clock = clock, time.monotonic()
        self._check_owner(line, owner)
        return line

    def _make_schema(self, connection: Connection) -> None:
        found = connection.execute("SELECT to_regnamespace(:schema)", {"schema": self.schema})
        if found.fetchone()[0] is None:
            owner = (self._owner or "treadle: whoever names it").replace("'", "''")
            connection.script(
                f"CREATE SCHEMA {self.schema}; COMMENT ON SCHEMA {self.schema} IS '{owner}'"
            )

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
