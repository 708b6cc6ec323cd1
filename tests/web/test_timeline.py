"""A run as a picture."""

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

from treadle.web import render
from treadle.web.render import Bar

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def step(index, role, start, end, status="ok", iteration=1, summary=""):
    moments = (BEGIN + timedelta(seconds=start), BEGIN + timedelta(seconds=end))
    return Bar(index, role, iteration, status, *moments, summary)


def rects(bars):
    drawn = ElementTree.fromstring(str(render.draw_timeline(bars)))
    return [(r.get("class"), float(r.get("x")), float(r.get("width"))) for r in drawn.iter("rect")]


def test_time_goes_from_left_to_right_in_proportion():
    (_, first, one), (_, second, two) = rects([step(1, "plan", 0, 10), step(2, "do", 10, 40)])
    assert first < second
    assert 2.8 < two / one < 3.2


def test_a_long_pause_is_cut_short():
    found = rects([step(1, "plan", 0, 10), step(2, "do", 90_000, 90_010)])
    assert all(width > 400 for _, _, width in found)


def test_failed_steps_are_marked_without_colour():
    drawn = str(render.draw_timeline([step(1, "plan", 0, 1), step(2, "do", 1, 2, status="fail")]))
    assert 'class="bar fail"' in drawn
    assert "✗" in drawn


def test_every_iteration_has_its_line():
    drawn = str(render.draw_timeline([step(n, "do", n, n + 1, iteration=n) for n in (1, 2, 3)]))
    assert len(re.findall('<line class="iteration"', drawn)) == 3


def test_words_of_agents_stay_words():
    drawn = render.draw_timeline(
        [step(1, "plan", 0, 1, summary="</title><script>x</script>")], "/{}".format
    )
    assert "<script>" not in drawn
    assert 'href="/1"' in drawn


def test_nothing_draws_nothing():
    assert render.draw_timeline([]) == ""


def test_steps_without_any_length_are_still_seen():
    assert all(width >= 2 for _, _, width in rects([step(n, "do", 0, 0) for n in (1, 2)]))


def test_a_timeline_has_dates_and_a_zone():
    drawn = str(render.draw_timeline([step(1, "plan", 0, 1), step(2, "do", 86_000, 90_000)]))
    begin, end = BEGIN.astimezone(), (BEGIN + timedelta(seconds=90_000)).astimezone()
    assert begin.strftime(">%d %b %H:%M:%S<") in drawn
    assert end.strftime(">%d %b %H:%M:%S %Z<") in drawn


def test_times_after_pauses_stand_clear_of_the_others():
    def times(before, after):
        bars = [step(1, "plan", 0, before), step(2, "do", 90_000, 90_000 + after)]
        return str(render.draw_timeline(bars)).count('<text class="time')

    assert [times(100, 100), times(100, 1), times(1, 100)] == [3, 2, 2]
