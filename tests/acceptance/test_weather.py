"""Runs that would conflict if both landed are named while there is time."""

import pytest

from tests.acceptance.site import Site


@pytest.fixture
def site(project):
    found = Site(project)
    found.commit("shared.txt", "base\n")
    return found


@pytest.fixture
def pair(site):
    """Return two passed runs that change the same line differently."""
    one = site.passed("echo one > shared.txt; echo > done.txt")
    two = site.passed("echo two > shared.txt; echo > done.txt")
    return one, two


def weather(site):
    return site.project.treadle("runs", "list", "--json").json["weather"]


def test_two_runs_that_conflict_are_named_with_the_file(site, pair):
    assert weather(site) == [{"runs": list(pair), "files": ["shared.txt"]}]
    listed = site.project.treadle("runs", "list")
    assert f"runs {pair[0]} and {pair[1]} would conflict in shared.txt" in listed.err
    for run_id in pair:
        (line,) = site.project.treadle("why", run_id, "--json").json["weather"]
        assert "shared.txt" in line


def test_the_weather_clears_when_one_has_landed_and_comes_back_when_it_is_undone(site, pair):
    site.land(pair[0])
    assert weather(site) == []
    site.undo(pair[0])
    assert len(weather(site)) == 1


def test_runs_that_fit_together_bring_no_weather(site):
    site.passed("echo one > one.txt; echo > done.txt")
    site.passed("echo two > two.txt; echo > done.txt")
    assert weather(site) == []


def test_a_run_that_changed_nothing_brings_no_weather(site, pair):
    site.passed("true", verify="true")
    assert len(weather(site)) == 1


def test_looking_at_the_weather_leaves_nothing_behind(site, pair):
    live = site.project.run_dir(pair[1]) / "live"
    assert not (live / "weather").exists()
