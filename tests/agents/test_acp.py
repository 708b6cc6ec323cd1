"""Our client against an agent written with an independent implementation of the protocol."""

import json
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.agents import fake
from tests.agents.test_oneshot import request
from treadle.agents import acp, table
from treadle.agents.table import TOOLS
from treadle.contract.events import StepError
from treadle.proc.keeper import Keeper, Limits
from treadle.sandbox import jails
from treadle.sandbox.policy import Policy

AGENT = Path(__file__).parent / "acp_agent.py"


@pytest.fixture(scope="module")
def keeper():
    with Keeper() as found:
        yield found


def turn(tmp_path, keeper, *words, role="do", **changes):
    cmd = words if words[0] != "scenario" else (sys.executable, AGENT, words[1], tmp_path)
    spec = fake.spec(tmp_path, keeper, "acp", "/usr/bin:/bin", cmd=tuple(map(str, cmd)))
    return acp.run(replace(spec, **changes), request(role), "please", tmp_path / "step")


def kinds(tmp_path):
    lines = (tmp_path / "live" / "events.jsonl").read_text().splitlines()
    return [json.loads(line)["kind"] for line in lines]


def test_a_conversation_ends_with_an_answer_in_spite_of_stray_lines(tmp_path, keeper):
    result = turn(tmp_path, keeper, "scenario", "stray")
    assert (result.error, result.message, result.json_source) == (None, "spoken", "whole")
    used = result.usage
    assert (used.model, used.input_tokens, used.output_tokens) == ("gpt-5", 110, 12)
    assert kinds(tmp_path) == ["session", "tool_start", "text", "done"]


def test_an_answer_that_cannot_be_used_is_asked_for_again(tmp_path, keeper):
    result = turn(tmp_path, keeper, "scenario", "prose")
    assert (result.error, result.message) == (None, "spoken")
    assert result.repaired
    assert (result.usage.input_tokens, result.usage.cached_tokens) == (220, 80)
    assert result.usage.cost_usd == 0.02, "servers tell the session's cost so far"


@pytest.mark.parametrize(("tier", "answer"), [("A", "yes"), ("0", "no")])
def test_permission_is_given_where_the_sandbox_holds(tmp_path, keeper, tier, answer):
    place = Policy(writable=(tmp_path,))
    if tier != "0" and jails.probe().tier == "0":
        pytest.skip("there is no sandbox here")
    held = jails.probe().tier if tier == "A" else "0"
    assert not turn(tmp_path, keeper, "scenario", "permission", tier=held, policy=place).error
    assert (tmp_path / "answer").read_text() == answer
    assert "permission" in kinds(tmp_path)


@pytest.mark.parametrize(("path", "chosen"), [("step/new", "yes"), ("step/../../x", None)])
def test_without_a_sandbox_a_way_out_of_the_step_is_refused(tmp_path, keeper, path, chosen):
    spec = fake.spec(tmp_path, keeper, "acp", "/usr/bin:/bin", cmd=("true",))
    talk = acp._Talk(fake.ask(spec, acp.preset(spec.config)), request("do"), "", tmp_path)
    call = {"kind": "edit", "locations": [{"path": str(tmp_path / path)}]}
    options = [{"optionId": "yes", "kind": "allow_once"}]
    assert talk._decide({"toolCall": call, "options": options}) == chosen
    talk.line.close()


def test_a_stop_is_first_a_polite_cancel(tmp_path, keeper):
    waiting = tmp_path / "waiting"
    result = turn(
        tmp_path,
        keeper,
        *("scenario", "cancel"),
        should_stop=lambda: "stopped by SIGTERM" if waiting.exists() else None,
    )
    assert result.error == StepError.INTERRUPTED
    assert (tmp_path / "cancelled").exists()


def test_a_server_that_costs_too_much_is_ended_in_the_middle(tmp_path, keeper):
    result = turn(
        tmp_path,
        keeper,
        *("scenario", "costly"),
        on_usage=lambda used: "too dear" if used.cost_usd else None,
    )
    assert (result.error, result.usage.cost_usd) == (StepError.BUDGET_EXCEEDED, 0.01)
    assert result.message.endswith("was stopped: too dear")
    assert (tmp_path / "cancelled").exists()


