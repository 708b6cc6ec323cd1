"""Money is a ceiling: usage is counted while a step works, and kept whatever way it ends."""

import json
import sqlite3

import pytest

from tests.agents import fake
from tests.builder import wait_for

ANSWER = {"version": 1, "status": "ok", "summary": "done"}
RUN = ("run", "--goal", "Make done", "--verify", "AC1=test -f done.txt", "--json")


def call(number):
    """Return what claude prints of one call: a thousand tokens in, a hundred out."""
    used = {"input_tokens": 600, "cache_read_input_tokens": 400, "output_tokens": 100}
    said = {"id": f"m{number}", "model": "claude-sonnet-4-5", "usage": used}
    said["content"] = [{"type": "tool_use", "name": "Bash", "input": {}}]
    return {"type": "assistant", "message": said}


def result(calls, **more):
    used = {"input_tokens": 600, "cache_read_input_tokens": 400, "output_tokens": 100}
    return {
        "type": "result",
        "is_error": False,
        "terminal_reason": "completed",
        "usage": {name: count * calls for name, count in used.items()},
        "total_cost_usd": 0.01 * calls,
        "structured_output": ANSWER,
    } | more


@pytest.fixture
def site(project):
    """Return a function that lets shell be the claude of do; a `call N` prints that call."""

    def play(script, extra=""):
        for number in range(1, 10):
            (project.folder / f"call{number}").write_text(json.dumps(call(number)) + "\n")
        path = fake.program(
            project.folder,
            "claude",
            f"call() {{ cat {project.folder}/call$1; }}\ncat > /dev/null\n"
            f"echo called >> {project.folder}/calls\n{script}",
        )
        project.env["PATH"] = path
        words = 'type = "claude"\nretry_wait = 0\npatience = 0\n'
        project.config["do"] = words + extra
        project.settings('sandbox = "off"\n')
        return project

    return play


def used(project, run_id):
    found = project.show(run_id)["usage"]
    return found["input_tokens"], found["cached_tokens"], found["output_tokens"]


def printed(event):
    return f"cat <<'END'\n{json.dumps(event)}\nEND\n"


def finish(project, name="go"):
    """Return shell that waits until the test says so."""
    return f"while [ ! -e {project.folder}/{name} ]; do sleep 0.05; done\n"


def test_tokens_stop_a_step_in_the_middle_and_are_raised_as_printed(site, project):
    touch = f"touch {project.folder}/third\n"
    site(f"call 1\ncall 2\n{finish(project)}{touch}call 3\n{printed(result(3))}")
    stopped = project.treadle(*RUN, "--budget", "max_tokens=2000").json
    assert (stopped["status"], stopped["reason_code"]) == ("stopped", "budget_exceeded")
    assert not (project.folder / "third").exists()
    assert used(project, stopped["run_id"]) == (2000, 800, 200)
    step = project.show(stopped["run_id"])["steps"][-1]
    assert (step["role"], step["error_code"]) == ("do", "budget_exceeded")
    assert "max_tokens is 2000 and 2200 were used" in stopped["reason"]
    (item,) = project.treadle("desk", "--json").json["items"]
    command = f"treadle run --resume {stopped['run_id']} --budget max_tokens=4000"
    assert item["actions"][0]["command"] == command
    site(f"echo > done.txt\n{printed(result(1))}")
    assert project.treadle(*command.split()[1:]).code == 0


def test_money_is_counted_by_the_list_of_prices_until_the_tool_tells_it(site, project):
    site(f"call 1\ncall 2\n{finish(project)}")
    stopped = project.treadle(*RUN, "--budget", "max_cost_usd=0.006").json
    assert stopped["reason_code"] == "budget_exceeded"
    cost = 2 * (600 * 3 + 400 * 0.3 + 100 * 15) / 1e6
    assert project.show(stopped["run_id"])["usage"]["cost_usd"] == pytest.approx(cost)


