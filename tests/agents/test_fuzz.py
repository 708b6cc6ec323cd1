"""Whatever a tool says, reading it never raises."""

import json
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.agents import answer, trouble
from treadle.agents.backend import parse_event
from treadle.agents.table import TOOLS

NOWHERE = Path("/nonexistent")
NOW = datetime(2026, 3, 1, tzinfo=UTC)
GOOD = json.dumps({"version": 1, "status": "ok", "summary": "done"})
WORDS = st.sampled_from(
    [
        GOOD,
        "{",
        "}",
        "```json\n",
        "```\n",
        "\n",
        '"',
        "[",
        "]",
        "\\",
        "prose",
        "\ud800",
        "{}",
        "~~~\n",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        *("type", "item", "usage", "result", "part", "data", "stats", "error", "message", "text"),
        *("content", "tokens", "status", "is_error", "session_id", "exitCode", "role", "subtype"),
    ]
)
KINDS = st.sampled_from(
    [
        *("thread.started", "item.completed", "turn.completed", "turn.failed", "result", "init"),
        *("assistant", "message", "tool_use", "text", "step_finish", "error", "session.error"),
    ]
)
EVENT = st.builds(
    lambda kind, rest: {**rest, "type": kind}, KINDS, st.dictionaries(KEYS, JSON, max_size=4)
)


@settings(max_examples=150, deadline=None)
@given(st.lists(WORDS, max_size=12).map("".join))
def test_any_last_message_gives_an_answer_or_a_sentence(text):
    found = answer.find(text, NOWHERE)
    assert isinstance(found, str | answer.Answer)
    if text.strip() == GOOD:
        assert isinstance(found, answer.Answer)


@settings(max_examples=150, deadline=None)
@given(st.text(), st.none() | st.integers(100, 599))
def test_any_complaint_is_some_kind_of_trouble(text, status):
    assert trouble.classify(text, status, NOW).error in trouble.kinds()


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_line_is_an_object_or_nothing(data):
    assert isinstance(parse_event(data), dict | None)


@settings(max_examples=150, deadline=None)
@given(st.lists(EVENT, max_size=5), st.sampled_from(sorted(TOOLS)))
def test_any_events_are_told(events, tool):
    for event in events:
        for note in TOOLS[tool].tell(event):
            assert isinstance(note.kind, str)
