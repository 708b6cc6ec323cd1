"""Whoever commits is noticed, wherever they are."""

import threading
from contextlib import closing
from datetime import UTC, datetime

import pytest

from treadle.layout import Layout
from treadle.store import address
from treadle.store.runs import History, RunRow
from treadle.store.store import Store

RUN = RunRow("20260101-000000-000000", "2026-01-01T00:00:00Z", "g", "stopped", 1, 0, None, "r")


@pytest.fixture
def layout(tmp_path):
    (tmp_path / ".treadle").mkdir()
    return Layout(tmp_path)


def test_a_commit_is_noticed_once(layout):
    store = Store.open(layout)
    seen = address.find(layout).open_waker()
    assert [seen.wait(0), seen.wait(0)] == [True, False]
    store.restore(RUN, History())
    store.request_stop(RUN.run_id, "r", datetime.now(UTC))
    assert [seen.wait(0), seen.wait(0)] == [True, False]
    seen.close()
    store.close()


def test_a_store_that_comes_and_goes_is_noticed(layout):
    seen = address.find(layout).open_waker()
    assert not seen.wait(0)
    Store.open(layout).close()
    assert [seen.wait(0), seen.wait(0)] == [True, False]
    layout.database.rename(layout.database.with_name("old.db"))
    assert [seen.wait(0), seen.wait(0)] == [True, False]
    seen.close()


def test_whoever_waits_is_woken_by_a_commit(layout):
    with Store.open(layout) as store, closing(address.find(layout).open_waker()) as waker:
        assert waker.wait(0)
        later = threading.Timer(0.1, store.restore, (RUN, History()))
        later.start()
        assert waker.wait(60)
        later.join()
