"""File names split one way only."""

from itertools import islice

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.mail.test_letter import AGENT
from treadle.mail.letter import INTENTS, Letter, file_names, name_headers

AT = "2025-11-21T17:00:00Z"


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # busy machines
@given(AGENT, AGENT, st.sampled_from(INTENTS), st.sampled_from([None, "FEAT-021", "a_b.c-d"]))
def test_every_pair_of_agents_splits_at_its_own_place(sender, to, intent, task_id):
    name = next(file_names(Letter(sender, to, intent, "new", AT, task_id)))
    dotted = [item.replace("-", ".").replace("_", ".") for item in (sender, to)]
    about = {"task_id": task_id.replace("_", ".")} if task_id else {}
    known = dict(zip(("from", "to"), dotted, strict=True)) | {"intent": intent, "status": "new"}
    assert name_headers(name) == known | {"created_at": AT} | about


def test_a_taken_name_gets_a_number_that_is_no_field():
    letter = Letter("coordinator", "all", "implement_feature", "new", AT, "AUTH-012")
    names = list(islice(file_names(letter), 3))
    stem = "20251121_170000_coordinator-all_implement-feature_AUTH-012"
    assert names == [f"{stem}.md", f"{stem}~002.md", f"{stem}~003.md"]
    assert name_headers(names[2]) == name_headers(names[0])


@pytest.mark.parametrize(
    "name",
    [
        "hello.md",
        "20251121_170000_a-b_test_T-1.txt",
        "20251121_170000_a_test_T-1.md",
        "20251121_170000_a-b-c_test_T-1.md",
        "20251340_170000_a-b_test_T-1.md",
        "2025112１_170000_a-b_test.md",
        "20251121_170000_a-b_test_T-1_more.md",
    ],
)
def test_names_that_do_not_follow_the_pattern(name):
    assert name_headers(name) == {}
