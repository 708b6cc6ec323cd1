"""Threads that write at once share one commit, and none of them pays for another's mistake."""

import os
import signal
import sqlite3
import threading
import time
from contextlib import closing

import pytest

from tests.store.rows import RUN, commit, cursor, event, only_sqlite, run_row
from treadle.errors import FencedError, NotFoundError, StoreError
from treadle.store.runs import History

THREADS, STEPS = 64, 20


@pytest.fixture
def commits(store, monkeypatch):
    """Return one entry for each commit that the database was asked for."""
    seen = []
    writer = store._transactions.writer
    commit = writer.commit
    monkeypatch.setattr(writer, "commit", lambda: (seen.append(1), commit()))
    return seen


def run_id(number):
    return f"20260123-145501-{number:06x}"


def in_threads(*works):
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)


def blocked(store, release):
    """Hold the transaction open in a thread of its own until `release` is set."""
    entered = threading.Event()

    def hold(tx):
        entered.set()
        assert release.wait(120)

    thread = threading.Thread(target=lambda: store.write(hold))
    thread.start()
    assert entered.wait(120)
    return thread


def until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_many_threads_share_their_commits_and_lose_nothing(store, commits):
    for number in range(THREADS):
        store.insert_run(run_row(run_id(number)), (), {})
    commits.clear()

    def work(number):
        for index in range(1, STEPS + 1):
            commit(store, index, run_id(number))
            assert store.run(run_id(number)).current_step_index == index

    in_threads(*(lambda number=number: work(number) for number in range(THREADS)))
    assert sum(map(len, store.step_names().values())) == THREADS * STEPS
    assert len(commits) < THREADS * STEPS / 2  # how many share one is up to who runs when


def test_one_thread_commits_at_once_and_alone(store, commits):
    store.insert_run(run_row(), (), {})
    for index in (1, 2, 3):
        commit(store, index)
    assert len(commits) == 4


def test_a_change_that_fails_does_not_hurt_those_it_shares_a_commit_with(store):
    for number in range(8):
        store.insert_run(run_row(run_id(number)), (), {})
    store.take_over(run_id(3), "someone else")
    outcomes = {}

    def work(number):
        try:
            commit(store, 1, run_id(number if number < 8 else 99))
        except (FencedError, NotFoundError) as error:
            outcomes[number] = type(error)

    release = threading.Event()
    holder = blocked(store, release)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(9)]
    for thread in threads:
        thread.start()
    until(lambda: len(store._transactions._waiting) == 9)
    release.set()
    for thread in (holder, *threads):
        thread.join(120)
    assert outcomes == {3: FencedError, 8: NotFoundError}
    assert set(store.step_names()) == {run_id(n) for n in range(8) if n != 3}


@only_sqlite
def test_nothing_is_acknowledged_when_the_commit_fails(store):
    for number in range(4):
        store.insert_run(run_row(run_id(number)), (), {})
    writer = store._transactions.writer.connection
    errors = []

    def work(number):
        try:
            rows = [event(seq, text="x" * 4000) for seq in range(1, 9)]
            store.advance(run_id(number), History(events=rows), cursor(), 1)
        except StoreError as error:
            errors.append(error)

    pages = writer.execute("PRAGMA page_count").fetchone()[0]
    writer.execute(f"PRAGMA max_page_count={pages}")
    in_threads(*(lambda number=number: work(number) for number in range(4)))
    assert len({id(error) for error in errors}) == 4
    assert [store.last_seq(run_id(number)) for number in range(4)] == [0] * 4


@only_sqlite
def test_a_commit_that_fails_later_takes_nothing_back(store):
    """One change fails, so each is committed alone; the last of them fails at its COMMIT."""
    for number in (1, 2):
        store.insert_run(run_row(run_id(number)), (), {})
    store.take_over(run_id(2), "someone else")
    outcomes = {}

    def orphan(tx):
        tx.connection.execute("PRAGMA defer_foreign_keys=ON")
        tx.connection.execute("INSERT INTO kv_run VALUES ('nobody', 'key', '1')")

    works = [
        lambda: commit(store, 1, run_id(1)),
        lambda: commit(store, 1, run_id(2)),
        lambda: store.write(orphan),
    ]

    def work(number):
        try:
            works[number]()
        except (FencedError, StoreError) as error:
            outcomes[number] = type(error)

    release = threading.Event()
    threads = [blocked(store, release)]
    for number in range(3):
        threads.append(threading.Thread(target=work, args=(number,)))
        threads[-1].start()
        until(lambda number=number: len(store._transactions._waiting) == number + 1)
    release.set()
    for thread in threads:
        thread.join(120)
    assert outcomes == {1: FencedError, 2: StoreError}
    assert store.step_names() == {run_id(1): {"001-do"}}


@only_sqlite
def test_a_foreign_program_that_holds_the_database_is_named(store, layout):
    store._transactions.writer.connection.execute("PRAGMA busy_timeout=50")
    with closing(sqlite3.connect(layout.database, isolation_level=None)) as foreign:
        foreign.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked by a program other than treadle"):
            store.insert_run(run_row(), (), {})
    store.insert_run(run_row(), (), {})


def test_readers_see_only_what_is_committed(store):
    store.insert_run(run_row(), (), {})
    release, entered = threading.Event(), threading.Event()

    def change(tx):
        tx.connection.execute("UPDATE runs SET goal = 'half done'")
        entered.set()
        assert release.wait(120)

    thread = threading.Thread(target=lambda: store.write(change))
    thread.start()
    assert entered.wait(120)
    assert store.run(RUN).goal == "goal"
    release.set()
    thread.join(120)
    assert store.run(RUN).goal == "half done"


def test_a_bug_in_one_change_leaves_the_queue_working(store):
    with pytest.raises(ZeroDivisionError):
        store.write(lambda tx: 1 // 0)
    store.insert_run(run_row(), (), {})
    assert store.run(RUN)


def test_a_leader_interrupted_before_it_begins_blocks_nobody(store, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store._transactions, "_lead", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.insert_run(run_row(run_id(9)), (), {})
    in_threads(lambda: store.insert_run(run_row(), (), {}))
    assert [run.run_id for run in store.runs(limit=5)] == [RUN]


def test_a_waiting_thread_that_a_signal_interrupts_leaves_no_gap(store):
    """The main thread waits, is told to lead next, and is interrupted: the next one must lead."""

    class Interrupted(Exception):
        pass

    def interrupt(number, frame):
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    release = threading.Event()
    holder = blocked(store, release)
    later = threading.Thread(target=lambda: store.insert_run(run_row(), (), {}))

    def disturb():
        until(lambda: len(store._transactions._waiting) == 1)
        later.start()
        until(lambda: len(store._transactions._waiting) == 2)
        os.kill(os.getpid(), signal.SIGUSR1)
        until(lambda: len(store._transactions._waiting) == 1)
        release.set()

    disturber = threading.Thread(target=disturb)
    disturber.start()
    try:
        with pytest.raises(Interrupted):
            store.insert_run(run_row(run_id(9)), (), {})
    finally:
        for thread in (disturber, holder, later):
            thread.join(120)
        signal.signal(signal.SIGUSR1, before)
    assert [run.run_id for run in store.runs(limit=5)] == [RUN]