@pytest.mark.real
def test_the_limit_of_the_day_stops_a_step_in_the_middle(site, project):
    site(f"call 1\ncall 2\n{finish(project)}")
    project.settings('sandbox = "off"\n[night]\nmax_cost_usd = 0.006\n')
    stopped = project.treadle(*RUN).json
    assert (stopped["status"], stopped["reason_code"]) == ("stopped", "night_limit")
    assert project.show(stopped["run_id"])["resume_at"]
    (item,) = project.treadle("desk", "--json").json["items"]
    assert "night.max_cost_usd=" in item["actions"][0]["command"]


@pytest.mark.real
def test_what_a_step_used_is_kept_when_its_time_is_over(site, project):
    site(f"call 1\n{finish(project)}", "timeout = 1\n")
    found = project.treadle(*RUN).json
    assert found["reason_code"] == "timeout"
    assert used(project, found["run_id"]) == (2000, 800, 200), "of two tries"


def test_what_a_step_used_is_kept_when_treadle_is_killed(site, project):
    site(f"call 1\ncall 2\n{finish(project)}echo > done.txt\n{printed(result(2))}")
    working = project.start(*RUN)
    wait_for(lambda: list((project.root / ".treadle" / "runs").glob("*/live/used.json")))
    wait_for(lambda: _counted(project) == 2000)
    working.kill()
    working.communicate()
    project.treadle("run")  # recovers
    assert project.treadle("status", "--json").json["today"]["tokens"] == 2200
    (project.folder / "go").touch()
    resumed = project.treadle("run", "--resume", "last", "--json").json
    assert resumed["status"] == "passed"
    assert used(project, resumed["run_id"]) == (4000, 1600, 400), "the first try counts too"
    assert project.show(resumed["run_id"])["usage"]["spent"]["tokens"] == 4400
    assert project.treadle("status", "--json").json["today"]["tokens"] == 4400
    (own,) = [
        it
        for it in project.treadle("runs", "cost", "--json").json["by_agent"]
        if it["agent"] == "do"
    ]
    assert (own["steps"], own["input_tokens"], own["output_tokens"]) == (1, 4000, 400)


def _counted(project):
    (path,) = (project.root / ".treadle" / "runs").glob("*/live/used.json")
    return json.loads(path.read_text())[2][0][4]


def test_what_each_agent_of_a_step_used_is_its_own(site, project):
    said = {"type": "agent_message", "text": json.dumps(ANSWER)}
    done = {"type": "turn.completed", "usage": {"input_tokens": 10, "output_tokens": 5}}
    events = [{"type": "thread.started"}, {"type": "item.completed", "item": said}, done]
    fake.program(
        project.folder,
        "codex",
        f"cat > /dev/null\necho > done.txt\n{''.join(map(printed, events))}",
    )
    project.config["spare"] = 'type = "codex"\nmodel = "gpt-5"\n'
    site("call 1\necho 'You have hit your usage limit' >&2\nexit 1\n", 'fallback = ["spare"]\n')
    found = project.treadle(*RUN).json
    assert found["status"] == "passed"
    assert used(project, found["run_id"]) == (1010, 400, 105)
    rows = project.treadle("runs", "cost", "--json").json["by_agent"]
    told = {it["agent"]: (it["steps"], it["input_tokens"], it["output_tokens"]) for it in rows}
    assert (told["do"], told["spare"]) == ((0, 1000, 100), (1, 10, 5))
    assert project.treadle("status", "--json").json["today"]["tokens"] == 1115


def test_a_tool_is_told_the_limit_and_its_own_stop_is_a_budget_stop(site, project):
    words = f'echo "$@" > {project.folder}/words\n'
    over = result(1, is_error=True, subtype="error_max_budget_usd", result=None)
    site(f"{words}{printed(over)}exit 1\n")
    found = project.treadle(*RUN, "--budget", "max_cost_usd=0.5").json
    assert (found["status"], found["reason_code"]) == ("stopped", "budget_exceeded")
    assert "--max-budget-usd 0.500000" in (project.folder / "words").read_text()
    assert (project.folder / "calls").read_text().split() == ["called"], "it is not asked again"


