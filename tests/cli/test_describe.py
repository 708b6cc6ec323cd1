"""What programs are told about the command line is what the command line reads."""

import json

from treadle.cli import main
from treadle.errors import ExitCode


def test_the_whole_fits_into_six_kilobytes(call):
    said = call("describe", "--json")
    assert len(said.out.encode()) < 6000
    assert said.document["exit_codes"] == {str(code.value): code.name.lower() for code in ExitCode}


def test_every_command_and_argument_is_there(call):
    found = call("describe", "--json").document["commands"]
    assert found.keys() == {name for name, entry in main.COMMANDS.items() if entry[0]}
    assert found["mission status"] == "[--mission SLUG]"
    assert found["next"].startswith("[--mission SLUG] [--agent NAME] [--result success|failed|")
    assert found["task move"].startswith("TASK ")
    assert "--to LANE" in found["task move"].replace("[--to LANE]", "")


def test_it_can_be_read_by_people_too(call):
    lines = call("describe").out.splitlines()
    assert "treadle trust [--show] [--revoke]" in lines
    assert len(lines) == len(json.loads(call("describe", "--json").out)["commands"])
