"""Budgets, stopping, signals, and going on afterwards."""

import json
import os
import time

import pytest

from tests.builder import SIGNALS, alive, wait_for
from treadle.layout import Layout
from treadle.store.store import Reader
from treadle.tasks import questions

SLEEPY = (
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    (step / 'child.pid').write_text(str(os.getpid())); time.sleep(600)\n"
    "(step / 'agent.pid').write_text(str(os.getpid())); time.sleep(600)"
)


@pytest.fixture
def unconfined(monkeypatch):
    """Let agents see real process ids, and reach what a sandbox would keep from them."""
    monkeypatch.setenv("TREADLE_SANDBOX", "off")


def _pids(project):
    """Return the pids of a sleeping agent and its daemon, once both have said them."""
    found = list((project.root / ".treadle" / "runs").glob("*/steps/*.tmp-*/*.pid"))
    texts = [path.read_text() for path in found]
    return [int(text) for text in texts] if len(found) == 2 and all(texts) else None


def test_max_iterations_stops_without_an_act(project):
    project.good_agents()
    project.agent("check", 'verdict("FAIL", AC1=False); ok()')
    result = project.run_json("--budget", "max_iterations=1")
    assert (result["code"], result["status"], result["verdict"]) == (4, "stopped", "FAIL")
    assert result["steps"] == 3
    event = project.event(result["run_id"], "budget_exceeded")
    assert event["data"]["key"] == "max_iterations"


def test_resume_with_a_raised_budget_goes_on(project):
    project.good_agents()
    first = project.run_json("--budget", "max_iterations=1")
    second = project.treadle(
        "run", "--resume", first["run_id"], "--budget", "max_iterations=3", "--json"
    )
    assert (second.code, second.json["status"]) == (0, "passed")
    assert second.json["run_id"] == first["run_id"]
    roles = [step["role"] for step in project.show(first["run_id"])["steps"]]
    assert roles == ["plan", "do", "check", "act", "plan", "do", "check"]
    assert "budget_raised" in project.event_types(first["run_id"])


@pytest.mark.parametrize(
    ("budget", "value"), [("max_patch_kb", "0.001"), ("max_changed_files", "1")]
)
def test_a_patch_over_budget_is_not_applied(project, budget, value):
    project.good_agents()
    text = (project.folder / "act.py").read_text()
    two = text + (
        "\np = step / 'patch.diff'\n"
        "p.write_text(p.read_text() + p.read_text().replace('done.txt', 'more.txt'))\n"
    )
    (project.folder / "act.py").write_text(two)
    result = project.run_json("--budget", f"{budget}={value}")
    assert (result["code"], result["status"]) == (4, "stopped")
    assert project.event(result["run_id"], "budget_exceeded")["data"]["key"] == budget
    assert project.git("rev-parse", result["branch"]).strip() == result["base_commit"]
    assert project.show(result["run_id"])["steps"][-1]["status"] == "fail"


def _questions(project):
    """Return kind, summary, fix and answer of everything a human was asked."""
    with Reader.open(Layout(project.root)) as store:
        rows = store.questions(open_only=False)
    return [(row.kind, row.summary, list(questions.commands(row)), row.answer) for row in rows]


def _risky(project):
    """Let act bring a workflow; the criterion is that it is there."""
    project.good_agents()
    for role in ("act", "check"):
        path = project.folder / f"{role}.py"
        path.write_text(path.read_text().replace("done.txt", ".github/workflows/x.yml"))


def test_a_risky_patch_waits_for_approval(project):
    _risky(project)
    result = project.run_json()
    run_id = result["run_id"]
    assert (result["code"], result["reason_code"]) == (4, "budget_exceeded")
    assert project.event(run_id, "budget_exceeded")["data"] == {
        "key": "max_risky_files",
        "limit": 0,
        "used": 1,
    }
    ((kind, summary, fix, answer),) = _questions(project)
    assert (kind, answer) == ("approval", None)
    assert ".github/workflows/x.yml (config)" in summary
    assert fix[0].startswith("git diff ")
    go_on = f"treadle run --resume {run_id}"
    assert fix[1:] == [f"{go_on} --approve change", f"{go_on} --reject"]
    assert project.git("rev-parse", result["branch"]).strip() == result["base_commit"]


def test_approving_settles_the_question_and_takes_the_change(project):
    _risky(project)
    project.run_json()
    ((_, _, (_, command, _), _),) = _questions(project)
    again = project.treadle(*command.split()[1:], "--json")
    assert again.json["status"] == "passed"
    ((*_, answer),) = _questions(project)
    assert answer == "approved"
    files = project.git("ls-tree", "-r", "--name-only", again.json["branch"])
    assert ".github/workflows/x.yml" in files


