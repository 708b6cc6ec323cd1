"""The table of commands: what it calls is there, and its help says all that one has to know."""

import ast
import importlib
import re

import pytest

from tests.sources import PACKAGE, trees
from treadle.cli import invoke, main
from treadle.layout import BOXES
from treadle.mail.letter import INTENTS, STATUSES
from treadle.missions.state import RESULTS
from treadle.tasks.lanes import LANES
from treadle.text import plural

CALLS = {name: function for name, (function, _, _) in main.COMMANDS.items() if function}
ELSE = {line.split()[2] for _, _, lines in main.COMMANDS.values() for line in lines if "=>" in line}
# A number before one of these must be told by `plural`.
NOUNS = {
    *("archives", "checks", "commands", "commits", "days", "events", "files"),
    *("folders", "letters", "lines", "messages", "missions", "questions", "rows", "runs", "steps"),
    *("tables", "tasks", "tests", "workers"),
}
# What is always more than one, or does not depend on the number.
PLURAL_ANYWAY = (" than ", " of ", "there are ", "at most ", "at least ")


def arguments(name):
    """Return the help of every argument of a command, by its first word in the table."""
    lines = [line for item in main.COMMANDS[name][2] for line in main.SHARED.get(item, [item])]
    return {line.removeprefix("| ").split()[0]: line for line in lines}


@pytest.mark.parametrize("name", sorted({*CALLS.values(), *ELSE}))
def test_what_the_table_calls_is_there(name):
    module, _, function = name.partition(".")
    found = getattr(importlib.import_module(f"treadle.cli.{module}"), function)
    assert callable(found)


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_command_and_argument_says_what_it_is_for(name):
    assert main.COMMANDS[name][1][0].isupper()
    for line in arguments(name).values():
        assert re.search(r"\S  \S", line), line
        assert not line.endswith("."), line


def test_help_says_defaults_values_and_what_may_be_repeated(call):
    shown = " ".join(call("runs", "list", "--help").out.split())
    assert "At most N runs (default: 50)" in shown
    assert "{running,passed,failed,stopped}" in shown
    assert "; may be repeated" in call("task", "add", "--help").out


def test_words_to_choose_from_are_those_that_the_product_knows():
    assert f" {'|'.join(RESULTS)}  " in arguments("next")["--result"]
    assert f" {'|'.join(BOXES)}  " in arguments("mail list")["--box"]
    assert ", ".join(LANES) in arguments("task move")["--to"]
    assert ", ".join(INTENTS) in arguments("mail send")["--intent"]
    assert ", ".join(STATUSES) in arguments("mail send")["--status"]


def test_an_option_may_call_something_else():
    assert invoke.build_parser("run").parse_args([]).call == "run.run_tasks"
    assert invoke.build_parser("run").parse_args(["--fleet"]).call == "fleet_work.submit_runs"


def test_a_number_agrees_with_its_noun():
    assert [plural(count, "file") for count in (0, 1, 2)] == ["0 files", "1 file", "2 files"]


def test_no_sentence_counts_without_looking_at_the_number():
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr) and counts_blindly(node)
    ]
    assert found == []


def counts_blindly(text):
    """Tell whether a number that may be one stands before a noun in the plural."""
    before = ""
    for value, rest in zip(text.values, text.values[1:], strict=False):
        if isinstance(value, ast.FormattedValue) and isinstance(rest, ast.Constant):
            words = rest.value.split()
            noun = next((word.strip(".,;:)") for word in words if word != "more"), "")
            is_noun = rest.value.startswith(" ") and noun in NOUNS
            if is_noun and not f" {before}".endswith(PLURAL_ANYWAY):
                return True
        before = value.value if isinstance(value, ast.Constant) else ""
        before = rest.value if isinstance(rest, ast.Constant) else before
    return False
