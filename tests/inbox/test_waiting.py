"""Waiting for work: when a round is due, and whole files."""

from datetime import UTC, datetime, timedelta

import pytest

from treadle.inbox import schedule
from treadle.inbox.schedule import Waiting
from treadle.layout import Layout
from treadle.store.runs import History, RunRow
from treadle.store.store import Store

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
RUN = RunRow("20260101-000000-000000", "2026-01-01T00:00:00Z", "g", "stopped", 1, 0, None, "r")


class Clock:
    """A clock that is set, and a stop that comes after so many looks."""

    def __init__(self, looks):
        self.now = NOW
        self.looks = looks

    def stop(self):
        self.looks -= 1
        return self.looks < 0


@pytest.fixture
def layout(tmp_path, monkeypatch):
    for name in ("_STILL", "_WAKE", "_STEP"):
        monkeypatch.setattr(schedule, name, getattr(schedule, name) / 10)
    (tmp_path / ".treadle").mkdir()
    return Layout(tmp_path)


def rounds(layout, between=lambda number, clock: None, looks=80):
    """Return how many rounds were due; after each of them `between` may change something."""
    clock = Clock(looks)
    waiting = Waiting(layout, clock.stop, lambda: clock.now)
    number = 0
    for _ in waiting.reasons():
        number += 1
        waiting.done()
        between(number, clock)
    return number


def test_the_first_round_is_due_at_once_and_no_other(layout):
    assert rounds(layout) == 1


def test_a_new_message_makes_a_round_due(layout):
    def drop(number, clock):
        if number == 1:
            (layout.inbox / "a.md").write_text("x")

    assert rounds(layout, drop) == 2


def test_a_minute_makes_a_round_due_where_there_is_a_schedule(layout):
    def pass_a_minute(number, clock):
        if number == 1:
            clock.now += timedelta(minutes=1)

    assert rounds(layout, pass_a_minute) == 1
    layout.cron.mkdir()
    (layout.cron / "a.md").write_text("x")
    assert rounds(layout, pass_a_minute) == 2


def test_a_limit_that_is_over_makes_one_round_due(layout):
    with Store.open(layout) as store:
        until = "2026-01-01T12:00:30.000000Z"
        store.restore(RUN, History(kv={"resume_at": until}))

    def wait(number, clock):
        clock.now += timedelta(seconds=31)

    assert rounds(layout, wait) == 2


def waiting(layout, stop):
    return Waiting(layout, stop, lambda: datetime(2026, 1, 1, tzinfo=UTC))


def test_a_file_that_is_still_being_written_is_left_alone(tmp_path):
    layout = Layout(tmp_path)
    layout.inbox.mkdir(parents=True)
    pieces = iter(["one\n", "two\n", "three\n"])

    def write_on():
        with (layout.inbox / "long.md").open("a") as handle:
            handle.write(next(pieces, ""))

    found = waiting(layout, write_on)
    write_on()
    assert not found._is_changed()
    assert "three" in (layout.inbox / "long.md").read_text()
    assert found._is_changed()
