"""The keeper of a worker: beats, judges the dead, finds what was lost."""

import time
from contextlib import nullcontext
from datetime import timedelta

import pytest

from tests.fleet.inline import Inline
from tests.fleet.lab import wait_for
from tests.store.rows import run_row
from treadle.config.schema import FleetConfig
from treadle.engine.elsewhere import fleet_run
from treadle.engine.elsewhere.fleet_run import Ticket
from treadle.engine.run import memory
from treadle.fleet.leader import Beat
from treadle.fleet.queue import Job
from treadle.ids import utc
from treadle.layout import Layout
from treadle.store import fleet
from treadle.store.fleet import WorkerRow
from treadle.store.store import Store

PACE = FleetConfig(beat=0.01, dead_after=0.2)
LONG_AGO = "2026-01-01T00:00:00.000000Z"
RUN = "20260123-145501-ab12cd"


class Place:
    """A site with one store for everything."""

    def __init__(self, store):
        self.fleet = lambda: store
        self.runs = lambda opened, names: [(name, fleet.runs(store)) for name in names]
        self.store = self.reader = lambda project: nullcontext(store)


@pytest.fixture
def store(tmp_path):
    with Store.open(Layout(tmp_path)) as opened:
        fleet.add_project(opened, "p", "/repo", LONG_AGO)
        yield opened


@pytest.fixture
def beat(store):
    """A worker that came just now, and another one that beats no more."""
    died = []
    site = Place(store)
    made = Beat("me", Inline(), set(), site, PACE, died.append)
    made.died = died
    for name in ("me", "other"):
        fleet.register(store, WorkerRow(name, "h", 1, 1, 0, "alive", LONG_AGO, LONG_AGO), LONG_AGO)
    return made


def status(store, name):
    return next(row.status for row in fleet.workers(store) if row.worker_id == name)


def beat_once(beat):
    """Beat without a gap, however busy the machine is."""
    beat._beaten_at = time.monotonic()
    beat.tick()


def queued(store, **changes):
    row = run_row(RUN, status="stopped", claim_epoch=0, **changes)
    ticket = Ticket(project="p", remote="/repo", artifacts="file:///x", priority=3)
    kv = {"reason_code": "queued", "order": {}, "fleet": fleet_run.msgspec.to_builtins(ticket)}
    store.insert_run(row, (), kv)
    return row


def take(store, row, owner):
    """Let a worker drive a run."""
    return fleet_run.take(store, row, owner, "run_claimed", "x", "running", reason_code=None)


def test_nobody_is_judged_before_the_leader_was_connected_for_a_whole_period(beat, store):
    beat.tick()
    assert status(store, "other") == "alive"
    wait_for(lambda: beat_once(beat) or status(store, "other") == "dead")
    assert status(store, "me") == "alive"


def test_an_outage_is_nobodys_death(beat, store):
    beat.tick()
    time.sleep(0.25)
    beat.tick()
    assert status(store, "other") == "alive"


def test_a_worker_that_was_declared_dead_is_told_so(beat, store):
    called = []
    beat._on_death = lambda: called.append(True)
    fleet.bury(store, "me", "2100-01-01T00:00:00.000000Z")
    beat.tick()
    assert called == [True]


def test_a_run_that_no_job_stands_for_gets_one(beat, store):
    queued(store)
    beat.tick()
    assert list(beat._dispatcher.health().waiting) == [Job("p", RUN, 0)]


def test_a_run_whose_job_was_spent_waits_again_under_a_new_epoch(beat, store):
    queued(store)
    beat.tick()
    beat._dispatcher.lose(Job("p", RUN, 0))
    time.sleep(0.25)
    beat.tick()
    assert list(beat._dispatcher.health().waiting) == [Job("p", RUN, 1)]
    assert store.run(RUN).claim_epoch == 1


def test_a_run_of_a_lost_worker_waits_again(beat, store):
    row = queued(store)
    take(store, row, "worker:gone")
    time.sleep(0.25)
    beat.tick()
    assert memory.is_queued(store.run(RUN), memory.recall(store, RUN))
    assert list(beat._dispatcher.health().waiting) == [Job("p", RUN, 2)]


def test_the_leader_has_jobs_forgotten_that_are_long_done(beat, store):
    before = []
    beat._dispatcher.forget = before.append
    beat.tick()
    assert utc(store.now() - timedelta(hours=2)) < before[0] < utc(store.now())


def test_a_job_that_no_thread_drives_is_sent_back_after_three_beats(beat, store):
    job = Job("p", RUN, 7)
    fleet.add_job(store, job.id, job.project, 0, LONG_AGO)
    fleet.take_job(store, "me", 1)
    sent = []
    beat._dispatcher.health = lambda waiting=True, holder=None: type(
        "H", (), {"held": {job: "me"}, "waiting": {}}
    )
    beat._dispatcher.retry = sent.extend
    beat.tick()
    assert not sent
    time.sleep(3 * beat._every)
    beat.tick()
    assert sent == [job]


def test_a_beat_that_fails_is_said_once_and_again_when_it_goes_through(beat):
    said, fail = [], True

    def tick():
        if fail:
            raise OSError("no room")
        beat._over.set()

    def watch(moment):
        nonlocal fail
        said.append(moment.message)
        fail = False

    beat.tick, beat._watch = tick, watch
    beat.run()
    lost, again = "cannot send its heartbeat: OSError: no room", "sends its heartbeat again"
    assert said == [f"worker me {lost}", f"worker me {again}"]
