"""What every dispatcher must do: one suite for all of them."""

import secrets
import threading

import pytest

from tests.fleet.inline import Inline
from tests.fleet.lab import database, wait_for
from treadle.config.schema import FleetConfig
from treadle.fleet.queue import RAREST, Job, Queue, parse_job
from treadle.fleet.site import LOCAL, FleetSite
from treadle.layout import Layout
from treadle.store import fleet
from treadle.store.fleet import WorkerRow

JOB = Job("p", "20260101-000000-000000", 1)
QUICK = FleetConfig(polling=0.02)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def site(request, tmp_path):
    if request.param == "sqlite":
        return FleetSite(None, LOCAL, Layout(tmp_path))
    server = request.getfixturevalue("pg_server")
    return FleetSite(database(server, f"queue_{secrets.token_hex(6)}"), "p", None)


@pytest.fixture(params=["inline", "sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def dispatcher(request, tmp_path):
    if request.param == "inline":
        made = Inline()
    elif request.param == "sqlite":
        made = Queue(FleetSite(None, LOCAL, Layout(tmp_path)), QUICK, "w1")
    else:
        server = request.getfixturevalue("pg_server")
        url = database(server, f"queue_{secrets.token_hex(6)}")
        made = Queue(FleetSite(url, "p", None), QUICK, "w1")
    yield made
    made.drain()


def done(seen):
    """Drive by writing down."""
    return lambda job: seen.append(job) or True


def test_a_jobs_name_tells_which_run_it_is():
    assert parse_job(JOB.id) == JOB


def test_jobs_are_delivered_once_and_drained(dispatcher):
    seen, go = [], threading.Event()

    def drive(job):
        go.wait(120)
        seen.append(job)
        return True

    dispatcher.work(2, drive)
    for number in (1, 1, 2):
        dispatcher.submit(JOB._replace(attempt=number, project=f"p{number}"), 0)
    wait_for(lambda: len(dispatcher.health().held) == 2)
    go.set()
    wait_for(lambda: len(seen) == 2)
    dispatcher.drain()
    assert sorted(job.attempt for job in seen) == [1, 2]
    assert not dispatcher.health().waiting


def test_an_idle_worker_looks_often_enough_for_what_is_promised_of_a_dead_ones_runs():
    assert RAREST * FleetConfig().polling < 2.5


def test_a_job_that_was_done_is_not_delivered_again_whoever_submits_it(dispatcher):
    seen = []
    dispatcher.work(1, done(seen))
    for job in (JOB, JOB, JOB._replace(attempt=2)):
        dispatcher.submit(job, 0)
        wait_for(lambda job=job: job in seen)
    wait_for(lambda: not dispatcher.health().held)
    assert [job.attempt for job in seen] == [1, 2]


def test_smaller_numbers_come_first_whatever_their_repository(dispatcher):
    seen, go = [], threading.Event()

    def drive(job):
        go.wait(120)
        seen.append(job.attempt)
        return True

    dispatcher.work(1, drive)
    dispatcher.submit(JOB, 0)
    wait_for(lambda: dispatcher.health().held)
    for attempt, priority, project in ((2, 9, "a"), (3, 5, "p"), (4, 1, "z"), (5, 3, "p")):
        dispatcher.submit(JOB._replace(attempt=attempt, project=project), priority)
    assert sorted(job.attempt for job in dispatcher.health().waiting) == [2, 3, 4, 5]
    go.set()
    wait_for(lambda: len(seen) == 5)
    assert seen == [1, 4, 5, 3, 2]


def test_no_more_of_a_repository_are_at_work_than_it_may_have(site):
    seen, go = [], threading.Event()
    queues = [Queue(site, QUICK, f"w{number}") for number in range(2)]

    def drive(job):
        seen.append(job)
        return go.wait(120)

    for attempt in (1, 2):
        queues[0].submit(JOB._replace(attempt=attempt), 0)
    queues[0].submit(JOB._replace(project="q"), 5)
    for queue in queues:
        queue.work(2, drive)
    wait_for(lambda: len(seen) == 2)
    assert {job.project for job in queues[0].health().held} == {"p", "q"}
    assert [job.attempt for job in queues[0].health().waiting] == [2]
    go.set()
    wait_for(lambda: len(seen) == 3)
    for queue in queues:
        queue.drain()


def test_a_job_that_is_given_back_keeps_its_place_and_goes_to_another_worker(site):
    mine, theirs, last = [], [], JOB._replace(attempt=2)
    picky, other = Queue(site, QUICK, "picky"), Queue(site, QUICK, "other")
    for job in (JOB, last):
        picky.submit(job, 0)
    picky.work(1, lambda job: mine.append(job) or job == last)
    wait_for(lambda: last in mine)  # it is not asked for the first one again at once
    other.work(1, done(theirs))
    wait_for(lambda: theirs == [JOB])
    for queue in (picky, other):
        queue.drain()


def test_a_worker_waits_behind_no_jobs_that_are_not_for_it(site):
    """Of each project it looks at one now and then; it does not go round in circles."""
    mine, wanted = [], Job("q", JOB.run_id, 1)
    queue = Queue(site, QUICK, "w")
    for number in range(50):
        queue.submit(JOB._replace(attempt=number), 0)
    queue.submit(wanted, 1)
    queue.work(1, lambda job: mine.append(job) or (job == wanted or None))
    wait_for(lambda: wanted in mine)
    queue.drain()
    assert mine == [JOB._replace(attempt=0), wanted]
    del queue._left[JOB.project]  # as when it is looked at again
    with site.fleet() as store:
        assert queue._take(store) == JOB._replace(attempt=1)


def test_what_a_lost_worker_held_is_delivered_again_but_not_what_another_has_by_now(site):
    lost, heir, seen = Queue(site, QUICK, "lost"), Queue(site, QUICK, "heir"), []
    lost.submit(JOB, 0)
    with site.fleet() as store:
        assert lost._take(store) == JOB
    heir.retry({JOB: "somebody"})
    assert heir.health().held == {JOB: "lost"}
    heir.retry({JOB: "lost"})
    heir.work(1, done(seen))
    wait_for(lambda: seen == [JOB])
    heir.drain()
    lost.retry({JOB: "lost"})
    assert heir.health() == ({*()}, {})


def test_a_worker_that_was_declared_dead_takes_nothing(site):
    """One that wakes up may ask for a job before its beat tells it."""
    queue = Queue(site, QUICK, "w")
    queue.submit(JOB, 0)
    with site.fleet() as store:
        row = WorkerRow("w", "h", 1, 1, 0, "alive", "2026", "2026")
        fleet.register(store, row, "2025")
        fleet.bury(store, "w", "2027")
        assert queue._take(store) is None
        assert Queue(site, QUICK, "heir")._take(store) == JOB


def test_a_worker_that_is_not_fit_takes_nothing(site):
    queue, seen, fit, asked = Queue(site, QUICK, "w"), [], [], threading.Event()
    queue.submit(JOB, 0)
    queue.work(1, done(seen), lambda: asked.set() or bool(fit))
    assert asked.wait(120)
    assert not seen
    fit.append(True)
    wait_for(lambda: seen)
    queue.drain()
