"""Services that fail, hang or stall, and tools that are killed while they work."""

import os
import shlex
import signal

import pytest

from tests.builder import wait_for
from tests.real.cases import TOOLS
from tests.real.model import Fail, Hang, Shell
from tests.real.tools import EVERY, PATIENCE
from treadle.proc import sweep

pytestmark = [pytest.mark.real, pytest.mark.timeout(PATIENCE)]

STATUSES = {400: "request_refused", 401: "auth_failed", 429: "rate_limit", 500: "server_error"}
# One server passes on the service's words, and no status.
WORDS = {400: "Blocked by us", 401: "Invalid API key", 429: "Rate limit", 500: "Overloaded"}


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("tool", TOOLS)
def test_a_refusal_is_told_apart(bench, tool, status):
    fail = Fail(status, WORDS[status]) if tool == "opencode acp" else Fail(status)
    found = bench(tool, lambda turn: fail)
    run = found.run()
    assert (run["status"], found.error(run["run_id"])) == ("failed", STATUSES[status])
    tries = found.project.event_types(run["run_id"]).count("attempt_failed")
    assert tries == (2 if status in (429, 500) else 0)


def test_a_usage_limit_stops_the_run_until_it_is_over(bench):
    words = "You've hit your session limit · resets 3pm (UTC)"
    found = bench("claude", lambda turn: Fail(429, words))
    run = found.run()
    shown = found.project.show(run["run_id"])
    assert (run["status"], run["code"], shown["reason_code"]) == ("stopped", 4, "usage_limit")
    assert shown["resume_at"]


@pytest.mark.parametrize("headers", [False, True], ids=["before headers", "in mid-stream"])
@pytest.mark.parametrize("tool", TOOLS)
def test_a_service_that_hangs_costs_no_more_than_the_limit(bench, tool, headers):
    expected = "idle_timeout" if headers else "timeout"
    found = bench(tool, lambda turn: Hang(headers))
    # On a busy machine a short limit may end the tool before it gets as far as asking.
    for limit in (6 if tool in EVERY else 20, 60, 200):
        found.configure(**{expected: limit})
        run = found.run()
        assert (run["status"], found.error(run["run_id"])) == ("failed", expected)
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
