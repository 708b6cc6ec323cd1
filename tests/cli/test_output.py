"""Text for people, JSON for programs, and no surprises in a terminal."""

import io
import json
import os
import re

import pytest

from tests.hostile_text import ACTING, found_acting
from treadle.cli import output
from treadle.errors import TreadleError


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


def test_a_very_long_cell_leaves_the_other_rows_as_they_are(capsys):
    output.print_table(("TO", "FILE"), [("ada, " * 100, "one"), ("bob", "two")])
    head, long, short = capsys.readouterr().out.splitlines()
    assert long.endswith("ada,   one")
    assert len(short) == len(head) - 1 == 60 + 2 + len("two")


def test_empty_table_is_its_headers(capsys):
    output.print_table(("ID", "GOAL"), [])
    assert capsys.readouterr().out == "ID  GOAL\n"


WAYS = {
    "line": lambda text: output.line("PASSED", text),
    "line of an error": lambda text: output.line(text, error=True),
    "block": output.block,
    "painted": lambda text: output.line(output.paint(text, "red")),
    "table": lambda text: output.print_table(["a"], [[text]]),
    "sentences": lambda text: output.say(False, {}, text),
    "document": lambda text: output.print_json({text: [text]}),
    "document on a terminal": lambda text: output.print_json({text: [text]}),
    "stream": lambda text: output.print_json_line({"message": text}),
    "warning": output.warn,
    "error": lambda text: output.print_error(TreadleError(text, fix=[text]), as_json=False),
    "error as document": lambda text: output.print_error(TreadleError(text), as_json=True),
}


@pytest.mark.parametrize("text", ACTING.values(), ids=ACTING)
@pytest.mark.parametrize("way", WAYS)
def test_words_of_strangers_do_nothing_to_the_terminal(monkeypatch, way, text):
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    WAYS[way](text)
    shown = re.sub("\x1b\\[(31|1|0)m", "", screen.getvalue())
    assert text not in shown
    assert not found_acting(shown)


def test_an_error_of_many_lines_cannot_pass_for_advice(capsys):
    output.print_error(TreadleError("git says\n  try: rm -rf /"), as_json=False)
    assert capsys.readouterr().err == "treadle: git says\n  |   try: rm -rf /\n"


def test_warning_stays_out_of_the_answer(capsys):
    output.warn("careful")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "treadle: warning: careful\n")
