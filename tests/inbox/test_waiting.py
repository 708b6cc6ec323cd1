"""Waiting for work: whole files, and a way on where files cannot be watched."""

import itertools
from datetime import UTC, datetime

from treadle.inbox.waiting import Waiting
from treadle.layout import Layout


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


def test_where_files_cannot_be_watched_they_are_looked_at(tmp_path):
    layout, told = Layout(tmp_path), []
    due = waiting(layout, lambda: False).reasons(told.append)
    next(due)
    layout.inbox.rmdir()
    layout.specs.rmdir()
    layout.specs.mkdir()
    (layout.specs / "1.spec.md").write_text("# Do it\n")
    assert list(itertools.islice(due, 1)) == [None]
    assert len(told) == 2
    assert all("looking every second instead" in words for words in told)
