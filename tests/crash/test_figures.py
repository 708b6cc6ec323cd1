"""The counts in the documentation are those of the tests."""

import re
from pathlib import Path

import pytest

from tests.crash import test_boundaries, test_landing
from tests.fuzz.targets import TARGETS
from tests.fuzz.test_targets import EXAMPLES
from tests.git import corpus
from tests.sandbox.test_mask import FORMS
from treadle.sandbox import mask

TEXT = " ".join((Path(__file__).parents[2] / "docs" / "reliability.md").read_text().split())
KILLS = test_boundaries.QUICK + test_boundaries.SLOW
NUMBERS = {11: "eleven", 12: "twelve", 13: "thirteen", 14: "fourteen", 15: "fifteen"}


@pytest.mark.parametrize(
    "sentence",
    [
        f"{len(corpus.HOSTILE)} hostile patches and {len(corpus.HONEST)} honest ones",
        f"{NUMBERS[len({pattern for _, pattern in mask._SHAPES})]} known kinds of tokens",
        f"A hundred canaries in {NUMBERS[len(FORMS)]} forms",
        f"kill at named boundaries, before every change goes in | {len(KILLS)} |",
        f"feeds each {EXAMPLES} inputs with hypothesis",
        f"{len(TARGETS)} parsers",
        " times in each test run, ".join(str(mark) for mark in (3, 200)),
    ],
)
def test_a_count_is_true(sentence):
    assert sentence in TEXT


def test_random_kills_are_as_many_as_documented():
    found = test_landing.test_kills_of_everything_at_any_moment.pytestmark
    numbers = next(mark.args[1] for mark in found if mark.name == "parametrize")
    assert [numbers[0], numbers[1].values[0]] == [3, 200]


@pytest.mark.parametrize("name", TARGETS)
def test_each_parser_has_its_figure(name):
    assert re.search(rf"\| `{name}` \| [\d,]+ \|", TEXT)
