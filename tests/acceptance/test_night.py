"""Limits of a new project, and limits over all runs of a day."""

import json
import re
import shlex
import sqlite3
import subprocess
import sys
import time
import tomllib
from datetime import UTC, datetime, timedelta

import pytest

from tests.acceptance.messages import routine, spec
from tests.agents import fake
from tests.builder import wait_for
from treadle.ids import utc
from treadle.inbox.schedule import Waiting
from treadle.layout import Layout

GOOD = '{"version": 1, "status": "ok", "summary": "done"}'


@pytest.fixture
def priced(project):
    """A project whose do agent makes done.txt for 20 USD, and whose day has 15."""
    item = {"type": "item.completed", "item": {"type": "agent_message", "text": GOOD}}
    last = {"type": "turn.completed", "usage": {"input_tokens": 10, "output_tokens": 5}}
    said = "\n".join(json.dumps(it) for it in ({"type": "thread.started"}, item, last))
    path = fake.program(project.folder, "codex", f"echo >> done.txt\ncat <<'EOF'\n{said}\nEOF")
    project.env["PATH"] = path
    project.config["do"] = 'type = "codex"\nprices = [1e6, 0, 2e6]'
    project.settings("[night]\nmax_cost_usd = 15\n")
    return project


RUN = ("run", "--goal", "Make done", "--verify", "AC1=test -f done.txt")


def tomorrow(project):
    """Return a zone in which a day begins at this moment; what waits for it is due."""
    before = int(time.time())  # a zone has whole seconds, and steps may have begun in this one
    wait_for(lambda: int(time.time()) > before)
    now = datetime.now(UTC)
    with sqlite3.connect(project.root / ".treadle" / "treadle.db") as store:
        store.execute(
            "UPDATE kv_run SET value_json = ? WHERE key = 'resume_at'", (json.dumps(utc(now)),)
        )
    return {"TZ": f"DAY{now:%H:%M:%S}"}


def said(project, command):
    """Run a command of treadle's exactly as it was printed."""
    return project.treadle(*shlex.split(command)[1:])


def test_init_writes_real_limits(project):
    found = tomllib.loads((project.root / ".treadle" / "config.toml").read_text())
    assert found["budgets"] == {"max_iterations": 5, "max_minutes": 120, "max_cost_usd": 10}
    assert found["night"] == {"max_cost_usd": 50}


def test_a_limit_reached_in_mid_step_stops_the_run_after_it_and_is_raised_as_printed(priced):
    stopped = priced.treadle(*RUN)
    assert stopped.code == 4
    assert "night.max_cost_usd is 15 and 20 were used" in stopped.out
    (command,) = re.findall(r"next: (.*)", stopped.out)
    found = priced.show("last")
    assert (found["status"], found["reason_code"]) == ("stopped", "night_limit")
    assert [step["status"] for step in found["steps"]] == ["skipped", "ok"], "the step is recorded"
    assert found["resume_at"] > datetime.now(UTC).isoformat()
    assert "budget_exceeded" in priced.event_types(found["run_id"])
    (item,) = priced.treadle("desk", "--json").json["items"]
    assert (item["kind"], item["actions"][0]["action"]) == ("budget", "resume")
    assert item["actions"][0]["command"] == command
    assert command.endswith("--budget night.max_cost_usd=30")
    assert said(priced, command).code == 0
    assert priced.show("last")["status"] == "passed"
    assert priced.treadle("desk", "--json").json["items"] == []


def test_on_a_day_that_is_spent_nothing_begins_or_goes_on_and_status_says_so(priced):
    priced.treadle(*RUN)
    for words in (RUN, ("run", "--resume", "last")):
        done = priced.treadle(*words, "--json")
        error = done.json["error"]
        assert (done.code, error["code"]) == (4, "night_limit")
        assert error["fix"] == ["export TREADLE_NIGHT_MAX_COST_USD=30", "treadle status"]
    assert len(priced.treadle("runs", "list", "--json").json["runs"]) == 1
    assert "today: 1 run, $20.00 of $15" in priced.treadle("status").out
    script = f"{error['fix'][0]}; exec {sys.executable} -m treadle {shlex.join(RUN)}"
    again = subprocess.run(
        ["sh", "-c", script], cwd=priced.root, env=priced.environment(), capture_output=True
    )
    assert again.returncode == 4, "it began, and stopped at the raised limit"
    assert len(priced.treadle("runs", "list", "--json").json["runs"]) == 2


