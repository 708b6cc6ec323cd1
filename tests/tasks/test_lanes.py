"""Lanes follow one another by rule."""

import pytest

from treadle.errors import UsageError
from treadle.tasks import lanes

EDGES = {
    "planned": "claimed blocked canceled",
    "claimed": "in_progress planned blocked canceled",
    "in_progress": "for_review planned blocked canceled",
    "for_review": "in_review in_progress planned blocked canceled",
    "in_review": "approved in_progress planned blocked canceled",
    "approved": "done in_progress planned blocked canceled",
    "blocked": "in_progress canceled",
    "done": "",
    "canceled": "",
}
STATUS = {
    "planned": "new",
    "claimed": "claimed",
    "in_progress": "in_progress",
    "for_review": "in_progress",
    "in_review": "in_progress",
    "approved": "in_progress",
    "done": "completed",
    "blocked": "blocked",
    "canceled": "failed",
}


@pytest.mark.parametrize("lane", lanes.LANES)
def test_each_lane_leads_where_the_rules_say(lane):
    assert lanes.legal(lane) == tuple(EDGES[lane].split())


@pytest.mark.parametrize("lane", lanes.LANES)
def test_each_lane_has_its_status(lane):
    assert lanes.status(lane) == STATUS[lane]


def test_only_sending_reviewed_work_back_needs_a_reason():
    needing = {(a, b) for a in lanes.LANES for b in lanes.LANES if lanes.needs_reason(a, b)}
    assert needing == {(lane, back) for lane in lanes.REVIEW for back in ("in_progress", "planned")}


@pytest.mark.parametrize("text", ["doing", "in_progress", "In-Progress"])
def test_doing_is_another_word_for_in_progress(text):
    assert lanes.parse(text) == "in_progress"


def test_an_unknown_lane_gets_the_nearest_one():
    with pytest.raises(UsageError, match="did you mean in_review"):
        lanes.parse("in_reveiw")
