"""The bad night with real tools: every outage passes, a kill too, and nothing is paid for twice."""

import json
import re
import shlex
import threading
import time
from collections import Counter

import pytest

from tests.acceptance.messages import spec
from tests.acceptance.test_bad_night import SCRIBE, USED, VERDICT, desk, kill, tool
from tests.builder import wait_for
from tests.real.model import Fail, Hang, Say, Shell, answer
from tests.real.tools import EVERY, PATIENCE

pytestmark = [pytest.mark.real, pytest.mark.timeout(PATIENCE)]

ROLES = {"plan": "claude", "do": "gemini", "check": "codex"}
NAMES = ("01-a", "02-b", "03-c")
OVERLOADED = Fail(529, "Overloaded", "overloaded_error")
EXPIRED = Fail(401, "Your token has expired, please log in again")


class Night:
    """A service in trouble: overloaded, out of its limit, standing still, a login expired."""

    def __init__(self) -> None:
        self.logged_in = threading.Event()
        self.lasts = {"plan": [OVERLOADED] * 12, "do": [Hang(headers=True)], "check": ["limit"]}
        self.ends: Counter = Counter()

    def __call__(self, turn):
        letter = re.findall(r"made-(\w)", turn.text)[-1]
        if turn.results:
            self.ends[turn.role, letter] += 1
            return Say(answer(f"{turn.role} is done"))
        if turn.role == "plan" and letter != "a" and not self.logged_in.is_set():
            return EXPIRED
        if self.lasts[turn.role]:
            found = self.lasts[turn.role].pop()
            return self._limit() if found == "limit" else found
        return Shell(self._work(turn, letter))

    def _limit(self):
        then = int(time.time()) + 5  # which the tool tells to the minute
        return Fail(429, "You have hit your usage limit", "usage_limit_reached", then)

    def _work(self, turn, letter):
        step, workspace = shlex.quote(turn.step), shlex.quote(turn.workspace)
        verdict = json.dumps(VERDICT)
        return {
            "plan": f"echo '1. make it' > {step}/plan.md",
            "do": f"touch {workspace}/made-{letter}",
            "check": f"cd {step}; echo '{verdict}' > verdict.json; echo PASS > scorecard.md",
        }[turn.role]


def prepare(found):
    """Give each role a tool of its own, and one of the specs a fourth."""
    project = found.project
    found.cast(ROLES, retry_wait=0.2, patience=600, idle_timeout=30)
    tool(project, "scribe", SCRIBE, "529", "ok", work="touch made-c")
    own = f"cmd = ['{project.folder}/bin/scribe']\nusage = '{USED}'\nretry_wait = 0.2\n"
    project.config["mine"] = f"type = 'command'\n{own}writable = ['{project.folder}']"
    project.save()
    for name in NAMES:
        head = "---\nagents:\n  do: mine\n---\n" if name == NAMES[-1] else ""
        check = f"## Acceptance Criteria\n- there: `$ test -f made-{name[-1]}`\n"
        spec(project, f"{name}.spec.md", f"{head}# {name}\n\n{check}")


def test_in_the_morning_everything_has_passed(bench):
    night = Night()
    found = bench(EVERY[0], night)
    project = found.project
    prepare(found)
    first = project.start("serve", "--no-web", env=found.env)
    wait_for(lambda: any("expired" in it["summary"] for it in desk(project)), timeout=PATIENCE / 3)
    kill(first)
    (item,) = (it for it in desk(project) if it["subject"]["kind"] == "agent")
    assert item["subject"]["id"] == "claude", item
    night.logged_in.set()
    second = project.start("serve", "--no-web", env=found.env)
    listed = project.root / "specs" / "processed-spec.md"
    try:
        wait_for(lambda: all(it in listed.read_text() for it in NAMES), timeout=PATIENCE / 3)
    finally:
        second.terminate()
        out = second.communicate(timeout=PATIENCE / 4)
    asked = {("plan", it) for it in "abc"} | {("check", it) for it in "abc"} | {("do", "a")}
    assert night.ends == Counter([*asked, ("do", "b")]), out
    runs = project.treadle("runs", "list", "--json").json["runs"]
    assert [run["status"] for run in runs] == ["passed"] * 3
    assert desk(project) == []
