"""What is booked is what the server itself has counted, whatever way a step ended."""

import json
import os
import signal

import pytest

from tests.builder import wait_for
from tests.real.cases import ONE_SHOT, cases, in_turn
from tests.real.conftest import good
from tests.real.model import Fail, Hang, Say, Shell, answer
from tests.real.tools import PATIENCE, PRESETS, environment, settings
from treadle.layout import USED
from treadle.store.runs import UsageRow

pytestmark = [pytest.mark.real, pytest.mark.timeout(PATIENCE)]

TOOLS = cases(*ONE_SHOT)
# They tell of a call when its commands have ended.
UNTOLD = {"opencode": (1000, 50), "opencode acp": (1000, 50)}
EXPIRED = Fail(401, "Your token has expired, please log in again")
NAP = "python3 -c 'import time; time.sleep(300)'"


def then(reply, calls=2):
    """Let the model work for two calls of the first step, and then go this way."""
    return lambda turn: Shell("true") if turn.results < calls else reply


def booked(found):
    used = found.project.show("last")["usage"]
    return used["input_tokens"], used["output_tokens"]


def known(found):
    """Return what can be known of a tool that was ended while a command of its last call ran."""
    (given, made), untold = found.model.counted, UNTOLD.get(found.tool, (0, 0))
    return given - untold[0], made - untold[1]


def noted(path):
    """Return what a step has used by now, as a kill would leave it."""
    rows = [UsageRow(*it) for it in json.loads(path.read_text())[2]] if path.exists() else []
    return (rows[0].input_tokens, rows[0].output_tokens) if rows else None


ENDS = {
    "refused": ("request_refused", then(Fail(400, "Blocked by us")), {}),
    "outage": ("server_error", then(Fail(500, "Overloaded")), {}),
    "timeout": ("timeout", then(Hang()), {"timeout": 8}),
    "stall": ("idle_timeout", then(Hang(headers=True)), {"idle_timeout": 6}),
    "expired login": ("auth_failed", then(EXPIRED), {}),
}


@pytest.mark.parametrize(("tool", "end"), in_turn(ONE_SHOT, ENDS))
def test_after_a_step_that_failed_in_the_middle(bench, tool, end):
    error, script, changes = ENDS[end]
    found = bench(tool, script)
    for times in (1, 4, 20):  # on a busy machine a short limit ends it before it has asked
        found.configure(**{key: limit * times for key, limit in changes.items()})
        run = found.run()
        assert found.error(run["run_id"]) == error
        if found.model.sent:
            break
    tries = found.project.event_types(run["run_id"]).count("attempt_failed") + 1
    assert end != "timeout" or tries == 2, "what has worked is paid for again"
    assert found.model.sent
    assert booked(found) == found.model.counted


@pytest.mark.parametrize("tool", cases(*ONE_SHOT, *PRESETS))
def test_after_a_limit_ended_the_step(bench, tool):
    # The second call passes the limit. What it took is told while its command takes its nap; of
    # those who tell it later, while the third one waits for an answer that nobody counts.
    late = tool in UNTOLD
    found = bench(tool, then(Hang(), calls=2) if late else then(Shell(NAP), calls=1))
    run = found.run("--budget", "max_tokens=2000")
    assert (run["status"], found.error(run["run_id"])) == ("stopped", "budget_exceeded")
    assert booked(found) == found.model.counted
    assert len(found.model.turns) <= 2 + late, "to be ended is no reason to ask the model again"


@pytest.mark.parametrize("tool", TOOLS)
def test_after_a_kill_and_a_resume(bench, tool):
    found = bench(tool, then(Shell(NAP)))
    process = found.project.start("run", "--goal", "Make done.txt", "--ac", "x", env=found.env)
    wait_for(lambda: len(found.model.sent) > 2, timeout=PATIENCE / 4)
    run_id = found.project.only_run()["run_id"]
    path = found.project.run_dir(run_id) / "live" / USED
    wait_for(lambda: noted(path) == known(found))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    found.model.script = lambda turn: Say(answer("I cannot", status="fail"))
    words = ("run", "--resume", run_id, "--json")
    done = found.project.treadle(*words, env=found.env, timeout=PATIENCE)
    assert done.json["reason_code"] == "agent_failed"
    assert booked(found) == known(found)


@pytest.mark.parametrize("tool", TOOLS)
def test_after_another_tool_took_the_role(bench, tool):
    expired = then(EXPIRED)
    other = "codex" if tool == "claude" else "claude"

    def script(turn):
        is_spare = turn.protocol == ("responses" if other == "codex" else "messages")
        return good(turn) if is_spare else expired(turn)

    found = bench(tool, script, fallback=["spare"])
    keys = settings(other, found.model.url).items()
    found.project.config["spare"] = "\n".join(f"{key} = {json.dumps(it)}" for key, it in keys)
    found.project.config |= dict.fromkeys(("do", "check", "act"), found.project.config["spare"])
    found.project.save()
    found.env |= {**environment(other, found.model.url), "PATH": found.env["PATH"]}
    run = found.run()
    assert run["status"] == "passed", found.project.treadle("why", run["run_id"]).out
    assert "agent_replaced" in found.project.event_types(run["run_id"])
    assert booked(found) == found.model.counted
