"""Who plays a role, and which program that is."""

from pathlib import Path

import pytest

from treadle.config import agents
from treadle.config.load import load
from treadle.config.schema import AgentConfig
from treadle.errors import ConfigError, UsageError

AGENTS = """
[agents.plan]
type = "exec"
cmd = ["./bin/plan", "./x"]
[agents.do]
use = "night"
[agents.night]
type = "builtin"
run = ["make", "fix"]
"""


@pytest.fixture
def config(write):
    return load(write(AGENTS), {}).config


@pytest.mark.parametrize(
    ("role", "swaps", "name", "type_"),
    [
        ("plan", {}, "plan", "exec"),
        ("do", {}, "night", "builtin"),
        ("check", {}, "builtin", "builtin"),
        ("check", {"check": "plan"}, "plan", "exec"),
        ("act", {"act": "do"}, "night", "builtin"),
        ("plan", {"plan": "builtin"}, "builtin", "builtin"),
    ],
)
def test_role_finds_its_agent(config, role, swaps, name, type_):
    found, agent = agents.resolve(config, role, swaps)
    assert (found, agent.type) == (name, type_)


def test_swap_to_nobody_names_the_nearest(config):
    with pytest.raises(
        ConfigError, match="--agent act=nigth: no such agent; did you mean night"
    ) as it:
        agents.resolve(config, "act", {"act": "nigth"})
    assert it.value.fix == ("treadle config show",)


@pytest.mark.parametrize(
    ("program", "found"),
    [("./bin/a", "/p/bin/a"), ("bin/a", "/p/bin/a"), ("/bin/a", "/bin/a"), ("a", "a")],
)
def test_relative_program_is_the_projects(program, found):
    agent = AgentConfig(type="exec", cmd=(program, "./kept"))
    assert agents.argv(Path("/p"), agent) == (found, "./kept")


def test_swaps_are_read_from_flags():
    assert agents.parse_swaps(["do=night", "act = x"]) == {"do": "night", "act": "x"}


@pytest.mark.parametrize("item", ["do", "do=", "doo=x", "=x"])
def test_senseless_swap_is_refused(item):
    with pytest.raises(UsageError, match="--agent"):
        agents.parse_swaps([item])


def test_role_swapped_twice_is_refused():
    with pytest.raises(UsageError, match="--agent do is given twice"):
        agents.parse_swaps(["do=a", "do=b"])


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?P<input>[\d,]+) in, (?P<output>\d+(?:\.\d+)?k?) out",
        r"(?P<input>\d{1,3}(?:,\d{3})*) tokens|(?P<cost>\$[0-9.]+)",
        r"\((?P<cost>[*+(|]+)\)*",
    ],
)
def test_plain_patterns_are_taken(write, pattern):
    text = f"[agents.do]\ntype = 'command'\ncmd = ['tool']\nusage = '{pattern}'"
    assert load(write(text), {}).config.agents["do"].usage == pattern


@pytest.mark.parametrize("group", ["(?:a|a)*", "(a*)*", "(?:a?){30}a{30}", "(?:(?:a{1,2}))+"])
def test_patterns_that_can_take_for_ever_are_refused(write, group):
    text = f"[agents.do]\ntype = 'command'\ncmd = ['tool']\nusage = '{group}(?P<cost>b)'"
    with pytest.raises(ConfigError, match="repeats a group"):
        load(write(text), {})
