"""Machines as they are: names that do not resolve, wrong clocks, one host twice, other versions."""

import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from tests.fleet.lab import Lab
from tests.fleet.test_faults import in_do

DOCS = Path(__file__).parents[2] / "docs" / "fleet.md"

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

CUT = (
    "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
# What a scaler asks for, as docs/fleet.md has it.
SCALE = re.sub(r"\s+", " ", DOCS.read_text().partition("query: >-")[2].partition("target")[0])
# Loaded by a worker's interpreter before anything else.
RESOLVER = """
import os, socket
ask = socket.getaddrinfo
def lookup(host, *args, **more):
    if host != "fleet-db":
        return ask(host, *args, **more)
    if os.path.exists({away!r}):
        raise socket.gaierror(-3, "Temporary failure in name resolution")
    return ask("127.0.0.1", *args, **more)
socket.getaddrinfo = lookup
"""
CLOCK = """
import datetime, time
right, seconds = time.time, {seconds}
class Skewed(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(seconds=seconds)
datetime.datetime = Skewed
time.time = lambda: right() + seconds
"""
RELAY = """
import asyncio, sys
async def pour(reader, writer):
    while data := await reader.read(1 << 16):
        writer.write(data)
    writer.close()
async def join(reader, writer):
    inner, outer = await asyncio.open_unix_connection(sys.argv[1])
    await asyncio.gather(pour(reader, outer), pour(inner, writer))
async def listen():
    server = await asyncio.start_server(join, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(listen())
"""


def change_machine(lab: Lab, name: str, code: str) -> None:
    """Let every process that is started from now on run on another kind of machine."""
    folder = lab.folder / name
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(code)
    lab.env["PYTHONPATH"] = str(folder)


def ask(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        for statement in statements:
            admin.execute(statement)


@pytest.fixture
def relay(shared):
    """Return the port on this machine that leads to the database's socket."""
    path = parse_qs(urlsplit(shared.env["TREADLE_STORE"]).query)["host"][0] + "/.s.PGSQL.5432"
    words = [sys.executable, "-c", RELAY, path]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        yield int(process.stdout.readline())
        process.kill()


def test_a_name_that_resolves_no_more_ends_no_worker_and_repeats_no_agent(held, relay):
    url, away = held.env["TREADLE_STORE"], held.folder / "away"
    user = urlsplit(url).username
    change_machine(held, "resolver", RESOLVER.format(away=str(away)))
    held.env["TREADLE_STORE"] = f"postgresql://{user}@fleet-db:{relay}{urlsplit(url).path}"
    held.env["TREADLE_FLEET_DEAD_AFTER"] = "5"
    (run_id,) = held.queue()
    workers = [held.worker(), held.worker()]
    in_do(held, run_id)
    away.touch()
    ask(url, CUT)
    held.hold.unlink()
    refused = held.treadle("fleet", "status", "--json", check=False)
    assert "store_unreachable" in refused
    assert "failed to resolve host 'fleet-db'" in refused
    time.sleep(7)
    assert [worker.poll() for worker in workers] == [None, None]
    away.unlink()
    held.wait_over(1)
    assert [words[1] for words in held.spawned()] == ["plan", "do", "check"]
    assert held.show(run_id)["claim_epoch"] == 1
    assert {row["status"] for row in held.status()["workers"]} == {"alive"}


def test_a_server_without_a_free_connection_ends_no_worker_and_repeats_no_agent(held):
    url = held.env["TREADLE_STORE"]
    name = urlsplit(url).path[1:]
    ask(url, f"CREATE ROLE {name} LOGIN", f"GRANT ALL ON DATABASE {name} TO {name}")
    held.env["TREADLE_STORE"] = url.replace(f"//{urlsplit(url).username}@", f"//{name}@")
    (run_id,) = held.queue()
    worker = held.worker()
    in_do(held, run_id)
    ask(url, f"ALTER ROLE {name} CONNECTION LIMIT 0", CUT)
    held.hold.unlink()
    refused = held.treadle("fleet", "status", "--json", check=False)
    assert "store_unreachable" in refused
    assert "too many connections" in refused
    time.sleep(3)
    assert worker.poll() is None
    ask(url, f"ALTER ROLE {name} CONNECTION LIMIT -1")
    held.wait_over(1)
    assert [words[1] for words in held.spawned()] == ["plan", "do", "check"]
    assert held.show(run_id)["claim_epoch"] == 1


def test_workers_with_wrong_clocks_write_the_databases_time_and_bury_nobody(held):
    held.env["TREADLE_FLEET_PER_REPOSITORY"] = "2"
    began = datetime.now(UTC)
    runs = held.queue(2)
    for hours in (2, -2):
        change_machine(held, f"clock{hours}", CLOCK.format(seconds=hours * 3600))
        held.worker("--slots", "1")
    for run_id in runs:
        in_do(held, run_id)
    time.sleep(6)
    held.hold.unlink()
    held.wait_over(2)
    del held.env["PYTHONPATH"]
    workers = held.status()["workers"]
    assert [row["status"] for row in workers] == ["alive", "alive"]
    times = [row[key] for row in workers for key in ("started_at", "beat_at")]
    for shown in map(held.show, runs):
        assert shown["claim_epoch"] == 1
        times += [shown["created_at"], shown["ended_at"]]
        times += [step[key] for step in shown["steps"] for key in ("started_at", "ended_at")]
        times += [event["ts"] for event in held.events(shown["run_id"])]
    assert began < min(map(datetime.fromisoformat, times))
    assert max(map(datetime.fromisoformat, times)) < datetime.now(UTC)


def folders(lab: Lab, host: str) -> list[Path]:
    """Return the attempts that are under way on a host."""
    return sorted((lab.folder / "hosts" / host).glob("cache/treadle/fleet/work/*/*/*"))


def test_a_host_that_is_started_twice_is_two_workers_with_clones_of_their_own(held):
    held.env["TREADLE_FLEET_PER_REPOSITORY"] = "2"
    runs = held.queue(2)
    for _ in range(2):
        held.worker("--slots", "1", name="twice")
    for run_id in runs:
        in_do(held, run_id)
    owners = {row["worker_id"]: row["host"] for row in held.status()["workers"]}
    assert (len(owners), set(owners.values())) == (2, {os.uname().nodename})
    attempts = folders(held, "twice")
    assert {path.parent.name for path in attempts} == set(owners)
    assert [path.name for path in attempts] != []
    assert {path.name.partition(".")[0] for path in attempts} == set(runs)
    held.hold.unlink()
    assert {row["status"] for row in held.wait_over(2)} == {"passed"}


def test_workers_of_two_fleets_on_one_machine_leave_each_other_alone(held):
    (run_id,) = held.queue()
    held.worker(name="both")
    in_do(held, run_id)
    before = folders(held, "both")
    store = held.env.pop("TREADLE_STORE")
    other = held.worker("--idle-exit", "0", name="both")
    assert other.wait(180) == 0, held.words()
    held.env["TREADLE_STORE"] = store
    assert folders(held, "both") == before
    held.hold.unlink()
    assert [row["status"] for row in held.wait_over(1)] == ["passed"]


def test_several_hosts_or_a_service_may_be_named_and_the_first_run_may_come_first(held, relay):
    """No worker was ever there: the queue's tables are made for a scaler that counts jobs."""
    url, user = held.env["TREADLE_STORE"], urlsplit(held.env["TREADLE_STORE"]).username
    name = urlsplit(url).path[1:]
    service = held.folder / "pg_service.conf"
    service.write_text(f"[fleet]\nhost=127.0.0.1\nport={relay}\nuser={user}\ndbname={name}\n")
    held.env["PGSERVICEFILE"] = str(service)
    held.env["TREADLE_STORE"] = "postgresql:///?service=fleet"
    (run_id,) = held.queue()
    with psycopg.connect(url) as admin:
        waiting = admin.execute(SCALE.encode()).fetchone()
    assert waiting == (1,)
    hosts = f"127.0.0.1:1,127.0.0.1:{relay}"
    held.env["TREADLE_STORE"] = f"postgresql://{user}@{hosts}/{name}?target_session_attrs=any"
    held.hold.unlink()
    held.worker("--once")
    held.wait_over(1)
    assert held.show(run_id)["status"] == "passed"
