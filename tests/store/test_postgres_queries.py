"""Every query is one that PostgreSQL reads, and hot ones find their rows by an index."""

import re

import psycopg
import pytest

from treadle.store import postgres
from treadle.store.postgres import Postgres
from treadle.store.store import Store
from treadle.store.transaction import QUERIES, sql

pytestmark = pytest.mark.real

# As in SQLite: the whole table is the answer, or it is a small one.
WHOLE = {
    *("bury_workers", "forget_workers", "leader", "workers"),
    *("mail_folders", "questions", "step_names", "tasks"),
    *("agents_seen", "mission_names", "outages", "looks_of_task_files"),
}
PARAMETER = re.compile(r"%\((\w+)\)s|%s")


@pytest.fixture(scope="module")
def plans(pg_server):
    """Return a function that tells how the server would carry a query out with any values."""
    Store.at(Postgres(pg_server, "plans")).close()
    with psycopg.connect(pg_server, autocommit=True) as line:
        line.execute("SET search_path TO plans")
        line.execute("SET enable_seqscan = off")
        line.execute("SET plan_cache_mode = force_generic_plan")
        yield lambda name: _plan(line, postgres._translated(sql(name)).decode())
        line.execute("DROP SCHEMA plans CASCADE")


def _plan(line, sql):
    names = []

    def number(found):
        if found[1] is None or found[1] not in names:
            names.append(found[1])
        return f"${len(names) if found[1] is None else names.index(found[1]) + 1}"

    text = PARAMETER.sub(number, sql).replace("%%", "%")
    line.execute(f"PREPARE asked AS {text}".encode())
    given = f"({', '.join(['NULL'] * len(names))})" if names else ""
    found = line.execute(f"EXPLAIN EXECUTE asked{given}".encode()).fetchall()
    line.execute("DEALLOCATE asked")
    return [row[0] for row in found]


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_the_server_reads_every_query_and_scans_no_table(plans, name):
    scans = [row for row in plans(name) if "Seq Scan" in row]
    assert not scans or name in WHOLE
