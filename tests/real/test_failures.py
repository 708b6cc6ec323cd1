"""Services that fail, hang or stall, and tools that are killed while they work."""

import os
import re
import shlex
import signal
from collections.abc import Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import NamedTuple

import pytest

from tests.builder import wait_for
from tests.real.cases import SERVERS, TOOLS, VERSIONS, in_turn
from tests.real.model import KEY, Fail, Hang, Say, Shell, answer
from tests.real.tools import NEWEST, PATIENCE, settings
from treadle.proc import sweep

pytestmark = [pytest.mark.real, pytest.mark.timeout(PATIENCE)]

STATUSES = {400: "request_refused", 401: "auth_failed", 429: "rate_limit", 500: "server_error"}
# One server passes on the service's words, and no status.
WORDS = {400: "Blocked by us", 401: "Invalid API key", 429: "Rate limit", 500: "Overloaded"}


class Row(NamedTuple):
    """A trouble, what becomes of the run, and what the user is told to do."""

    error: str
    reply: Fail | Hang | None
    advice: str
    status: str = "stopped"
    limits: Mapping[str, float] = MappingProxyType({})


RESETS = "You've hit your usage limit · resets 3pm (UTC)"
ROWS = {
    "rate limit": Row(
        "rate_limit",
        Fail(429, "Rate limit reached for x on tokens per min. Please try again in 1s."),
        "try later or raise agents.plan.retry_wait",
    ),
    "usage limit": Row("usage_limit", Fail(429, RESETS, "usage_limit_reached"), "limit is reached"),
    "500": Row("server_error", Fail(500), "try later"),
    "529": Row("server_error", Fail(529, "Overloaded", "overloaded_error"), "try later"),
    "expired login": Row("auth_failed", Fail(401, "token expired"), "log in with"),
    "network": Row("network", None, "check the network and proxy settings"),
    "timeout": Row("timeout", Hang(), "raise agents.plan.timeout", limits={"timeout": 6}),
    "stall": Row(
        "idle_timeout", Hang(True), "raise agents.plan.idle_timeout", limits={"idle_timeout": 5}
    ),
    "model": Row(
        "model_unknown",
        Fail(404, "The model `scripted` does not exist", "not_found_error"),
        "set agents.plan.model",
        "failed",
    ),
    "context": Row(
        "context_too_long",
        Fail(400, "prompt is too long: 210000 tokens > 200000 maximum"),
        "split the task",
        "failed",
    ),
    "refused": Row("request_refused", Fail(400), "see what it says", "failed"),
    "safety": Row(
        "safety_block",
        Fail(400, "Your request was flagged as violating our usage policy."),
        "word the task differently",
        "failed",
    ),
    "missing key": Row(
        "auth_failed", Fail(401, "Missing API key"), "put its API key in the environment"
    ),
    "unknown option": Row("tool_mismatch", None, "newer or older than the tested one"),
}


OTHERWISE = {
    ("opencode", "context"): "it makes the conversation shorter by itself and goes on",
    ("opencode", "missing key"): "its key stands beside its service, and neither is there then",
}


@pytest.mark.parametrize(("tool", "row"), in_turn(VERSIONS, ROWS, "codex"))
def test_a_trouble_has_its_name_and_its_advice_and_that_helps(bench, tool, row):
    if why := OTHERWISE.get((tool.removeprefix(NEWEST), row)):
        pytest.skip(why)
    error, reply, advice, status, limits = ROWS[row]
    found = bench(tool, lambda turn: reply, patience=0, **limits)  # each start of a tool takes long
    with trouble(found, row):
        run = found.run()
    assert (run["status"], found.error(run["run_id"])) == (status, error)
    why = found.project.treadle("why", run["run_id"]).out
    assert advice in why
    found.model.script = lambda turn: Say(answer("asked again", status="fail"))
    found.configure()
    again = follow(found, re.findall(r"next: (.*)", why)[0])
    if row == "unknown option":  # an agent with another command line is another agent
        again = follow(found, again["error"]["fix"][0])
    assert again.get("reason_code") == "agent_failed", again
    assert "asked again" in found.project.treadle("why", run["run_id"]).out


def follow(found, command):
    """Do what was printed, to the letter."""
    words = shlex.split(command.removeprefix("treadle "))
    return found.project.treadle(*words, "--json", env=found.env, timeout=PATIENCE).json


@contextmanager
def trouble(found, row):
    """Bring about what is no answer of the service."""
    if row == "network":
        with found.model.unreachable():
            yield
        return
    whole = found.env
    if row == "missing key":
        found.env = {name: it for name, it in whole.items() if KEY not in it}
    if row == "unknown option":
        given = settings(found.tool, found.model.url).get("extra_args", [])
        found.configure(extra_args=[*given, "--no-such-option"])
    yield
    found.env = whole


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("tool", SERVERS)
def test_a_refusal_is_told_apart_by_servers(bench, tool, status):
    fail = Fail(status, WORDS[status]) if tool == "opencode acp" else Fail(status)
    found = bench(tool, lambda turn: fail)
    run = found.run()
    ended = "failed" if status == 400 else "stopped"  # the others may pass by
    assert (run["status"], found.error(run["run_id"])) == (ended, STATUSES[status])
    tries = found.project.event_types(run["run_id"]).count("attempt_failed")
    assert bool(tries) == (status != 400)


@pytest.mark.parametrize("headers", [False, True], ids=["before headers", "in mid-stream"])
@pytest.mark.parametrize("tool", SERVERS)
def test_a_service_that_hangs_costs_no_more_than_the_limit(bench, tool, headers):
    expected = "idle_timeout" if headers else "timeout"
    found = bench(tool, lambda turn: Hang(headers))
    # On a busy machine a short limit may end the tool before it gets as far as asking.
    for limit in (20, 60, 200):
        found.configure(**{expected: limit})
        run = found.run()
        assert (run["status"], found.error(run["run_id"])) == ("stopped", expected)
        if found.model.turns:
            return
    pytest.fail("it never got as far as asking")


@pytest.mark.parametrize("tool", TOOLS)
def test_nothing_survives_a_stop_while_a_tool_sleeps(bench, tool, tmp_path):
    pid_file = "sleeper.pid"
    nap = "import os,time; open('{}','w').write(str(os.getpid())); time.sleep(300)"

    def script(turn):
        path = f"{turn.step}/{pid_file}"
        return Shell(f"setsid python3 -c {shlex.quote(nap.format(path))}")

    found = bench(tool, script)
    process = found.project.start("run", "--goal", "g", "--ac", "AC1: x", env=found.env)
    runs = found.project.root / ".treadle" / "runs"
    wait_for(lambda: list(runs.glob(f"*/steps/*/{pid_file}")), timeout=PATIENCE / 2)
    (folder,) = runs.iterdir()
    mark = sweep.mark(folder)
    assert sweep.stragglers(mark)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE / 4)
    assert process.returncode == 143
    assert sweep.stragglers(mark) == []
    assert not any(pid_file in line and str(runs) in line for line in _commands())


def _commands():
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as stream:
                yield stream.read().decode(errors="replace")
        except OSError:
            continue
