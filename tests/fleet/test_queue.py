"""What every dispatcher must do: one suite for all of them."""

import threading

import pytest

from tests.fleet.inline import Inline
from tests.fleet.lab import wait_for
from treadle.fleet.queue import Dbos, Job, parse_job

JOB = Job("p", "20260101-000000-000000", 1)


@pytest.fixture(params=["inline", "dbos"])
def dispatcher(request, tmp_path):
    if request.param == "inline":
        made = Inline()
    else:
        made = Dbos(f"sqlite:///{tmp_path}/queue.db", "w1", 0.05, 1)
    yield made
    made.drain()


def test_a_jobs_name_tells_which_run_it_is():
    assert parse_job(JOB.id) == JOB


def test_jobs_are_delivered_once_and_drained(dispatcher):
    seen, go = [], threading.Event()

    def drive(job):
        go.wait(120)
        seen.append(job)

    dispatcher.work(2, drive)
    for number in (1, 1, 2):
        dispatcher.submit(JOB._replace(attempt=number, project=f"p{number}"), 0)
    wait_for(lambda: len(dispatcher.health().held) == 2)
    go.set()
    wait_for(lambda: len(seen) == 2)
    dispatcher.drain()
    assert sorted(job.attempt for job in seen) == [1, 2]
    assert not dispatcher.health().waiting


def test_a_job_that_was_done_is_not_delivered_again_whoever_submits_it(dispatcher):
    seen = []
    dispatcher.work(1, seen.append)
    for job in (JOB, JOB, JOB._replace(attempt=2)):
        dispatcher.submit(job, 0)
        wait_for(lambda job=job: job in seen)
    wait_for(lambda: not dispatcher.health().held)
    assert [job.attempt for job in seen] == [1, 2]


def test_smaller_numbers_come_first(dispatcher):
    seen, go = [], threading.Event()

    def drive(job):
        go.wait(120)
        seen.append(job.attempt)

    dispatcher.work(1, drive)
    dispatcher.submit(JOB, 0)
    wait_for(lambda: dispatcher.health().held)
    for attempt, priority in ((2, 9), (3, 5), (4, 1)):
        dispatcher.submit(JOB._replace(attempt=attempt), priority)
    assert sorted(job.attempt for job in dispatcher.health().waiting) == [2, 3, 4]
    go.set()
    wait_for(lambda: len(seen) == 4)
    assert seen == [1, 4, 3, 2]
