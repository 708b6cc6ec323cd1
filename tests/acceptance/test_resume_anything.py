"""Any run that has not passed goes on from its last good step, by the command it proposes."""

import os
import shlex

import pytest

from tests.agents import fake
from tests.builder import ADD_DONE

COUNTED = 'open(repo.parent / "calls", "a").write(role + "\\n")\n'
GOOD_CHECK = 'done = (repo / "done.txt").exists()\nverdict("PASS" if done else "FAIL", AC1=done)\n'


def roles(project, run_id):
    return [step["role"] for step in project.show(run_id)["steps"]]


def take(project, command):
    """Type what treadle proposes."""
    assert "…" not in command
    words = shlex.split(command)
    assert words[0] == "treadle"
    return project.treadle(*words[1:], "--json")


FAILURES = {
    "a missing verdict": ("check", "ok()", "protocol_error", ["plan", "do", "check", "check"]),
    "an answer that is none": ("do", "print('what?')", "protocol_error", ["plan", "do", "do"]),
    "a non-zero exit": ("plan", "sys.exit(7)", "agent_exit", ["plan", "plan"]),
    "a timeout": ("do", "time.sleep(600)", "timeout", ["plan", "do", "do"]),
    "a patch that is refused": (
        "act",
        f'write("patch.diff", {ADD_DONE.replace("done.txt", ".git/x")!r}); ok()',
        "patch_refused",
        ["plan", "do", "check", "act", "act"],
    ),
}


@pytest.mark.real
@pytest.mark.parametrize("name", FAILURES)
def test_a_failed_run_goes_on_with_the_role_that_failed(project, name):
    role, code, reason, expected = FAILURES[name]
    project.good_agents()
    good = (project.folder / f"{role}.py").read_text()
    project.agent(role, code, **({"timeout": 1} if reason == "timeout" else {}))
    first = project.run_json()
    assert (first["code"], first["status"], first["reason_code"]) == (1, "failed", reason)
    before = project.show(first["run_id"])["usage"]["spent"]
    command = project.treadle("why", first["run_id"], "--json").json["next"][0]
    assert command == f"treadle run --resume {first['run_id']}"
    (project.folder / f"{role}.py").write_text(good)
    again = take(project, command)
    assert (again.code, again.json["status"]) == (0, "passed")
    assert again.json["run_id"] == first["run_id"]
    assert roles(project, first["run_id"])[: len(expected)] == expected
    assert "run_resumed" in project.event_types(first["run_id"])
    assert project.show(first["run_id"])["usage"]["spent"]["minutes"] > before["minutes"]
    assert project.treadle("desk", "--json").json["items"] == []


def test_what_was_done_is_not_asked_for_again(project):
    project.good_agents()
    project.settings('[sandbox]\nmode = "off"\n')
    for role in ("plan", "do"):
        path = project.folder / f"{role}.py"
        path.write_text(
            path.read_text()
            + f"\nopen({str(project.folder)!r} + '/calls', 'a').write(role + '\\n')\n"
        )
    good = (project.folder / "check.py").read_text()
    project.agent("check", "sys.exit(1)")
    run_id = project.run_json("--budget", "max_iterations=1")["run_id"]
    (project.folder / "check.py").write_text(good)
    project.treadle("run", "--resume", run_id)
    assert (project.folder / "calls").read_text().split() == ["plan", "do"]


def test_a_setup_that_failed_is_run_again(project):
    project.good_agents()
    project.settings('[workspace]\nsetup = ["test", "-f", "ready"]\n')
    first = project.run_json()
    assert (first["status"], first["reason_code"]) == ("failed", "setup_failed")
    project.settings('[workspace]\nsetup = ["true"]\n')
    command = project.treadle("why", first["run_id"], "--json").json["next"][0]
    assert take(project, command).json["status"] == "passed"


def test_spent_budgets_stay_spent(project):
    project.good_agents()
    project.agent("check", 'verdict("FAIL", AC1=False); ok()')
    run_id = project.run_json("--budget", "max_iterations=1")["run_id"]
    before = project.show(run_id)["steps"]
    for more in ((), ("--budget", "max_iterations=1"), ()):
        again = project.treadle("run", "--resume", run_id, *more, "--json")
        assert (again.code, again.json["reason_code"]) == (4, "budget_exceeded")
        assert project.show(run_id)["steps"] == before
    (command,) = project.treadle("why", run_id, "--json").json["next"]
    assert command.endswith("--budget max_iterations=2")
    assert take(project, command).json["iteration"] == 2


TROUBLES = {
    "network": ("echo 'error: getaddrinfo ENOTFOUND api.example' >&2; exit 1", "network"),
    "auth": ("echo '401 Unauthorized: invalid api key' >&2; exit 1", "auth_failed"),
    "crash": ("kill -9 $$", "agent_exit"),
    "timeout": ("sleep 600", "timeout"),
}


