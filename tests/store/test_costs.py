"""What steps cost is counted as they are committed, once each."""

from datetime import UTC, datetime

from tests.store.rows import RUN, cursor, run_row, step_row
from treadle.engine.show import view as documents
from treadle.store import runs
from treadle.store.runs import History, UsageRow

NOW = datetime(2026, 1, 3, tzinfo=UTC)
STEP = step_row(
    started_at="2026-01-02T00:00:00.000000Z",
    ended_at="2026-01-02T00:01:30.000000Z",
    agent="codex",
)
USED = UsageRow(RUN, 1, "codex", "m1", 100, 40, 7, 0.5, 1.0)


def commit(store, used=USED):
    store.insert_run(run_row(), (), {})
    store.advance(RUN, History((STEP,), usage=(used,) if used else ()), cursor(), 1)


def test_a_step_counts_for_its_day_agent_and_model(store):
    commit(store)
    expected = runs.CostRow("2026-01-02", "codex", "m1", 1, 100, 40, 7, 0.5, 90.0)
    assert store.costs("2026-01-02") == [expected]
    assert store.costs("2026-01-03") == []


def test_a_step_whose_tool_tells_nothing_counts_with_its_time(store):
    commit(store, used=None)
    (row,) = store.costs("")
    assert (row.model, row.steps, row.input_tokens, row.seconds) == ("", 1, 0, 90.0)


def test_restoring_a_run_counts_it_once(store):
    commit(store)
    store.restore(run_row(), History(steps=(STEP,), usage=(USED,)))
    store.restore(run_row(), History(steps=(STEP,), usage=(USED._replace(output_tokens=9),)))
    (row,) = store.costs("")
    assert (row.steps, row.output_tokens) == (1, 9)


def test_each_agent_of_a_step_counts_and_so_does_what_was_cut_off(store):
    first = UsageRow(RUN, 1, "claude", "m2", 50, 0, 5, 0.25, 0.0)
    cut = UsageRow(RUN, runs.CUT_OFF, "codex", "m1", 10, 0, 1, 0.125, 3.0)
    store.insert_run(run_row(), (), {})
    store.advance(RUN, History(usage=(cut,)), cursor(), 1)
    whole = History((STEP,), usage=(first, USED))
    store.advance(RUN, whole, cursor(), 1)
    store.restore(run_row(), whole._replace(usage=(cut, first, USED)))
    found = {(it.day, it.agent, it.model): it[3:] for it in store.costs("")}
    assert found == {
        ("2026-01-23", "codex", "m1"): (0, 10, 0, 1, 0.125, 3.0),
        ("2026-01-02", "claude", "m2"): (0, 50, 0, 5, 0.25, 0.0),
        ("2026-01-02", "codex", "m1"): (1, 100, 40, 7, 0.5, 90.0),
    }


def test_what_was_spent_stays_spent_when_a_run_is_removed(store):
    commit(store)
    store.delete_run(RUN)
    assert store.costs("")[0].cost_usd == 0.5


def test_the_document_sums_up_by_agent_model_and_day(store):
    commit(store)
    found = documents.cost_document(store, 2, NOW)
    sums = {
        "steps": 1,
        "input_tokens": 100,
        "cached_tokens": 40,
        "output_tokens": 7,
        "cost_usd": 0.5,
        "minutes": 1.5,
    }
    assert found == {
        "days": 2,
        "total": sums,
        "by_agent": [{"agent": "codex"} | sums],
        "by_model": [{"model": "m1"} | sums],
        "by_day": [{"day": "2026-01-02"} | sums],
    }
