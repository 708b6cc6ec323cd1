"""Scheduled messages fire in their minute, once."""

from datetime import UTC, datetime, timedelta

import pytest

from treadle.errors import FormatError
from treadle.inbox import schedule
from treadle.layout import Layout


@pytest.fixture
def layout(tmp_path):
    found = Layout(tmp_path)
    found.cron.mkdir(parents=True)
    return found


def job(layout, expression, tz="UTC"):
    text = f"---\ncron: '{expression}'\ntz: {tz}\nroutine: log\ncolor: red\n---\nDo it\n"
    (layout.cron / "a.md").write_text(text)
    (found,) = schedule.jobs(layout)
    return found


def fires(found, start, minutes):
    """Return the minutes in which the job fires if it is asked twice in each."""
    last, fired = None, []
    for half in range(minutes * 2):
        now = start + timedelta(seconds=30 * half)
        if schedule.is_due(found, now, last):
            fired.append(now.strftime("%d %H:%M"))
            last = now
    return fired


def test_a_job_says_what_is_sent(layout):
    found = job(layout, "0 9 * * 1")
    assert found.draft == (b"Do it\n", "log", None, {"color": "red"})


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("*/20 12 * * *", ["01 12:00", "01 12:20", "01 12:40"]),
        ("5 12 1 1 *", ["01 12:05"]),
        ("0 12 * * 4", ["01 12:00"]),
        ("0 12 * * 0", []),
        ("0 12 * * 7", []),
    ],
)
def test_it_fires_once_in_exactly_its_minute(layout, expression, expected):
    assert fires(job(layout, expression), datetime(2026, 1, 1, 11, 59, tzinfo=UTC), 65) == expected


def test_a_missed_minute_is_not_made_up_for(layout):
    start = datetime(2026, 1, 1, 12, 1, tzinfo=UTC)
    assert fires(job(layout, "0 12 * * *"), start, 30) == []


def test_sunday_is_0_and_7(layout):
    sunday = datetime(2026, 1, 4, 11, 59, tzinfo=UTC)
    assert fires(job(layout, "0 12 * * 0"), sunday, 3) == ["04 12:00"]
    assert fires(job(layout, "0 12 * * 7"), sunday, 3) == ["04 12:00"]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (datetime(2026, 10, 24, 23, 0, tzinfo=UTC), 1),
        (datetime(2026, 3, 28, 23, 0, tzinfo=UTC), 1),
    ],
    ids=["an hour twice", "an hour left out"],
)
def test_a_daily_job_fires_once_when_the_clock_changes(layout, start, expected):
    found = job(layout, "30 2 * * *", "Europe/Berlin")
    assert len(fires(found, start, 5 * 60)) == expected


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ("routine: x", "no `cron` field"),
        ("cron: '* * * *'", "five fields"),
        ("cron: '* * * * * *'", "five fields"),
        ("cron: '61 * * * *'", "61"),
        ("cron: '* * * * *'\ntz: Nowhere/Land", "not a known time zone"),
        ("cron: [", "line 3"),
    ],
)
def test_a_schedule_that_is_wrong_is_named(layout, fields, words):
    (layout.cron / "a.md").write_text(f"---\n{fields}\n---\n")
    (found,) = schedule.jobs(layout)
    assert isinstance(found, FormatError)
    assert found.message.startswith(".treadle/cron/a.md: ")
    assert words in found.message