@pytest.mark.real
@pytest.mark.parametrize("name", TROUBLES)
def test_what_befalls_a_tool_stops_the_run_and_fails_nothing(project, name):
    script, reason = TROUBLES[name]
    project.good_agents()
    limit = "timeout = 1" if reason == "timeout" else ""
    project.config["plan"] = f'type = "codex"\nretry_wait = 0.01\npatience = 0.1\n{limit}'
    project.save()
    path = fake.program(project.folder, "codex", f"cat > /dev/null\n{script}\n")
    env = {"PATH": f"{path}:{os.environ['PATH']}"}
    project.treadle("task", "add", "Make done.txt", "--ac", "done.txt is there")
    found = project.treadle("run", "T-1", "--json", env=env).json
    assert (found["status"], found["reason_code"]) == ("stopped", reason)
    assert project.treadle("task", "show", "T-1", "--json").json["lane"] == "in_progress"
    (item,) = project.treadle("desk", "--json").json["items"]
    # A tool that says nothing until its limit is down; one that crashes may only dislike this task.
    usual = ["resume", "again", "leave"] if name == "crash" else ["retry", "leave"]
    assert [action["action"] for action in item["actions"]] == usual


@pytest.mark.real
def test_a_task_whose_run_failed_is_not_stuck(project):
    project.good_agents()
    project.agent("plan", "sys.exit(1)")
    project.treadle("task", "add", "Make done.txt", "--ac", "done.txt is there")
    run_id = project.treadle("run", "T-1", "--json").json["run_id"]
    assert project.treadle("task", "show", "T-1", "--json").json["lane"] == "blocked"
    project.good_agents()
    assert project.treadle("run", "--resume", run_id).code == 0
    assert project.treadle("task", "show", "T-1", "--json").json["lane"] in ("approved", "done")


@pytest.mark.real
def test_a_run_of_a_goal_is_begun_anew_with_what_it_was_asked(project):
    project.good_agents()
    project.agent("plan", "sys.exit(1)")
    first = project.run_json("--verify", "AC1=test -f done.txt")
    _, again = project.treadle("why", first["run_id"], "--json").json["next"]
    assert again == f"treadle run --again {first['run_id']}"
    project.good_agents()
    found = take(project, again)
    assert (found.code, found.json["status"]) == (0, "passed")
    assert found.json["run_id"] != first["run_id"]
    asked = [
        (it["id"], it["text"], it["verify"]) for it in project.show(first["run_id"])["criteria"]
    ]
    now = project.show(found.json["run_id"])["criteria"]
    assert [(it["id"], it["text"], it["verify"]) for it in now] == asked
    assert project.treadle("desk", "--json").json["items"] == []


@pytest.mark.real
def test_a_task_is_begun_anew_and_the_first_run_asks_no_more(project):
    project.good_agents()
    project.agent("plan", "sys.exit(1)")
    project.treadle("task", "add", "Make done.txt", "--ac", "done.txt is there")
    run_id = project.treadle("run", "T-1", "--json").json["run_id"]
    _, again = project.treadle("why", run_id, "--json").json["next"]
    assert again == "treadle run T-1"
    assert take(project, again).code == 1
    (item,) = project.treadle("desk", "--json").json["items"]
    assert item["run_id"] != run_id
    refused = project.treadle("run", "--again", run_id, "--json")
    assert (refused.code, refused.json["error"]["fix"]) == (3, ["treadle run T-1"])


@pytest.mark.real
def test_a_failed_run_of_a_task_that_is_done_says_so_and_stays_stopped(project):
    project.good_agents()
    project.agent("plan", "sys.exit(1)")
    project.treadle("task", "add", "Make done.txt", "--ac", "done.txt is there")
    run_id = project.treadle("run", "T-1", "--json").json["run_id"]
    project.treadle("task", "move", "T-1", "--to", "canceled")
    refused = project.treadle("run", "--resume", run_id, "--json")
    assert refused.code == 3
    assert project.show(run_id)["status"] == "stopped"


@pytest.mark.real
def test_a_branch_that_was_moved_is_put_back_and_goes_on(project):
    project.good_agents()
    stopped = project.run_json("--budget", "max_iterations=1")
    project.git("commit", "-q", "--allow-empty", "-m", "other")
    project.git("branch", "-f", stopped["branch"], "HEAD")
    lost = project.treadle("run", "--resume", stopped["run_id"], "--json").json
    assert (lost["status"], lost["reason_code"]) == ("failed", "branch_moved")
    mend, resume = project.treadle("why", stopped["run_id"], "--json").json["next"]
    project.git(*shlex.split(mend)[1:])
    again = project.treadle(*shlex.split(resume)[1:], "--budget", "max_iterations=3", "--json")
    assert again.json["status"] == "passed"


@pytest.mark.real
def test_an_agent_that_is_gone_names_todays(project):
    project.good_agents()
    run_id = project.run_json("--budget", "max_iterations=1")["run_id"]
    project.agent("act", f'write("patch.diff", {ADD_DONE!r}); ok()', timeout=99, edits=False)
    project.command("act", ["sh", "-c", "exit 1"])
    refused = project.treadle("run", "--resume", run_id, "--json").json["error"]
    assert refused["fix"][0] == f"treadle run --resume {run_id} --agent act=act"
    project.good_agents()
    assert (
        take(project, refused["fix"][0] + " --budget max_iterations=3").json["status"] == "passed"
    )