def test_risky_edits_wait_too_and_are_kept(project):
    code = '(repo / ".envrc").write_text("export X=1\\n"); ok()'
    project.agent("do", code, edits=True)
    result = project.run_json("--verify", "AC1=test -f .envrc")
    assert (result["code"], result["reason_code"]) == (4, "budget_exceeded")
    ((kind, *_),) = _questions(project)
    assert kind == "approval"
    kept = project.step_dir(result["run_id"], "002-do") / "files" / "workspace.diff"
    assert "+export X=1" in kept.read_text()


def test_a_spent_budget_says_what_is_needed_to_go_on(project):
    project.good_agents()
    run_id = project.run_json("--budget", "max_iterations=1")["run_id"]
    ((kind, _, (command,), _),) = _questions(project)
    assert kind == "budget"
    assert command == f"treadle run --resume {run_id} --budget max_iterations=2"
    assert project.treadle(*command.split()[1:]).code == 0


def test_max_minutes_counts_over_a_resume(project):
    project.good_agents()
    project.agent("plan", "time.sleep(600)")
    result = project.run_json("--budget", "max_minutes=0.02")
    assert (result["code"], result["reason_code"]) == (4, "budget_exceeded")
    again = project.treadle("run", "--resume", result["run_id"], "--json")
    assert (again.code, again.json["reason_code"]) == (4, "budget_exceeded")
    assert again.json["steps"] == 1


def test_max_output_mb_stops_the_run(project):
    project.good_agents()
    project.agent("plan", "while True: sys.stderr.write('x' * 65536)")
    result = project.run_json("--budget", "max_output_mb=2")
    assert (result["code"], result["reason_code"]) == (4, "budget_exceeded")
    log = project.step_dir(result["run_id"], "001-plan") / "logs/stderr.txt"
    assert log.stat().st_size <= 2 << 20


@pytest.mark.real
@pytest.mark.usefixtures("unconfined")
@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal_ends_the_process_tree_and_records_the_step(project, name):
    number, code = SIGNALS[name]
    project.good_agents()
    good = (project.folder / "do.py").read_text()
    project.agent("do", SLEEPY)
    process = project.start("run", "--goal", "Make done.txt", "--ac", "it is there", "--json")
    pids = wait_for(lambda: _pids(project))
    process.send_signal(number)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == code
    assert not any(alive(pid) for pid in pids)
    result = json.loads(out)
    assert (result["status"], result["reason_code"]) == ("stopped", "interrupted")
    assert project.show(result["run_id"])["steps"][-1]["error_code"] == "interrupted"
    (project.folder / "do.py").write_text(good)
    again = project.treadle("run", "--resume", result["run_id"], "--json")
    assert again.json["status"] == "passed"
    roles = [step["role"] for step in project.show(result["run_id"])["steps"]]
    assert roles[:4] == ["plan", "do", "do", "check"]


@pytest.mark.real
@pytest.mark.usefixtures("unconfined")
def test_killing_the_orchestrator_leaves_no_agent_alive(project):
    project.good_agents()
    good = (project.folder / "do.py").read_text()
    project.agent("do", SLEEPY)
    process = project.start("run", "--goal", "Make done.txt", "--ac", "it is there")
    pids = wait_for(lambda: _pids(project))
    process.kill()
    process.communicate()
    wait_for(lambda: not any(alive(pid) for pid in pids))
    (project.folder / "do.py").write_text(good)
    run_id = project.only_run()["run_id"]
    resume = f"treadle run --resume {run_id}"
    assert resume in project.treadle("log", "-f", run_id).err
    assert project.treadle("why", run_id, "--json").json["next"] == [resume]
    assert project.treadle("stop", run_id, "--json").json["error"]["code"] == "not_running"
    again = project.treadle("run", "--resume", run_id, "--json")
    assert (again.code, again.json["status"]) == (0, "passed")
    assert "run_interrupted" in project.event_types(run_id)
    assert not list(project.run_dir(run_id).glob("steps/*.tmp-*"))


@pytest.mark.real
@pytest.mark.usefixtures("unconfined")
def test_stop_from_another_terminal(project):
    project.good_agents()
    project.agent("do", SLEEPY)
    process = project.start("run", "--goal", "Make done.txt", "--ac", "it is there", "--json")
    pids = wait_for(lambda: _pids(project))
    run_id = project.only_run()["run_id"]
    assert project.treadle("stop", run_id, "--reason", "lunch", "--json").json["stop_requested"]
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 143
    assert json.loads(out)["status"] == "stopped"
    assert json.loads(out)["reason"].endswith("was stopped: lunch")
    assert not any(alive(pid) for pid in pids)
    again = project.treadle("stop", run_id, "--json")
    assert (again.code, again.json["error"]["code"]) == (3, "not_running")


