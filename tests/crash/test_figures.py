"""The counts in the documentation are those of the tests."""

import re
from pathlib import Path

import pytest

from tests.acceptance import clones, subversions, test_clones
from tests.crash import test_boundaries, test_landing
from tests.fuzz.targets import TARGETS
from tests.fuzz.test_targets import EXAMPLES
from tests.git import spellings
from tests.sandbox import canaries
from tests.web import test_hostile, test_pages, world
from treadle.web.actions import PAGES

TEXT = " ".join((Path(__file__).parents[2] / "docs" / "reliability.md").read_text().split())
KILLS = test_boundaries.QUICK + test_boundaries.SLOW


@pytest.mark.parametrize(
    "sentence",
    [
        f"{len(spellings.HOSTILE)} hostile patches and {len(spellings.HONEST)} honest ones",
        f"values of variables in {len(canaries.FORMS)} forms, through commands, files, reports"
        f" and the live page | {canaries.COUNT} |",
        "and honest work beside them |"
        f" {len(subversions.SUBVERSIONS)} and {len(subversions.HONEST)} |",
        f"{len(clones.SHAPES)} shapes × {test_clones.COUNT // len(clones.SHAPES)} commands:"
        f" {test_clones.COUNT:,}",
        f"kill at named boundaries, before every change goes in | {len(KILLS)} |",
        f"{len({*test_pages.paths(PAGES)})} spoilt paths, each as a page and as JSON, and"
        f" {test_pages.ASKED} spoilt fields |",
        f"{len(world.XSS)} strings on {len(test_hostile.PAGES)} pages |",
        f"feeds each {EXAMPLES} inputs with hypothesis",
        f"{len(TARGETS)} parsers",
        "3 times in each test run, 40 times with `--real`, 120 times with `--all`",
    ],
)
def test_a_count_is_true(sentence):
    assert sentence in TEXT


def test_random_kills_are_as_many_as_documented():
    first, *more = test_landing.LANDINGS
    assert [first, *(it.values[0] for it in more)] == [3, 40, 120]


@pytest.mark.parametrize("name", TARGETS)
def test_each_parser_has_its_figure(name):
    assert re.search(rf"\| `{name}` \| [\d,]+ \|", TEXT)
