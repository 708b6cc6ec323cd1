"""Parsers say --json everywhere and fit the terminal."""

import pytest

from treadle.cli import invoke


def test_subcommands_know_json_too(capsys):
    with pytest.raises(SystemExit):
        invoke.build_parser("runs").parse_args(["list", "--help"])
    shown = capsys.readouterr().out
    assert "List runs, newest first" in shown
    assert shown.startswith("usage: treadle runs list [-h] [--json]")
    assert "Answer with one JSON document" in shown


@pytest.mark.parametrize(("columns", "width"), [("40", 40), ("0", 80), ("wide", 80)])
def test_help_fits_the_terminal(monkeypatch, columns, width):
    monkeypatch.setenv("COLUMNS", columns)
    command = invoke.Parser(prog="treadle probe", description="word " * 60)
    assert width * 0.7 < max(map(len, command.format_help().splitlines())) <= width


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e300"])
def test_amounts_that_nobody_means_are_refused(call, value):
    said = call("mail", "watch", "--json", f"--timeout={value}")
    assert (said.code, said.document["error"]["code"]) == (2, "usage")
    assert "--timeout" in said.document["error"]["message"]


def test_large_numbers_are_refused_or_do_no_harm(call):
    assert call("mail", "list", "--json", "--limit=99999999999999999999").code == 2
    call("init")
    assert call("mail", "archive", "--json", "--older-than=999999999").code == 0
