"""A decision that breaks the contract cannot be built."""

from pathlib import Path

import pytest

from treadle.errors import FormatError
from treadle.missions.state import At, Halt, NextStep, document

WHERE = At("auth", "implement", "auth.WP01")


@pytest.mark.parametrize("path", ["", ".", "relative.md", "/nowhere/prompt.md", "/"])
def test_step_without_an_existing_prompt_is_refused(path):
    with pytest.raises(FormatError) as caught:
        NextStep(WHERE, Path(path))
    assert caught.value.code == "prompt_file_not_resolvable"


def test_step_names_its_prompt(tmp_path):
    prompt = tmp_path / "prompt.md"
    prompt.write_text("Do it")
    step = NextStep(WHERE, prompt)
    assert document(step)["prompt_file"] == str(prompt)
    with pytest.raises(AttributeError):
        step.prompt_file = Path("/other")


@pytest.mark.parametrize(
    ("kind", "reason", "code", "unblock"),
    [
        ("blocked", "", "x", ("y",)),
        ("blocked", "x", "", ("y",)),
        ("blocked", "x", "y", ()),
        ("query", "x", "y", ()),
        ("decision_required", "x", "y", ()),
        ("complete", "", "y", ()),
    ],
)
def test_other_kinds_need_reason_code_and_help(kind, reason, code, unblock):
    with pytest.raises(FormatError):
        Halt(kind, WHERE, reason, code, unblock)


def test_documents_have_the_same_few_keys(tmp_path):
    done = Halt("complete", WHERE, "all done", "mission_complete")
    assert document(done) == {
        "schema_version": 1,
        "kind": "complete",
        "prompt_file": None,
        "workspace_path": None,
        "reason": "all done",
        "reason_code": "mission_complete",
        "unblock": [],
        "mission_slug": "auth",
        "phase": "implement",
        "task_id": "auth.WP01",
    }
