"""How any tool is driven by its settings alone."""

import json

import pytest

from tests.contracts.test_backends import turn
from treadle.agents import backend
from treadle.agents.backend import Usage
from treadle.config.schema import AgentConfig
from treadle.contract.events import StepError
from treadle.proc.keeper import Keeper

OK = '{"version": 1, "status": "ok", "summary": "done"}'


@pytest.fixture(scope="module")
def keeper():
    with Keeper() as found:
        yield found


@pytest.fixture
def place(tmp_path):
    for name in ("step", "live", "workspace"):
        (tmp_path / name).mkdir()
    return tmp_path


def tool(script: str, *arguments: str, **keys) -> AgentConfig:
    return AgentConfig(type="command", cmd=("sh", "-c", script, "tool", *arguments), **keys)


@pytest.mark.parametrize(
    ("way", "words", "script"),
    [
        ("stdin", (), "cat > ../got"),
        ("file", ("--prompt={prompt_file}",), 'cat "${1#--prompt=}" > ../got; cat > ../stdin'),
        ("argument", ("{prompt}",), 'printf %s "$1" > ../got'),
    ],
)
def test_the_prompt_comes_as_configured(keeper, place, way, words, script):
    config = tool(f"{script}; echo '{OK}'", *words, prompt=way)
    result = turn(keeper, place, config, prompt="Mind {step}\nand {model}")
    assert result.error is None, result.message
    assert (place / "got").read_text() == "Mind {step}\nand {model}"


def test_a_model_that_refuses_is_told_as_such(keeper, place):
    said = "I'm sorry, but I can't help with that."
    result = turn(keeper, place, tool(f'cat > /dev/null; echo "{said}"'))
    assert result.error == StepError.REQUEST_REFUSED
    assert f'the model refused: "{said}"; word the task differently' in result.message


def test_words_on_the_wrong_stream_are_shown(keeper, place):
    result = turn(keeper, place, tool("cat > /dev/null; echo 'which file?' >&2"))
    assert "the last message is empty; see logs/stderr.txt; it said: which file?" in result.message


def test_places_are_filled_and_other_braces_stay(keeper, place):
    script = f"printf '%s\\n' \"$@\" > ../got; echo '{OK}'"
    config = tool(script, "-s={step}", "{workspace}", "{model}", "{ print }", model="m1")
    assert turn(keeper, place, config).error is None
    found = (place / "got").read_text().splitlines()
    assert found == [f"-s={place}/step", f"{place}/workspace", "m1", "{ print }"]


def test_a_prompt_too_long_for_an_argument_says_where_the_rest_is(keeper, place):
    config = tool(f"printf %s \"$1\" > ../got; echo '{OK}'", "{prompt}", prompt="argument")
    assert turn(keeper, place, config, prompt="ä" * 100_000).error is None
    got = (place / "got").read_text()
    assert len(got.encode()) < 128 << 10
    assert got.endswith(f"[cut here; the whole text is in {place}/live/prompt.md]")


@pytest.mark.parametrize(
    ("way", "script", "source"),
    [
        ("text", f"echo thinking; echo '{OK}'; echo bye", "scan"),
        ("text", f"echo '{OK}' > ../step/output.json", "file"),
        ("file", f"echo '{OK}' > ../step/output.json; echo '{{\"version\": 2}}'", "file"),
        ("file", f"echo '{OK}'", "whole"),
    ],
)
def test_the_answer_is_found_where_it_is(keeper, place, way, script, source):
    result = turn(keeper, place, tool(script, answer=way))
    assert (result.error, result.json_source) == (None, source)


def test_a_bad_answer_is_asked_for_once_more_with_the_whole_prompt(keeper, place):
    script = f"cat > got; if grep -q 'could not be used' got; then echo '{OK}'; else echo hm; fi"
    result = turn(keeper, place, tool(script, usage="(?P<cost>hm|ok)"), prompt="The whole prompt")
    assert result.error is None
    assert "is not JSON: Expecting value: line 1 column 1" in result.repaired
    assert (place / "workspace" / "got").read_text().startswith("The whole prompt\n")
    assert (place / "live" / "attempts" / "1" / "stdout.txt").read_text() == "hm\n"


