"""Text for people, JSON for programs, and no surprises in a terminal."""

import io
import json
import os

import pytest

from treadle.cli import output


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "env", "wants"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
    ids=["terminal", "empty NO_COLOR", "NO_COLOR", "dumb", "pipe"],
)
def test_colour_is_for_terminals_that_want_it(stream, env, wants):
    assert output.wants_colour(stream, env) is wants


def test_json_is_one_line_for_programs(capsys):
    output.print_json({"name": "café", "path": os.fsdecode(b"\xff")})
    assert json.loads(capsys.readouterr().out)["name"] == "café"


def test_json_is_indented_on_a_terminal(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    output.print_json({"a": 1})
    assert screen.getvalue() == '{\n  "a": 1\n}\n'


def test_table_is_aligned_and_has_no_trailing_blanks(capsys):
    output.print_table(("ID", "GOAL"), [("T-1", "a\nb"), ("T-100", None)])
    assert capsys.readouterr().out == "ID     GOAL\nT-1    a b\nT-100\n"


def test_empty_table_is_its_headers(capsys):
    output.print_table(("ID", "GOAL"), [])
    assert capsys.readouterr().out == "ID  GOAL\n"


@pytest.mark.parametrize("text", ["\x1b[2J", "\x07", "a\u202eb", "\x9b1m", "\r"])
def test_words_of_strangers_do_nothing_to_the_terminal(text):
    shown = output.clean(text)
    assert shown.isprintable()
    assert shown != text


def test_ordinary_text_is_shown_as_it_is():
    assert output.clean("größer → 日本 🎉\n\ttab") == "größer → 日本 🎉\n\ttab"


def test_warning_stays_out_of_the_answer(capsys):
    output.warn("careful")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "treadle: warning: careful\n")
