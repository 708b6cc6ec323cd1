"""What a fleet asks of its PostgreSQL: few lines, few questions, and no line of its own."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from tests.fleet.lab import Lab, database, postgres, wait_for
from tests.fleet.test_faults import in_do
from tests.fleet.test_leader import LONG_AGO
from treadle.fleet.site import FleetSite
from treadle.layout import Layout
from treadle.store import fleet
from treadle.web.live import Looking

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

MOST = 8
# Ten times as quick as the defaults, so that ten transactions a second stand for one.
TENTH = {
    "TREADLE_FLEET_POLLING": "0.1",
    "TREADLE_FLEET_BEAT": "1",
    "TREADLE_FLEET_DEAD_AFTER": "4.5",
}
POOLER = """
[databases]
* = host={server} user={user}
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
unix_socket_mode = 0777
logfile = {folder}/log
auth_type = any
pool_mode = transaction
max_client_conn = 200
default_pool_size = 5
"""


def add_projects(url, count):
    site = FleetSite(url, "p", None)
    with site.fleet() as workers:
        for number in range(count):
            site.store(f"other{number}").close()
            fleet.add_project(workers, f"other{number}", "/repo", LONG_AGO)


def ask(url, sql):
    with psycopg.connect(url, autocommit=True) as admin:
        return admin.execute(sql).fetchone()[0]


@pytest.fixture
def logging(tmp_path):
    """A fleet whose server writes down every statement, and of which worker's transaction it is."""
    server = postgres()
    url = database(server.get_uri(), "idle")
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET log_line_prefix = '%a %v '")
        admin.execute("ALTER DATABASE idle SET log_statement = 'all'")
        admin.execute("SELECT pg_reload_conf()")
    made = Lab(tmp_path, {"TREADLE_STORE": url, **TENTH})
    made.make()
    yield made, Path(server.pgdata) / "log"
    made.close()
    server.cleanup()


def own(log, worker):
    """Return what a worker has asked, each with its transaction's name before it."""
    told = log.read_text().replace("\n\t", " ").splitlines()
    return [line.removeprefix(f"{worker} ") for line in told if line.startswith(f"{worker} ")]


def transactions(asked):
    """Count them by name; to call is one of its own, after the one that is called for."""
    return len({line.split()[0] for line in asked}) + sum("; NOTIFY" in line for line in asked)


def beats(asked):
    return sum("SET beat_at" in line for line in asked)


def test_idle_workers_ask_at_most_once_a_second_however_many_projects_there_are(logging):
    """The one that leads, too. Counted are their own: a server does something by itself."""
    lab, log = logging
    add_projects(lab.env["TREADLE_STORE"], 30)
    pids = {lab.worker().pid for _ in range(2)}
    workers = wait_for(lambda: by_pids(lab, pids))
    for name in workers:  # one that is new looks more often, for a dead period
        wait_for(lambda name=name: beats(own(log, name)) > 7)
    before, began = {name: own(log, name) for name in workers}, time.monotonic()
    for name in workers:
        wait_for(lambda name=name: beats(own(log, name)) >= beats(before[name]) + 10)
    for name in workers:
        count = transactions(own(log, name)[len(before[name]) :])
        rate = count / (time.monotonic() - began) / 10
        print(f"{rate:.2f} transactions a second")
        assert 0 < rate <= 1


def by_pids(lab, pids):
    found = {it["pid"]: it["worker_id"] for it in lab.status()["workers"]}
    return [found[it] for it in pids] if pids <= set(found) else None


def test_a_worker_holds_few_lines_however_many_projects_it_drives(held):
    url, schemas = held.env["TREADLE_STORE"], [f"many{number}" for number in range(9)]
    runs = []
    for schema in schemas:
        held.env["TREADLE_STORE_SCHEMA"] = schema
        runs += held.queue()
    held.env["TREADLE_FLEET_DEAD_AFTER"] = "2"
    held.worker("--slots", "9")
    (name,) = wait_for(lambda: [it["worker_id"] for it in held.status()["workers"]])
    count = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{name}'"
    seen = []
    with psycopg.connect(url, autocommit=True) as admin:

        def look():
            seen.append(admin.execute(count).fetchone()[0])
            return all(
                run_id in {it[0] for it in held.spawned() if it[1] == "do"} for run_id in runs
            )

        wait_for(look)
        held.hold.unlink()
        passed = " + ".join(
            f"(SELECT count(*) FROM {it}.runs WHERE status = 'passed')" for it in schemas
        )
        wait_for(lambda: look() and admin.execute(f"SELECT {passed}").fetchone()[0] == len(runs))
    print(f"at most {max(seen)} lines")
    assert 0 < max(seen) <= MOST, seen


@pytest.fixture
def pooler(shared):
    """A pooler between the fleet and its server, which gives each transaction another line."""
    if not shutil.which("pgbouncer"):
        pytest.skip("pgbouncer is not installed: apt-get install pgbouncer")
    settings = conninfo.conninfo_to_dict(shared.env["TREADLE_STORE"])
    folder = Path(tempfile.mkdtemp(prefix="treadle-pool-", dir="/tmp"))
    folder.chmod(0o755)
    (folder / "pool.ini").write_text(
        POOLER.format(server=settings["host"], user=settings["user"], folder=folder)
    )
    owner = Path(settings["host"]).owner()  # nobody else may come near the server's socket
    shutil.chown(folder, owner)
    who = ["-u", owner] if os.geteuid() == 0 else []
    process = subprocess.Popen(
        ["pgbouncer", "-q", *who, str(folder / "pool.ini")], stderr=subprocess.DEVNULL
    )
    url = f"postgresql://{settings['user']}@/{settings['dbname']}?host={folder}&port=6432"
    wait_for(lambda: (folder / ".s.PGSQL.6432").exists())
    yield url
    process.terminate()
    process.wait()
    shutil.rmtree(folder)


def test_a_fleet_works_behind_a_pooler_that_knows_transactions_only(shared, pooler):
    direct, shared.env["TREADLE_STORE"] = shared.env["TREADLE_STORE"], pooler
    runs = []
    for schema in ("one", "two"):
        shared.env["TREADLE_STORE_SCHEMA"] = schema
        runs += shared.queue(2)
    first = shared.worker("--slots", "2")
    in_do(shared, runs[0])
    first.kill()
    shared.worker("--slots", "4")
    for schema in ("one", "two"):
        shared.env["TREADLE_STORE_SCHEMA"] = schema
        assert [it["status"] for it in shared.wait_over(2)] == ["passed", "passed"]
    assert {it["queued"] for it in shared.status()["repositories"]} == {0}
    assert ask(direct, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0


def test_a_page_behind_a_pooler_moves_although_nobody_hears_of_commits(shared, pooler, monkeypatch):
    """It looks now and then, not at every turn."""
    monkeypatch.setenv("TREADLE_STORE", pooler)
    shared.env["TREADLE_STORE"] = pooler
    shared.queue()
    with contextlib.closing(Looking(Layout(shared.root))) as looking:
        for _ in range(2):
            began = time.monotonic()
            wait_for(lambda: "store" in looking.news())
        assert time.monotonic() - began > 1