@pytest.mark.real
def test_a_second_orchestrator_is_refused_and_told_who_works(project):
    project.good_agents()
    project.agent("do", SLEEPY)
    process = project.start("run", "--goal", "Make done.txt", "--ac", "it is there")
    wait_for(lambda: _pids(project))
    refused = project.run("--json")
    assert refused.code == 75
    assert refused.json["error"]["holder"]["pid"] == process.pid
    assert project.treadle("runs", "list", "--json").json["runs"][0]["status"] == "running"
    process.terminate()
    process.communicate(timeout=120)


@pytest.mark.real
def test_wait_waits_for_the_other_orchestrator(project):
    project.good_agents()
    project.agent("do", SLEEPY)
    first = project.start("run", "--goal", "Make done.txt", "--ac", "it is there")
    wait_for(lambda: _pids(project))
    project.good_agents()
    second = project.start(
        "run", "--goal", "Make done.txt", "--ac", "it is there", "--wait", "--json"
    )
    time.sleep(0.5)
    first.terminate()
    first.communicate(timeout=120)
    out, _ = second.communicate(timeout=120)
    assert json.loads(out)["status"] == "passed"


@pytest.mark.real
def test_log_follows_until_the_run_ends(project):
    project.good_agents()
    project.agent("do", "time.sleep(1); ok()")
    process = project.start("run", "--goal", "Make done.txt", "--ac", "it is there")
    wait_for(lambda: (project.root / ".treadle/treadle.db").exists())
    run_id = wait_for(lambda: project.treadle("runs", "list", "--json").json["runs"])[0]["run_id"]
    followed = project.treadle("log", "-f", run_id, "--json")
    process.communicate(timeout=120)
    types = [json.loads(line)["type"] for line in followed.out.splitlines()]
    assert (types[0], types[-1]) == ("run_started", "run_passed")
    assert types == project.event_types(run_id)


@pytest.mark.real
@pytest.mark.usefixtures("unconfined")
def test_interrupted_edits_are_kept_and_undone(project):
    project.good_agents()
    good = (project.folder / "do.py").read_text()
    project.agent("do", "(repo / 'README.md').write_text('half')\n" + SLEEPY)
    process = project.start("run", "--goal", "Make done.txt", "--ac", "it is there")
    wait_for(lambda: _pids(project))
    process.kill()
    process.communicate()
    (project.folder / "do.py").write_text(good)
    run_id = project.only_run()["run_id"]
    assert project.treadle("run", "--resume", run_id).code == 0
    assert "half" in (project.run_dir(run_id) / "interrupted" / "002.diff").read_text()


@pytest.mark.real
def test_what_cannot_be_resumed_says_why(project):
    project.good_agents()
    passed = project.run_json()["run_id"]
    answer = project.treadle("run", "--resume", passed, "--json")
    assert (answer.code, answer.json["error"]["code"]) == (3, "not_resumable")
    missing = project.treadle("run", "--resume", "20200101-000000-aaaaaa", "--json")
    assert (missing.code, missing.json["error"]["code"]) == (1, "not_found")


@pytest.mark.real
@pytest.mark.usefixtures("unconfined")
def test_a_branch_moved_by_someone_else_fails_the_run(project):
    project.good_agents()
    act = (project.folder / "act.py").read_text()
    move = f"['git', '-C', {str(project.root)!r}, 'branch', '-f', request['run_id'], 'HEAD~1']"
    move = move.replace("request['run_id']", "'treadle/' + request['run_id']")
    (project.folder / "act.py").write_text(f"{act}\nimport subprocess\nsubprocess.run({move})\n")
    result = project.run_json()
    assert (result["status"], result["reason_code"]) == ("failed", "branch_moved")


@pytest.mark.real
def test_environment_is_an_allow_list(project):
    project.good_agents()
    project.agent("plan", 'write("env.json", json.dumps(dict(os.environ))); ok()')
    os.environ["MY_SECRET_TOKEN"] = "hush"
    try:
        run_id = project.run_json()["run_id"]
    finally:
        del os.environ["MY_SECRET_TOKEN"]
    env = json.loads((project.step_dir(run_id, "001-plan") / "env.json").read_text())
    assert "MY_SECRET_TOKEN" not in env
    assert env["TREADLE_RUN"] == run_id
    assert int(env["TREADLE_PORT_BASE"]) >= 1024
