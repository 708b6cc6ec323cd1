"""Every write is one transaction that the run's owner alone can make."""

from datetime import UTC, datetime

import pytest

from tests.store.rows import (
    RUN,
    T,
    check_row,
    commit,
    cursor,
    event,
    only_sqlite,
    run_row,
    step_row,
)
from treadle.errors import FencedError, NotFoundError, StoreError
from treadle.store.runs import History, UsageRow
from treadle.store.store import Reader

NOW = datetime(2026, 1, 23, 15, tzinfo=UTC)
USAGE = UsageRow(RUN, 1, "night", "gpt", 100, 50, 20, 0.25, 3.5)


@pytest.fixture
def begun(store):
    """Return a store with one run."""
    store.insert_run(run_row(), (event(1),), {"spent": {"tokens": 0}})
    return store


def test_a_run_reads_back_as_it_was_written(begun):
    assert begun.run(RUN) == run_row()
    assert begun.events(RUN) == [event(1)]
    assert begun.kv(RUN) == {"spent": {"tokens": 0}}


def test_a_step_is_committed_with_everything_it_brings(begun):
    events = (event(2, index=1), event(3, text="Grüße"))
    end = cursor(1, status="passed", verdict="PASS", head_commit="c" * 40, ended_at=T)
    begun.advance(
        RUN, History((step_row(),), events, {"spent": 5}, (USAGE,), (check_row(),)), end, 1
    )
    assert begun.steps(RUN) == [step_row()]
    assert begun.events(RUN, after=1) == list(events)
    assert begun.run(RUN) == run_row()._replace(**end._asdict())
    assert (begun.kv(RUN), begun.usage(RUN)) == ({"spent": 5}, [USAGE])
    assert begun.checks(RUN) == [check_row()]


def test_another_process_sees_what_was_committed(begun, layout):
    commit(begun, 1)
    with Reader.open(layout) as reader:
        assert reader.steps(RUN) == [step_row()]


def test_a_key_set_to_none_is_removed(begun):
    begun.advance(RUN, History(kv={"spent": None, "other": 1}), cursor(0), 1)
    assert begun.kv(RUN) == {"other": 1}


@pytest.mark.parametrize("verb", ["commit_step", "record", "release"])
def test_an_owner_that_was_superseded_is_fenced_off(begun, verb):
    begun.take_over(RUN, "host 2")
    calls = {
        "commit_step": lambda: commit(begun, 1),
        "record": lambda: begun.advance(
            RUN, History(events=(event(2),), kv={"a": 1}), cursor(status="failed"), 1
        ),
        "release": lambda: begun.release(RUN, 1),
    }
    with pytest.raises(FencedError, match=RUN):
        calls[verb]()
    assert begun.steps(RUN) == []
    assert begun.run(RUN) == run_row(claim_epoch=2, owner="host 2")


def test_taking_over_gives_a_new_epoch_and_releasing_gives_up_the_owner(begun):
    epoch = begun.take_over(RUN, "host 2")
    assert epoch == 2
    commit(begun, 1, epoch=epoch)
    begun.release(RUN, epoch)
    assert begun.run(RUN).owner is None


@pytest.mark.parametrize("verb", ["take_over", "commit", "stop"])
def test_a_run_nobody_knows_is_named(store, verb):
    calls = {
        "take_over": lambda: store.take_over(RUN, "me"),
        "commit": lambda: commit(store),
        "stop": lambda: store.request_stop(RUN, "enough", NOW),
    }
    with pytest.raises(NotFoundError, match=f"there is no run {RUN}"):
        calls[verb]()


def test_the_last_step_may_release_its_run(begun):
    begun.take_over(RUN, "me")
    begun.advance(RUN, History((step_row(),)), cursor(1, status="passed"), 2, releases=True)
    assert begun.run(RUN).owner is None
    assert begun.unsettled() == []


def test_a_step_that_exists_is_refused_with_all_it_brings(begun):
    commit(begun, 1)
    with pytest.raises(StoreError, match=r"(?i)unique"):
        begun.advance(RUN, History((step_row(),), (event(9),), {"x": 1}), cursor(9), 1)
    assert [item.seq for item in begun.events(RUN)] == [1, 2]
    assert begun.run(RUN).current_step_index == 1
    assert "x" not in begun.kv(RUN)


def test_a_change_whose_first_word_is_refused_leaves_the_store_working(begun):
    for _ in range(2):
        with pytest.raises(StoreError, match=r"(?i)unique"):
            begun.insert_run(run_row(), (), {})
    commit(begun, 1)
    assert begun.steps(RUN) == [step_row()]


def test_a_stop_is_requested_without_touching_the_timeline(begun):
    begun.request_stop(RUN, "stopped by hand", NOW)
    stop = begun.kv(RUN)["stop_requested"]
    assert stop == {"reason": "stopped by hand", "at": "2026-01-23T15:00:00.000000Z"}
    assert begun.events(RUN) == [event(1)]


def test_restoring_makes_the_run_what_its_files_say(begun):
    commit(begun, 1)
    begun.advance(RUN, History(kv={"stale": True}), cursor(), 1)
    history = History((step_row(1), step_row(2)), (event(1), event(2)), {"a": 1}, (USAGE,))
    for _ in range(2):
        begun.restore(run_row(goal="as written"), history)
    assert begun.run(RUN).goal == "as written"
    assert begun.steps(RUN) == [step_row(1), step_row(2)]
    assert (begun.events(RUN), begun.kv(RUN)) == ([event(1), event(2)], {"a": 1})
    assert (begun.usage(RUN), begun.checks(RUN)) == ([USAGE], [])


def test_forgetting_a_run_twice_says_so(begun):
    assert begun.delete_run(RUN)
    assert not begun.delete_run(RUN)


@only_sqlite
def test_a_full_disk_saves_nothing_and_says_so(begun):
    writer = begun._transactions.writer.connection
    pages = writer.execute("PRAGMA page_count").fetchone()[0]
    writer.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(StoreError, match="the disk is full") as found:
        begun.advance(
            RUN, History(events=[event(seq, text="x" * 4000) for seq in range(2, 9)]), cursor(), 1
        )
    assert found.value.fix == ("df -h",)
    assert begun.last_seq(RUN) == 1
    writer.execute("PRAGMA max_page_count=100000")
    commit(begun, 1)
    assert begun.last_seq(RUN) == 2


def test_text_that_sqlite_cannot_hold_is_refused(begun):
    with pytest.raises(StoreError, match="cannot be stored"):
        begun.advance(RUN, History(events=(event(2)._replace(message="\ud800"),)), cursor(), 1)
    commit(begun, 2)