def test_a_server_that_says_nothing_is_ended(tmp_path, keeper):
    limits = Limits(wall=0.5, output_bytes=1 << 20, grace=0.2)
    result = turn(tmp_path, keeper, "sleep", "30", limits=limits)
    assert (result.error, result.may_retry) == (StepError.TIMEOUT, True)


def test_a_server_that_falls_silent_is_ended(tmp_path, keeper):
    limits = Limits(wall=120, idle=0.3, output_bytes=1 << 20, grace=0.2)
    result = turn(tmp_path, keeper, "sh", "-c", "read line; echo '{}'; sleep 30", limits=limits)
    assert result.error == StepError.IDLE_TIMEOUT


def test_a_server_that_breaks_off_is_a_crash(tmp_path, keeper):
    result = turn(tmp_path, keeper, "sh", "-c", "read line; exit 3")
    assert (result.error, result.may_retry) == (StepError.AGENT_EXIT, True)


def test_an_error_of_the_server_is_told_apart(tmp_path, keeper):
    error = '{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Authentication required"}}'
    result = turn(tmp_path, keeper, "sh", "-c", f"read line; echo '{error}'; cat")
    assert result.error == StepError.AUTH_FAILED


@pytest.mark.parametrize(
    ("scenario", "error"),
    [
        ("prose, throttled", "rate_limit"),
        ("unreachable", "network"),
    ],
)
def test_a_failure_of_the_service_is_told_apart(tmp_path, keeper, scenario, error):
    result = turn(tmp_path, keeper, "scenario", scenario)
    assert (result.error, result.may_retry) == (StepError(error), True)


@pytest.mark.parametrize("preset", sorted(acp.PRESETS))
def test_presets_share_state_and_isolation_with_their_tool(tmp_path, keeper, preset):
    spec = fake.spec(tmp_path, keeper, "acp", "/usr/bin", preset=preset)
    tool = TOOLS[preset]
    asked = fake.ask(spec, tool)
    launch = acp.launch(asked)
    assert str(asked.state) in launch.env[tool.state_variable]
    assert launch.cwd == asked.apart


NAMED = """#!/usr/bin/env python3
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    with open("{heard}", "a") as stream:
        stream.write(line)
    named = {"agentCapabilities": {"sessionCapabilities": {"title": {}}}}
    told = {"initialize": named, "session/new": {"sessionId": "s"}}.get(asked["method"], {})
    print(json.dumps({"id": asked["id"], "result": told}), flush=True)
"""


def test_a_session_has_a_name_so_that_no_model_is_asked_for_one(tmp_path, keeper):
    heard = tmp_path / "heard"
    path = fake.program(tmp_path, "claude-agent-acp")
    (tmp_path / "bin" / "claude-agent-acp").write_text(NAMED.replace("{heard}", str(heard)))
    spec = fake.spec(tmp_path, keeper, "acp", path, preset="claude")
    acp.run(spec, request(), "please", tmp_path / "step")
    asked = [json.loads(line) for line in heard.read_text().splitlines()]
    assert [it["method"] for it in asked][1:3] == ["session/new", "session/set_title"]
    assert asked[1]["params"]["_meta"] == {"claudeCode": {"options": {"title": "treadle"}}}


def test_the_adapter_of_codex_reads_nothing_of_the_repository(tmp_path, keeper):
    spec = fake.spec(tmp_path, keeper, "acp", "/usr/bin", preset="codex")
    own = spec.environment | {"CODEX_CONFIG": '{"model": "m", "project_root_markers": ["x"]}'}
    asked = fake.ask(replace(spec, environment=own, tier="A"), TOOLS["codex"])
    env = acp.launch(asked).env
    settings = json.loads(env["CODEX_CONFIG"])
    assert (settings["model"], settings["project_root_markers"]) == ("m", [])
    assert env["INITIAL_AGENT_MODE"] == "agent-full-access"
    assert "CODEX_CONFIG" in table.variables(spec.config, {})
