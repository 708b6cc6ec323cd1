"""Who leads the workers of a shared database, and what becomes of it when the leader is lost."""

import secrets
import threading

import psycopg
import pytest

from tests.fleet.inline import Inline
from tests.fleet.lab import database, wait_for
from tests.fleet.test_leader import queued, status, take
from treadle.config.schema import FleetConfig
from treadle.fleet.leader import Beat
from treadle.fleet.queue import Job
from treadle.fleet.site import FleetSite
from treadle.ids import utc
from treadle.store import fleet
from treadle.store.fleet import WorkerRow

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

DEAD_AFTER = 2.0
PACE = FleetConfig(beat=0.1, dead_after=DEAD_AFTER)
EARLY = "2026-01-01T00:00:00.000000Z"


@pytest.fixture
def site(pg_server):
    return FleetSite(database(pg_server, f"leader_{secrets.token_hex(6)}"), "p", None)


@pytest.fixture
def store(site):
    """The project `p` of the fleet."""
    with site.fleet() as workers, site.store("p") as rows:
        fleet.add_project(workers, "p", "/repo", utc(workers.now()))
        yield rows


@pytest.fixture
def keeper(site):
    """Return a function that lets a worker come and beat; each queue is its own."""
    made = []

    def come(name, age=0.0):
        beat = Beat(name, Inline(), set(), site, PACE, lambda: beat._over.set())
        now = utc(beat.store.now())
        fleet.register(beat.store, WorkerRow(name, "h", 1, 1, 0, "alive", now, now), now)
        beat._came_at -= age
        beat.start()
        made.append(beat)
        return beat

    yield come
    for beat in made:
        beat.end()
        beat.close()


def leads(site, name):
    with site.fleet() as store:
        return wait_for(lambda: fleet.leader(store, utc(store.now())) == name)


def test_when_the_leader_dies_another_worker_leads_and_rescues_its_runs(site, store, keeper):
    row = queued(store)
    first = keeper("first")
    leads(site, "first")
    epoch = take(store, row, "worker:first").claim_epoch
    second = keeper("second")
    first.end()
    leads(site, "second")
    wait_for(lambda: status(second.store, "first") == "dead")
    wait_for(lambda: Job("p", row.run_id, epoch + 1) in second._dispatcher.health().waiting)


def test_a_worker_that_just_came_leaves_the_lead_to_one_that_may_judge(site, store, keeper):
    """Otherwise it would lead for a whole period in which it may declare nobody dead."""
    first = keeper("first")
    leads(site, "first")
    keeper("second", age=DEAD_AFTER)
    first.end()
    third = keeper("third", age=-3600)
    leads(site, "second")
    assert not third._may_lead()


def test_a_leader_whose_keeper_hangs_loses_the_lead_and_its_life(site, store, keeper):
    first = keeper("first")
    leads(site, "first")
    hangs, go = threading.Event(), threading.Event()

    def hang(**_):
        hangs.set()
        go.wait(180)
        raise TimeoutError

    first._dispatcher.health = hang
    fleet.add_job(first.store, "p/r/1", "p", 0, EARLY)
    fleet.take_job(first.store, "first", 1)
    second = keeper("second")
    assert hangs.wait(180)
    leads(site, "second")
    wait_for(lambda: status(second.store, "first") == "dead")
    go.set()
    wait_for(lambda: not first.is_alive())


def test_a_project_that_cannot_be_read_keeps_nobody_from_judging(site, store, keeper):
    """Its treadle is newer than ours; the other projects' dead are found all the same."""
    with site.fleet() as workers, site.store("newer"):
        fleet.add_project(workers, "newer", "/repo", utc(workers.now()))
        fleet.register(workers, WorkerRow("gone", "h", 1, 1, 0, "alive", EARLY, EARLY), EARLY)
    with psycopg.connect(site.url, autocommit=True) as admin:
        admin.execute("INSERT INTO newer.schema_migrations VALUES (9999, 'later')")
    row = queued(store)
    first = keeper("first")
    with site.fleet() as workers:
        wait_for(lambda: status(workers, "gone") == "dead")
    wait_for(lambda: list(first._dispatcher.health().waiting) == [Job("p", row.run_id, 0)])
