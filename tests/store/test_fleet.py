"""Workers, their leader and the runs that wait, as both databases keep them."""

from tests.store.rows import RUN, run_row
from treadle.store import fleet
from treadle.store.fleet import WorkerRow

EARLY, LATE = "2026-01-01T00:00:00.000000Z", "2026-01-01T00:01:00.000000Z"


def worker(name: str, beat_at: str = LATE) -> WorkerRow:
    return WorkerRow(name, "host", 1, 2, 0, "alive", EARLY, beat_at)


def test_a_worker_that_beats_no_more_is_buried_and_cannot_beat_again(store):
    fleet.register(store, worker("a", EARLY), EARLY)
    fleet.register(store, worker("b"), EARLY)
    for name in ("a", "b"):
        fleet.bury(store, name, LATE)
    assert fleet.beat(store, "a", 0, LATE) is None
    assert fleet.beat(store, "b", 2, LATE) == ("alive", False)
    assert [(row.worker_id, row.status, row.busy) for row in fleet.workers(store)] == [
        ("a", "dead", 0),
        ("b", "alive", 2),
    ]


def test_a_draining_worker_is_told_so_by_its_next_beat(store):
    fleet.register(store, worker("a"), EARLY)
    assert fleet.set_status(store, "a", "draining")
    assert fleet.beat(store, "a", 1, LATE) == ("draining", False)
    assert not fleet.set_status(store, "nobody", "draining")


def test_a_beat_tells_whether_anybody_has_a_job(store):
    fleet.register(store, worker("a"), EARLY)
    fleet.add_job(store, "p/r/1", "p", 0, EARLY)
    assert fleet.beat(store, "a", 0, LATE) == ("alive", False)
    assert fleet.take_job(store, "b", 1) == "p/r/1"
    assert fleet.beat(store, "a", 0, LATE) == ("alive", True)


def test_jobs_that_were_done_a_while_ago_are_removed_and_no_others(store):
    fleet.register(store, worker("a"), EARLY)
    for job in ("p/done/1", "p/held/1", "p/waits/1"):
        fleet.add_job(store, job, "p", 0, EARLY)
    taken = [fleet.take_job(store, "a", 2) for _ in range(2)]
    fleet.end_jobs(store, "done", {"p/done/1": "a"}, EARLY)
    assert taken == ["p/done/1", "p/held/1"]
    fleet.forget_jobs(store, EARLY)
    fleet.add_job(store, "p/done/1", "p", 0, LATE)
    assert [it.job for it in fleet.waiting_jobs(store)] == ["p/waits/1"]
    fleet.forget_jobs(store, LATE)
    fleet.add_job(store, "p/done/1", "p", 0, LATE)
    assert {it.job for it in fleet.waiting_jobs(store)} == {"p/waits/1", "p/done/1"}
    assert [it.job for it in fleet.held_jobs(store)] == ["p/held/1"]


def test_one_worker_leads_until_its_time_is_over(store):
    assert fleet.lead(store, "a", EARLY, LATE)
    assert not fleet.lead(store, "b", EARLY, LATE)
    assert fleet.leader(store, EARLY) == "a"
    after = "2026-01-01T00:02:00.000000Z"
    assert fleet.leader(store, after) is None
    assert fleet.lead(store, "b", after, after)


def test_a_leader_that_left_leads_no_longer(store):
    for name in ("a", "b"):
        fleet.register(store, worker(name), EARLY)
    assert fleet.lead(store, "a", EARLY, LATE)
    assert not fleet.lead(store, "b", EARLY, LATE)
    fleet.set_status(store, "a", "left")
    assert fleet.leader(store, EARLY) is None
    assert fleet.lead(store, "b", EARLY, LATE)
    assert fleet.leader(store, EARLY) == "b"


def test_a_run_is_claimed_only_as_it_was_read(store):
    row = run_row()
    store.insert_run(row, (), {})
    assert fleet.claim(store, row, "worker:a") == 2
    assert fleet.claim(store, row, "worker:b") is None
    assert store.run(RUN).owner == "worker:a"
    assert [found.run_id for found in fleet.runs(store).held] == [RUN]


def test_waiting_runs_are_the_stopped_ones_that_say_so(store):
    store.insert_run(run_row(status="stopped"), (), {"reason_code": "queued"})
    store.insert_run(run_row("20260123-145501-ab12ce", status="stopped"), (), {"reason_code": "x"})
    assert [row.run_id for row in fleet.queued(store)] == [RUN]
    fleet.add_project(store, "p", "/repo", EARLY)
    fleet.add_project(store, "p", "/other", LATE)
    assert [tuple(item) for item in fleet.projects(store)] == [("p", "/other")]


def test_a_provider_is_used_by_so_many_runs_of_living_workers(store):
    for name in ("a", "b"):
        fleet.register(store, worker(name), EARLY)
    limits = {"claude": 1, "codex": 2}
    assert fleet.use(store, "a", "shop/1", {"codex": 2}) is None
    assert fleet.use(store, "a", "shop/2", limits) is None
    assert fleet.use(store, "a", "shop/2", limits) is None  # delivered again
    assert fleet.use(store, "b", "blog/3", limits) == "claude"
    assert fleet.use(store, "b", "blog/3", {"codex": 2}) == "codex"
    fleet.end_use(store, "b", "shop/2")  # not its own
    assert fleet.use(store, "b", "blog/3", limits) == "claude"
    fleet.end_use(store, "a", "shop/1")
    fleet.bury(store, "a", "2026-01-01T00:02:00.000000Z")
    assert fleet.use(store, "b", "blog/3", limits) is None