@pytest.mark.real
def test_where_no_cost_can_be_known_a_run_says_so_at_its_start(project):
    project.env["PATH"] = fake.program(project.folder, "codex", "exit 1\n")
    project.config["do"] = 'type = "codex"\nmodel = "gpt-99"\nretry_wait = 0\n'
    project.settings("[budgets]\nmax_cost_usd = 1\n")
    done = project.treadle(*RUN[:-1])
    text = "max_cost_usd cannot hold for agent do: codex reports no cost, and no price is known for"
    assert f"note: {text} gpt-99 (list of 20" in done.err
    assert "); set agents.do.prices" in done.err
    assert project.event("last", "cost_unknown")["data"] == {"agent": "do"}
    for known in ('model = "gpt-5-codex"', "prices = [1, 0, 1]"):
        project.config["do"] = f'type = "codex"\nretry_wait = 0\n{known}\n'
        project.save()
        project.treadle(*RUN[:-1])
        assert "cost_unknown" not in project.event_types("last")


@pytest.mark.real
def test_a_cost_that_is_told_late_or_not_at_all_is_never_zero(project):
    project.settings("[budgets]\nmax_cost_usd = 1\nmax_tokens = 99\n")
    answer = json.dumps(ANSWER).replace('"', '\\"')
    usage = "usage = '(?P<cost>x)'\n"
    project.config["do"] = f'type = "command"\ncmd = ["echo", "{answer}"]\n{usage}'
    project.save()
    text = "max_tokens cannot hold for agent do: echo reports no tokens; set agents.do.usage"
    assert f"note: {text}" in project.treadle(*RUN[:-1]).err
    project.config["do"] += "prices = [1, 1, 1]\n"
    project.config["do"] = project.config["do"].replace("<cost>", "<input>")
    project.save()
    text = "max_cost_usd and max_tokens can be exceeded by a step of agent do, which says"
    told = project.treadle(*RUN[:-1]).err
    assert f"note: {text} what it has used only after" in told
    text = "max_cost_usd and max_tokens cannot hold for agent do: it did not tell what it has used"
    assert f"note: {text}; correct agents.do.usage" in told
    recorded = (fake.RECORDED / "opencode.jsonl").read_text().replace("0.001", "0")
    (project.folder / "told").write_text(recorded)
    script = f"cat > /dev/null; cat {project.folder / 'told'}; touch done.txt\n"
    project.env["PATH"] = fake.program(project.folder, "opencode", script)
    project.config["do"] = 'type = "opencode"\nmodel = "t/free"\n'
    project.save()
    text = "agent do told no cost of 2100 tokens of t/free; unless they are free, set agents.do."
    assert f"note: {text}prices" in project.treadle(*RUN[:-1]).err
    assert project.event("last", "cost_unknown")["data"] == {"agent": "do"}


@pytest.mark.parametrize("told", [{}, {"input_tokens": -5, "output_tokens": 1e30}])
def test_a_tool_that_tells_nothing_of_its_use_or_something_absurd_is_named(site, project, told):
    site(f"echo > done.txt\n{printed(result(1, usage=told, total_cost_usd=-1))}")
    err = project.treadle(*RUN[:-1], "--budget", "max_tokens=99").err
    text = "max_tokens cannot hold for agent do: it did not tell what it has used"
    assert f"note: {text}; its version may not be the tested one" in err
    assert project.event("last", "cost_unknown")["data"] == {"agent": "do"}


@pytest.mark.real
def test_a_kill_between_two_steps_counts_nothing_twice(site, project):
    site(f"call 1\n{finish(project)}echo > done.txt\n{printed(result(1))}")
    working = project.start(*RUN, env={"TREADLE_DIE_AT": "after_transaction:2"})
    wait_for(lambda: list((project.root / ".treadle" / "runs").glob("*/live/used.json")))
    (project.folder / "go").touch()
    working.communicate(timeout=60)
    assert working.returncode == -9
    assert project.treadle("run", "--resume", "last", "--json").json["status"] == "passed"
    with sqlite3.connect(project.root / ".treadle" / "treadle.db") as store:
        assert store.execute("SELECT sum(input_tokens) FROM usage").fetchall() == [(1000,)]
