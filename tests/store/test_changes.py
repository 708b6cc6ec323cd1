"""Whoever commits is noticed, wherever they are."""

from datetime import UTC, datetime

import pytest

from treadle.layout import Layout
from treadle.store import address
from treadle.store.changes import Changes
from treadle.store.rows.run import RunRow
from treadle.store.run_changes import History
from treadle.store.writer import Store

RUN = RunRow("20260101-000000-000000", "2026-01-01T00:00:00Z", "g", "stopped", 1, 0, None, "r")


@pytest.fixture
def layout(tmp_path):
    (tmp_path / ".treadle").mkdir()
    return Layout(tmp_path)


def test_a_commit_is_noticed_once(layout):
    store = Store.open(layout)
    seen = Changes(address.find(layout))
    assert [seen.happened(), seen.happened()] == [True, False]
    store.restore(RUN, History())
    store.request_stop(RUN.run_id, "r", datetime.now(UTC))
    assert [seen.happened(), seen.happened()] == [True, False]
    seen.close()
    store.close()


def test_a_store_that_comes_and_goes_is_noticed(layout):
    seen = Changes(address.find(layout))
    assert not seen.happened()
    Store.open(layout).close()
    assert [seen.happened(), seen.happened()] == [True, False]
    layout.database.rename(layout.database.with_name("old.db"))
    assert [seen.happened(), seen.happened()] == [True, False]
    seen.close()
