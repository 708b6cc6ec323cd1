"""A store that waits out an outage commits once."""

import pytest

from tests.store.rows import RUN, event, run_row, step_row
from treadle.errors import StoreError
from treadle.fleet.site import Patient
from treadle.layout import Layout
from treadle.store.runs import Cursor, History

AWAY = StoreError("the database is away", code="store_unreachable")


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr("treadle.fleet.site._PAUSE", 0.0)
    with Patient.open(Layout(tmp_path)) as opened:
        opened.insert_run(run_row(), (), {})
        yield opened


def commit(store):
    store.advance(RUN, History((step_row(),), [event(1)]), Cursor("running", 1, 1), 1)


def fail(store, monkeypatch, *, after_commit: bool, times: int = 2):
    """Let the next writes fail, before or after they were made."""
    left = [times]
    run = store._transactions.run

    def failing(apply, **how):
        left[0] -= 1
        if left[0] >= 0 and not after_commit:
            raise AWAY
        result = run(apply, **how)
        if left[0] >= 0:
            raise AWAY
        return result

    monkeypatch.setattr(store._transactions, "run", failing)


@pytest.mark.parametrize("after_commit", [False, True])
def test_a_step_is_committed_once_whenever_the_database_went_away(store, monkeypatch, after_commit):
    fail(store, monkeypatch, after_commit=after_commit)
    commit(store)
    assert [step.step_index for step in store.steps(RUN)] == [1]
    assert store.last_seq(RUN) == 1


def test_patience_ends(store, monkeypatch):
    store.patience = 0.0
    fail(store, monkeypatch, after_commit=False, times=1000)
    with pytest.raises(StoreError, match="away"):
        commit(store)


def test_another_error_is_not_waited_out(store, monkeypatch):
    commit(store)
    with pytest.raises(StoreError):
        commit(store)
