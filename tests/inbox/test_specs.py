"""Which specs are left is known without looking at all of them again for each."""

import os
import time

import pytest

from treadle.inbox.specs import Unprocessed
from treadle.layout import Layout


@pytest.fixture
def layout(tmp_path):
    found = Layout(tmp_path)
    found.specs.mkdir()
    (found.specs / "b.spec.md").write_text("b")
    return found


def date(folder, at):
    os.utime(folder, ns=(at, at))


def test_a_spec_that_comes_later_takes_its_place_in_the_order(layout):
    date(layout.specs, 1)
    left = Unprocessed(layout)
    assert left.names() == ["b.spec.md"]
    (layout.specs / "a.spec.md").write_text("a")
    assert left.names() == ["a.spec.md", "b.spec.md"]


def test_a_folder_that_has_not_changed_is_not_looked_at_again(layout):
    date(layout.specs, 1)
    left = Unprocessed(layout)
    assert left.names() is left.names()


def test_a_change_within_one_tick_of_the_clock_is_seen(layout):
    now = time.time_ns()
    date(layout.specs, now)
    left = Unprocessed(layout)
    left.names()
    (layout.specs / "a.spec.md").write_text("a")
    date(layout.specs, now)
    assert left.names() == ["a.spec.md", "b.spec.md"]


def test_without_a_folder_there_are_none(tmp_path):
    assert Unprocessed(Layout(tmp_path)).names() == []
