"""What programs are told about the command line is what the command line reads."""

import json

from treadle.cli import describe, main
from treadle.errors import ExitCode
from treadle.mail.letter import INTENTS
from treadle.tasks.lanes import LANES


def test_the_whole_fits_into_sixteen_kilobytes(call):
    said = call("describe", "--json")
    assert len(said.out.encode()) < 16_000
    assert said.document["exit_codes"] == {str(code.value): code.name.lower() for code in ExitCode}


def test_every_command_and_argument_is_there(call):
    found = call("describe", "--json").document["commands"]
    assert found.keys() == {name for name, entry in main.COMMANDS.items() if entry[0]}
    assert found["mission status"]["usage"] == "[--mission SLUG]"
    assert "[--agent NAME] [--result success|failed|" in found["next"]["usage"]
    assert found["task move"]["usage"].startswith("TASK ")
    assert "--to LANE" in found["task move"]["usage"].replace("[--to LANE]", "")


def test_every_command_is_said_in_one_sentence(call):
    for name, found in call("describe", "--json").document["commands"].items():
        said = found["summary"]
        assert said[0].isupper(), name
        assert said.endswith("."), name
        assert not said.endswith(".."), name
        assert len(said.split()) >= 2, name


def test_every_argument_that_takes_one_of_a_few_words_lists_them(call):
    """What the parser would refuse otherwise, and what it leaves to a command, stand there."""
    found = call("describe", "--json").document["commands"]
    listed = {(name, word) for name, it in found.items() for word in it.get("values", {})}
    for name, parser in leaves(describe.whole_parser()):
        for action in (it for it in parser._actions if isinstance(it.choices, list)):
            word = action.option_strings[-1] if action.option_strings else action.dest
            assert found[name]["values"][word] == action.choices
            listed.discard((name, word))
    assert found["task move"]["values"]["--to"] == list(LANES)
    assert found["mail send"]["values"]["--intent"] == list(INTENTS)
    assert found["next"]["values"]["--result"] == ["success", "failed", "blocked"]
    assert listed == {
        *(("task list", "--lane"), ("task move", "--to"), ("answer", "ACTION")),
        *((f"mail {verb}", "--intent") for verb in ("send", "list", "reply")),
        *((f"mail {verb}", "--status") for verb in ("send", "reply")),
        *(("run", "--budget"), ("run", "--agent"), ("replay", "--swap")),
    }


def leaves(parser, path=""):
    """Yield every command's parser by name."""
    inner = [it.choices for it in parser._actions if isinstance(it.choices, dict)]
    if path:
        yield path, parser
    for name, other in inner[0].items() if inner else ():
        yield from leaves(other, f"{path} {name}".strip())


def test_an_agent_is_told_what_its_name_is_for(call):
    said = call("describe", "--json").document["agent_names"]
    for word in ("--agent", "--as", "TREADLE_AGENT", "no task that somebody holds"):
        assert word in said
    helped = call("next", "--help").out
    assert "under it the task you are given stays yours" in " ".join(helped.split())


def test_it_can_be_read_by_people_too(call):
    lines = call("describe").out.splitlines()
    assert "treadle trust [--show] [--revoke]" in lines
    assert len(lines) == len(json.loads(call("describe", "--json").out)["commands"])
