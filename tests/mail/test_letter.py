"""Letters are read as they were written, and what is wrong with one is said."""

from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treadle.errors import FormatError, UsageError
from treadle.mail.letter import INTENTS, STATUSES, Letter, parse, parse_time, write

WORD = st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True)
AGENT = st.builds(
    lambda first, rest: first + "".join(mark + word for mark, word in rest),
    WORD,
    st.lists(st.tuples(st.sampled_from("._-"), WORD), max_size=3),
).filter(lambda name: name not in ("all", "rooster"))
KEY = st.from_regex(r"[a-z][a-z_]{0,10}", fullmatch=True).filter(
    lambda key: key not in ("from", "to", "intent", "task_id", "status", "created_at")
)
VALUE = st.text(min_size=1).filter(
    lambda text: text == text.strip() and len(text.splitlines()) == 1 and text.isprintable()
)
MOMENT = st.datetimes(datetime(1970, 1, 2), datetime(2900, 1, 1)).map(
    lambda moment: moment.strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20)
)
LETTERS = st.builds(
    Letter,
    sender=AGENT,
    to=AGENT | st.just("all"),
    intent=st.sampled_from(INTENTS),
    status=st.sampled_from(STATUSES),
    created_at=MOMENT,
    task_id=st.none() | st.from_regex(r"[A-Z]{1,5}[._-][0-9]{1,4}", fullmatch=True),
    extra=st.dictionaries(KEY, VALUE, max_size=3).map(lambda pairs: tuple(pairs.items())),
    body=st.text(st.characters(exclude_categories=["Cs"])),
)
HEAD = "# MESSAGE\nfrom: a\nto: b\nintent: inform\nstatus: new\ncreated_at: 2025-11-21T17:00:00Z\n"


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # busy machines
@given(LETTERS)
def test_parse_of_write_is_the_letter(letter):
    assert parse(write(letter)) == letter


def test_the_contracts_example_is_read():
    text = (
        "# MESSAGE\nfrom: coordinator\nto: engineer\nintent: implement_feature\n"
        "task_id: FEAT-021\nstatus: new\ncreated_at: 2025-11-06T14:02:11Z\n\n## Summary\nAdd it.\n"
    )
    found = parse(text)
    assert (found.sender, found.to, found.task_id) == ("coordinator", "engineer", "FEAT-021")
    assert (found.body, write(found)) == ("## Summary\nAdd it.\n", text)


def test_headers_that_are_missing_come_from_the_file_name():
    name = "20251106_140211_coordinator-engineer_implement-feature_FEAT-021.md"
    found = parse("just text", name)
    assert found == Letter(
        "coordinator",
        "engineer",
        "implement_feature",
        "new",
        "2025-11-06T14:02:11Z",
        "FEAT-021",
        body="just text",
    )


def test_byte_order_mark_line_ends_upper_case_and_done_are_understood():
    text = HEAD.replace("from: a", "from: Ada").replace("new", "done").replace("\n", "\r\n")
    found = parse(f"\ufeff{text}\r\nbody\r\n")
    assert (found.sender, found.status, found.body) == ("ada", "completed", "body\r\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD.replace("from: a\n", ""), "no header from"),
        (HEAD + "to: c\n", "header to appears twice"),
        (HEAD + "nonsense\n", "is not a header"),
        (HEAD.replace("from: a", "from: ../x"), "is not an agent's name"),
        (HEAD.replace("from: a", "from: all"), "cannot write"),
        (HEAD.replace("to: b", f"to: {'x' * 10_000}"), "is not an agent's name"),
        (HEAD.replace("new", "maybe"), "there is no status 'maybe'"),
        (HEAD.replace("2025-11-21T17:00:00Z", "soon"), "is not a time"),
        (HEAD + "task_id: a/b\n", "is not a task id"),
        ("no header at all", "no header from, to, intent, status, created_at"),
    ],
)
def test_what_is_wrong_is_said(text, said):
    with pytest.raises(FormatError, match=said):
        parse(text)


def test_unknown_headers_and_intents_are_kept():
    found = parse(HEAD.replace("inform", "dance") + "mood: good\n\nbody")
    assert (found.intent, found.extra, found.body) == ("dance", (("mood", "good"),), "body")


def test_a_header_must_be_one_line():
    letter = parse(HEAD)
    with pytest.raises(UsageError, match="must be one line"):
        write(letter._replace(extra=(("priority", "high\nfrom: b"),)))


def test_fractions_and_offsets_become_utc():
    assert parse_time("2025-11-21T19:00:00.5+02:00") == datetime(
        2025, 11, 21, 17, 0, 0, 500_000, UTC
    )