def test_a_second_bad_answer_is_the_end(keeper, place):
    script = "echo '[]' > ../step/output.json; echo x >> ../calls"
    result = turn(keeper, place, tool(script, answer="file"))
    assert result.error == StepError.PROTOCOL_ERROR
    assert "output.json" in result.message
    assert (place / "calls").read_text() == "x\nx\n"


def tokens(given, cached, made):
    return Usage(input_tokens=given, cached_tokens=cached, output_tokens=made)


PATTERN = r"Tokens: (?P<input>[\d.,]+k?) sent(, (?P<cached>\d+) cached)?, (?P<output>\d+) received"


@pytest.mark.parametrize(
    ("said", "pattern", "used"),
    [
        ("Tokens: 2.3k sent, 7 cached, 12 received", PATTERN, tokens(2300, 7, 12)),
        ("Tokens: 1,000 sent, 1 received\nTokens: 5 sent, 2 received", PATTERN, tokens(1005, 0, 3)),
        ("Cost: $0.05 session", r"Cost: (?P<cost>\$[0-9.]+) session", Usage(cost_usd=0.05)),
        ("Cost: 5e-05 USD", r"Cost: (?P<cost>\S+)", Usage(cost_usd=5e-05)),
        ("Cost: 1e400 USD", r"Cost: (?P<cost>\S+)", Usage()),
        ("Cost: " + "9" * 400, r"Cost: (?P<cost>[0-9.]+)", Usage()),
        ("nothing", PATTERN, None),
    ],
)
def test_usage_is_read_by_the_pattern(keeper, place, said, pattern, used):
    script = f"echo '{OK}'; printf '%s\\n' {json.dumps(said)} >&2".replace("$0", "\\$0")
    assert turn(keeper, place, tool(script, usage=pattern)).usage == used


def test_usage_counts_also_when_the_tool_fails_and_prices_make_the_cost(keeper, place):
    config = tool("echo 'used 1M'; exit 3", usage="used (?P<input>.*)", prices=(2.0, 0.0, 0.0))
    result = turn(keeper, place, config)
    assert result.error == StepError.AGENT_EXIT
    assert result.usage == Usage(input_tokens=1_000_000, cost_usd=2.0)


def test_a_slow_pattern_on_a_hostile_line_ends(keeper, place):
    script = f"head -c 300000 /dev/zero | tr '\\0' a; echo; echo '{OK}'"
    config = tool(script, usage="a*a*(?P<cost>b)")
    assert turn(keeper, place, config).error is None


def test_a_failure_is_named_by_the_tools_own_words(keeper, place):
    result = turn(keeper, place, tool("echo 'Error: 429 Too Many Requests' >&2; exit 1"))
    assert (result.error, result.may_retry) == (StepError.RATE_LIMIT, True)
    assert "429 Too Many Requests" in result.message


def test_an_unknown_option_is_the_users_to_mend_and_no_version_is_spoken_of(keeper, place):
    result = turn(keeper, place, tool("echo \"error: unknown option '--x'\" >&2; exit 2"))
    assert result.error == "tool_mismatch"
    assert result.message.endswith(
        "; it does not know what it is started with; correct agents.do.cmd"
    )


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({}, "sh reports no cost; set agents.do.usage to a pattern that finds it"),
        ({"usage": "(?P<input>[0-9]+)"}, "sh reports no cost, and no price is known for a model"),
        ({"usage": "(?P<input>[0-9]+)", "prices": (1.0, 0.0, 1.0)}, None),
        ({"usage": "(?P<cost>[0-9.]+)"}, None),
    ],
)
def test_without_a_pattern_for_its_cost_money_cannot_hold(keys, why):
    found = backend.costs_unknown(None, "do", tool("true", **keys))
    assert found is None if why is None else (found or "").startswith(why)


def test_without_a_pattern_for_its_tokens_they_cannot_hold_either():
    why = backend.tokens_unknown(None, "do", tool("true", usage="(?P<cost>[0-9.]+)"))
    assert why == "sh reports no tokens; set agents.do.usage to a pattern that finds them"
    assert backend.tokens_unknown(None, "do", tool("true", usage="(?P<input>[0-9.]+)")) is None
