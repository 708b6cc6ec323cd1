import json

import pytest

from treadle.contract import ROLES, follows, messages
from treadle.errors import FormatError

GOOD = {"version": 1, "status": "ok", "summary": "done"}


def test_the_wheel_turns_in_order():
    assert [follows(role) for role in ROLES] == ["do", "check", "act", "plan"]


def test_request_keeps_the_contracts_keys():
    asked = messages.AgentRequest(
        run_id="20260123-145501-ab12cd",
        step=messages.Step(index=2, role="check", iteration=1),
        goal="g",
        norma=messages.Asked(
            acceptance_criteria=(messages.AskedCriterion(id="AC1", text="t"),),
            budgets={"max_iterations": 5},
        ),
        paths=messages.Paths(repo_root="/r", run_dir="/r/d", step_dir="/r/d/s"),
        context=messages.RequestContext(previous_step_dirs=(), notes=""),
    )
    document = json.loads(messages.encode(asked))
    assert list(document) == ["version", "run_id", "step", "goal", "norma", "paths", "context"]
    assert document["norma"] == {
        "acceptance_criteria": [{"id": "AC1", "text": "t"}],
        "budgets": {"max_iterations": 5},
    }


def test_response_fills_the_optional_lists_and_keeps_unknown_keys():
    parsed, raw = messages.parse_response(json.dumps(GOOD | {"extra": 1}).encode(), source="stdout")
    assert (parsed.files, parsed.next_actions, parsed.errors) == ((), (), ())
    assert raw["extra"] == 1


BAD = {
    "version missing": {"status": "ok", "summary": "s"},
    "version true": GOOD | {"version": True},
    "version 1.0": GOOD | {"version": 1.5},
    "version 2": GOOD | {"version": 2},
    "status": GOOD | {"status": "done"},
    "summary": {"version": 1, "status": "ok"},
    "summary type": GOOD | {"summary": 3},
    "files type": GOOD | {"files": "a"},
    "files up": GOOD | {"files": ["../a"]},
    "files absolute": GOOD | {"files": ["/etc/passwd"]},
    "files empty": GOOD | {"files": [""]},
    "files backslash": GOOD | {"files": ["a\\..\\b"]},
}


@pytest.mark.parametrize("name", BAD)
def test_response_refuses(name):
    with pytest.raises(FormatError, match="stdout"):
        messages.parse_response(json.dumps(BAD[name]).encode(), source="stdout")


def _verdict(word, **passes):
    criteria = [{"id": id_, "pass": value} for id_, value in passes.items()]
    return json.dumps({"version": 1, "verdict": word, "criteria": criteria}).encode()


def test_verdict_pass_and_fail():
    asked = ["AC1", "AC2"]
    passed = messages.parse_verdict(_verdict("PASS", AC1=True, AC2=True), source="v", asked=asked)
    failed = messages.parse_verdict(_verdict("FAIL", AC1=True, AC2=False), source="v", asked=asked)
    assert passed.failing == ()
    assert failed.failing == ("AC2",)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (_verdict("PASS", AC1=True), "leaves out AC2"),
        (_verdict("PASS", AC1=True, AC2=False), "AC2 did not pass"),
        (_verdict("MAYBE", AC1=True), "MAYBE"),
        (b'{"version": 1, "verdict": "PASS"}', "criteria"),
        (b'{"version": 1, "verdict": "FAIL", "criteria": [{"id": "AC1"}]}', "pass"),
        (
            b'{"version": 1, "verdict": "FAIL", "criteria":'
            b' [{"id": "AC1", "pass": true}, {"id": "AC1", "pass": false}]}',
            "given twice: AC1",
        ),
    ],
)
def test_verdict_refuses(data, why):
    with pytest.raises(FormatError, match=why):
        messages.parse_verdict(data, source="verdict.json", asked=["AC1", "AC2"])