def test_a_run_is_resumed_as_printed_after_others_have_used_more_of_the_day(priced):
    for _ in range(2):
        priced.treadle("task", "add", "Make done", "--verify", "AC1=test -f done.txt")
    assert priced.treadle("run", "T-1").code == 4
    assert priced.treadle("run", "T-2", env={"TREADLE_NIGHT_MAX_COST_USD": "30"}).code == 4
    assert "--budget night.max_cost_usd=41\n" in priced.treadle("why", "T-1").out
    answered = priced.treadle("answer", "Q-1", "resume")
    assert answered.code == 0, answered.out + answered.err


@pytest.mark.real
def test_a_pass_stops_at_the_limit_and_goes_on_the_next_day_by_itself(priced):
    text = "# {0}\n\n## Acceptance Criteria\n- there: `$ test $(wc -l < done.txt) -ge {1}`\n"
    for name, count in (("01-a", 1), ("02-b", 2)):
        spec(priced, f"{name}.spec.md", text.format(name, count))
    priced.git("add", "-A")
    priced.git("commit", "-q", "-m", "Specs")
    first = priced.treadle("process", "--json")
    assert first.code == 4
    assert [it["status"] for it in first.json["messages"]] == ["stopped", "spent"]
    assert first.json["messages"][1]["next"] == "TREADLE_NIGHT_MAX_COST_USD=30 treadle process"
    assert priced.treadle("process").code == 4
    assert len(priced.treadle("runs", "list", "--json").json["runs"]) == 1
    next_day = priced.treadle("process", "--json", env=tomorrow(priced))
    assert [it["status"] for it in next_day.json["messages"]] == ["done", "stopped"], next_day
    assert next_day.code == 4
    assert "01-a.spec.md" in (priced.root / "specs" / "processed-spec.md").read_text()


@pytest.mark.real
def test_the_number_of_runs_of_a_day_is_held(project):
    project.settings('[night]\nmax_runs = 2\n[agents.do]\ntype = "builtin"\nrun = ["true"]\n')
    for _ in range(3):
        project.treadle("task", "add", "Something", "--verify", "AC1=true")
    done = project.treadle("run", "--parallel", "3", "--json")
    assert done.code == 4
    assert [it["status"] for it in done.json["runs"]] == ["passed", "passed"]
    assert [it["code"] for it in done.json["refused"]] == ["night_limit"]
    assert "night.max_runs is 2 and 2 were used" in done.json["refused"][0]["message"]
    more = project.treadle("run", "--budget", "night.max_runs=3")
    assert more.code == 0
    assert len(project.treadle("runs", "list", "--json").json["runs"]) == 3


@pytest.mark.real
def test_a_pass_leaves_what_the_limit_kept_from_beginning_as_it_was(project):
    routine(project, "touch", "#!/bin/sh\n# Touch\necho > $message_id\n")
    project.settings('default_routine = "touch"\n[night]\nmax_runs = 1\n')
    for name in ("01-a", "02-b", "03-c"):
        spec(project, f"{name}.spec.md")
    done = project.treadle("process")
    assert done.code == 4
    assert [line.split()[0] for line in done.out.splitlines()] == ["DONE", "SPENT", "next:", "1"]
    queued = project.treadle("status", "--json").json["queued"]
    assert [(it["name"], it["reason"]) for it in queued] == [
        ("02-b.spec.md", "ready"),
        ("03-c.spec.md", "ready"),
    ]
    assert "\n  next: TREADLE_NIGHT_MAX_RUNS=2 treadle process\n" in done.out
    shown = project.treadle("status").out
    assert "next: TREADLE_NIGHT_MAX_RUNS=2 treadle process\n" in shown, shown
    env = {"TREADLE_NIGHT_MAX_RUNS": "9"}
    assert project.treadle("process", env=env).code == 0


@pytest.mark.real
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("night.max_rums=3", "no such budget; did you mean max_runs?"),
        ("night.max_runs=0", "must be a whole number above 0"),
        ("night.max_runs", "write it as"),
    ],
)
def test_a_limit_that_makes_no_sense_is_named(project, words, sentence):
    done = project.treadle(*RUN, "--budget", words, "--json")
    assert done.code == 2
    assert sentence in done.json["error"]["message"]


@pytest.mark.real
def test_serve_makes_a_pass_when_a_day_begins(tmp_path):
    now = [datetime(2026, 1, 1, 12, tzinfo=UTC)]
    waiting = Waiting(Layout(tmp_path), lambda: False, lambda: now[0])
    assert not waiting._is_scheduled()
    now[0] += timedelta(days=1)
    assert waiting._is_scheduled()
    assert not waiting._is_scheduled()
