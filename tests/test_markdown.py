"""What a spec says: title, sections, criteria."""

import pytest

from treadle.contract import Criterion
from treadle.markdown import checkboxes, criteria, section, title, without_criteria

SPEC = """# Add auth ##

Intro.

## Acceptance Criteria

- **Given** a user
  **When** they log in
  **Then** they are in: `$ pytest -q tests/test_login.py`
- [ ] The page is fast
- [x] It is documented

### More

1. Numbered
   over lines

   and paragraphs

<!-- - hidden -->
<!--
- hidden too
-->
```
- code is none
```
* ``$ make `uname` ``.

A paragraph that is no item.

## Notes

- not a criterion
"""


def test_the_items_of_the_section_are_the_criteria():
    assert criteria(SPEC) == (
        Criterion(
            "AC1",
            "**Given** a user **When** they log in **Then** they are in",
            "pytest -q tests/test_login.py",
        ),
        Criterion("AC2", "The page is fast"),
        Criterion("AC3", "It is documented"),
        Criterion("AC4", "Numbered over lines and paragraphs"),
        Criterion("AC5", "make `uname`", "make `uname`"),
    )


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (
            "- AC3: third\n- next\n- AC3: again",
            [("AC3", "third"), ("AC2", "next"), ("AC4", "again")],
        ),
        ("- **AC7**: bold", [("AC7", "bold")]),
        ("- outer\n  - inner\n- second", [("AC1", "outer - inner"), ("AC2", "second")]),
        ("- lazy\ncontinued", [("AC1", "lazy continued")]),
        ("- mentions `$ cmd` inside", [("AC1", "mentions `$ cmd` inside")]),
        ("- costs `5 $`", [("AC1", "costs `5 $`")]),
        ("-\n- [ ]\n- x", [("AC1", "x")]),
        ("no items", []),
    ],
)
def test_items_are_read_as_they_are_meant(items, expected):
    found = criteria(f"## acceptance criteria:\n\n{items}\n")
    assert [(item.id, item.text) for item in found] == expected


def test_a_text_without_the_section_has_no_criteria():
    assert criteria("# Title\n\n- a\n") == ()
    assert criteria("```\n## Acceptance Criteria\n- a\n```\n") == ()


def test_a_section_ends_at_the_next_heading_of_its_level():
    assert section("# A\n## B\nb\n### C\nc\n## D\nd\n", "b") == "b\n### C\nc"
    assert section("# A\n", "Z") is None
    assert section("# A", "A") == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\n\n# Add  auth ##\n", "Add auth"),
        ("Fix it\n\n# Details", "Fix it"),
        ("<!-- c -->\n#\nx", "x"),
        ("a" * 300, "a" * 199 + "…"),
        ("", ""),
        ("a\x00b\x1bc", "a b c"),
        ("#5 is broken", "#5 is broken"),
    ],
)
def test_the_title_is_the_first_line_that_says_something(text, expected):
    assert title(text) == expected


def test_criteria_may_stand_under_success_criteria():
    for heading in ("Success Criteria", "Objectives & Success Criteria", "success criteria:"):
        assert criteria(f"## {heading}\n- Fast: `$ true`\n") == (Criterion("AC1", "Fast", "true"),)
    both = "## Success Criteria\n- Later\n## Acceptance Criteria\n- First\n"
    assert [item.text for item in criteria(both)] == ["First"]
    assert [item.text for item in criteria(both.replace("- First", "None."))] == ["Later"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            "# G\n\n- a\n\n## Acceptance Criteria\n\n- a\n- b\n\n## C\n\nx",
            "# G\n\n- a\n\n## C\n\nx",
        ),
        ("# G\n\n## Acceptance Criteria\n\n- a\n  b\n\nMind c.", "Mind c."),
        ("# G\n\n## Acceptance Criteria\n\n- a\n\n  ```\n  code\n  ```\n", "- a"),
        ("# G\n\nno list", "no list"),
    ],
    ids=["dropped", "words stay", "code stays", "none"],
)
def test_a_text_without_what_became_criteria(text, left):
    found = without_criteria(text)
    assert left in found
    assert ("Acceptance" in found) is (left in ("Mind c.", "- a"))
    assert found.count("- a") == ("- a" in left)


def test_checklists_have_no_items_in_code_or_comments():
    code, comment = "```\n- [ ] code\n```\n", "<!--\n- [ ] hidden\n-->\n"
    text = f"- [ ] one\n  - [x] two \n{code}{comment}* [X] three\n- four\n"
    assert checkboxes(text) == [(" ", "one"), ("x", "two"), ("X", "three")]
