"""`treadle status`: one screen that tells how everything stands."""

import re
import signal
import subprocess
import sys

import pytest

from tests.acceptance.messages import routine, spec
from tests.acceptance.site import Site
from tests.acceptance.test_names import copies
from tests.builder import wait_for


@pytest.fixture
def site(project):
    return Site(project)


def shown(project, **kwargs):
    done = project.treadle("status", **kwargs)
    assert (done.code, done.err) == (0, "")
    return done.out


def document(project):
    return project.treadle("status", "--json").json


def test_a_new_project_has_nothing_to_show_but_what_to_do(project):
    lines = shown(project).splitlines()
    assert lines[0] == "nothing is running, waiting or queued"
    assert lines[1] == "    next: treadle task add --help"
    assert lines[2].startswith("last night: no run ended since ")
    assert lines[3] == "today: 0 runs, $0.00 of $50"
    assert project.treadle(*lines[1].split()[2:]).code == 0


def test_the_bare_command_shows_it_in_a_project_and_the_commands_elsewhere(project, tmp_path):
    project.treadle("task", "add", "Make it", "--verify", "AC1=true")
    assert project.treadle().out == shown(project)
    assert project.treadle("--json").json == document(project)
    inside = project.root / "deep" / "down"
    inside.mkdir(parents=True)
    assert "task T-1" in project.treadle(cwd=inside).out
    assert project.treadle("--help").out.startswith("usage: treadle COMMAND")
    outside = project.treadle(cwd=tmp_path)
    assert (outside.code, outside.out) == (0, project.treadle("--help").out)
    assert "commands" in project.treadle("--json", cwd=tmp_path).json


def test_what_runs_is_shown_with_its_role_its_time_and_what_it_spent(project):
    project.good_agents()
    go = project.folder / "go"
    project.agent("do", f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\nok()")
    project.treadle("task", "add", "Make done.txt", "--ac", "it is there")
    process = project.start("run", "T-1", "--budget", "max_cost_usd=3")
    wait_for(lambda: (found := document(project)["running"]) and found[0]["role"] == "do")
    (run,) = document(project)["running"]
    assert (run["name"], run["iteration"], run["is_abandoned"]) == ("T-1", 1, False)
    assert run["budgets"]["max_cost_usd"] == 3
    end = run["run_id"][-6:]
    assert re.search(
        rf"^running\n  {end}  do 1/5  for \d+s  \$0.00 of \$3  T-1: Make done.txt"
        rf"\n    next: treadle log -f {end}$",
        shown(project),
        re.MULTILINE,
    )
    process.kill()
    process.communicate()
    wait_for(lambda: document(project)["running"][0]["is_abandoned"])
    assert re.search(
        rf"its process is gone  T-1: .*\n    next: treadle run --resume {end}\n", shown(project)
    )
    go.touch()
    assert project.treadle("run", "--resume", end).code == 0
    assert document(project)["running"] == []


def test_what_waits_for_you_is_shown_with_a_command_that_answers(project):
    project.settings('[agents.do]\ntype = "builtin"\nrun = ["true"]\n')
    failing = ("run", "--goal", "Never", "--verify", "AC1=false", "--budget", "max_iterations=1")
    assert project.treadle(*failing).code == 4
    assert document(project)["waiting"] == project.treadle("desk", "--json").json["items"]
    lines = shown(project).splitlines()
    at = lines.index("waiting for you")
    assert re.fullmatch(r"  Q-1  \d+s  Never: max_iterations is 1 and 1 was used", lines[at + 1])
    assert lines[at + 2].startswith("    next: treadle answer Q-1 ")
    command = lines[at + 2].split()[1:]
    assert project.treadle(*command[1:]).code in (0, 4)


@pytest.mark.real
def test_what_is_queued_is_shown_with_what_it_waits_for(project):
    project.treadle("task", "add", "First", "--verify", "AC1=true")
    project.treadle("task", "add", "Second", "--verify", "AC1=true", "--depends-on", "T-1")
    spec(project, "01-a.spec.md")
    project.treadle("send", "Do something")
    out = shown(project)
    assert "\n  spec 01-a.spec.md  ready\n" in out
    assert re.search(r"\n  message \S+\.md  ready\n", out)
    assert "\n  task T-1  ready\n" in out
    assert "\n  task T-2  waits for T-1 (planned)\n" in out
    assert "\n    next: treadle process\n    next: treadle run\n" in out
    kinds = [item["kind"] for item in document(project)["queued"]]
    assert kinds == ["spec", "message", "task", "task"]


@pytest.mark.real
def test_a_spec_that_is_stuck_says_why(project):
    routine(project, "bad", "#!/bin/sh\n# Bad\nexit 1\n")
    project.settings("max_retries = 1\n")
    spec(project, "01-a.spec.md", "---\nroutine: bad\n---\n# A\n")
    assert project.treadle("process").code == 1
    found = document(project)
    assert found["queued"] == found["stuck"] == [], "the dead letter is on the desk"
    assert [item["kind"] for item in found["waiting"]] == ["dead_letter"]
    project.treadle("answer", found["waiting"][0]["item_id"], "leave")
    (entry,) = document(project)["stuck"]
    assert (entry["name"], entry["next"]) == ("01-a.spec.md", "treadle spec retry 01-a.spec.md")
    assert "routine bad failed" in entry["reason"]
    assert "    next: treadle spec retry 01-a.spec.md\n" in shown(project)


@pytest.mark.real
def test_a_run_that_was_interrupted_is_shown_with_the_command_that_goes_on(project):
    project.good_agents()
    go = project.folder / "go"
    project.agent("do", f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\nok()")
    process = project.start("run", "--goal", "Make done.txt", "--ac", "it is there")
    wait_for(lambda: (found := document(project)["running"]) and found[0]["role"] == "do")
    process.send_signal(signal.SIGINT)
    process.communicate()
    (entry,) = document(project)["stuck"]
    assert entry["kind"] == "run"
    assert re.fullmatch("Make done.txt: .*stopped by SIGINT", entry["reason"])
    go.touch()
    assert project.treadle(*entry["next"].split()[1:]).code == 0
    assert document(project)["stuck"] == []


@pytest.mark.real
def test_a_spec_that_was_undone_waits_for_you(project):
    routine(project, "touch", "#!/bin/sh\n# Touch\necho > touched\n")
    spec(project, "01-a.spec.md", "---\nroutine: touch\n---\n# A\n")
    assert project.treadle("process").code == 0
    assert document(project)["queued"] == document(project)["stuck"] == []
    assert project.treadle("undo", "01-a").code == 0
    found = document(project)
    assert found["queued"] == []
    assert found["waiting"] or found["stuck"]


@pytest.mark.real
def test_what_passed_and_has_not_landed_is_shown_until_it_lands(project, site):
    run_id = site.passed(goal="Make done")
    (item,) = document(project)["unlanded"]
    assert (item["run_id"], item["goal"]) == (run_id, "Make done")
    assert re.search(
        rf"^passed, not landed\n  Make done, \d+s ago\n    next: treadle land {run_id[-6:]}$",
        shown(project),
        re.MULTILINE,
    )
    assert project.treadle("desk", "--json").json["unlanded"] == [item]
    assert f"passed, not landed: Make done\n    {item['next']}\n" in project.treadle("desk").out
    assert project.treadle(*item["next"].split()[1:]).code == 0
    assert document(project)["unlanded"] == []
    assert project.treadle("desk", "--json").json["unlanded"] == []


@pytest.mark.real
def test_an_end_that_two_runs_share_is_never_proposed(project, site):
    run_id = site.passed()
    copies(project, run_id, f"20300101-000000-{run_id[-6:]}")
    named = {item["next"] for item in document(project)["unlanded"]}
    assert named == {f"treadle land {run_id}", f"treadle land 20300101-000000-{run_id[-6:]}"}


@pytest.mark.real
def test_the_night_and_the_day_are_summed_up(project, site):
    run_id = site.passed()
    project.treadle("land", run_id)
    project.treadle(
        "run", "--goal", "Never", "--verify", "AC1=false", "--budget", "max_iterations=1"
    )
    project.settings("[night]\nmax_runs = 9\nmax_cost_usd = 7\n")
    found = document(project)
    assert [found["last_night"][word] for word in ("passed", "stopped", "landed")] == [1, 1, 1]
    assert (found["today"]["runs"], found["today"]["max_runs"]) == (2, 9)
    out = shown(project, env={"TZ": "EST5"})
    assert re.search(
        r"last night: 1 passed, 1 stopped, 1 landed, \$0\.00 \(since \w+ 18:00 EST\)", out
    )
    assert "today: 2 runs of 9, $0.00 of $7" in out


@pytest.mark.real
def test_the_room_that_workspaces_take_is_shown(project, site):
    site.passed()
    found = document(project)["disk"]
    assert (found["workspaces"], found["is_more"]) == (1, False)
    assert found["bytes"] > 0
    assert re.search(r"^disk: 1 workspace, 0\.\d MB; ", shown(project), re.M)
    assert project.treadle("runs", "prune").code == 0
    assert document(project)["disk"]["workspaces"] == 0


@pytest.mark.real
def test_a_long_part_is_cut_and_says_where_the_rest_is(project):
    for number in range(12):
        project.treadle("task", "add", f"Task {number}", "--verify", "AC1=true")
    lines = shown(project).splitlines()
    assert "  and 5 more" in lines
    assert len(lines) < 20


@pytest.mark.real
def test_looking_changes_nothing(project, site):
    site.passed()

    def files():
        found = (project.root / ".treadle").rglob("*")
        kept = [path for path in found if path.is_file() and ".db-" not in path.name]
        return {path: path.read_bytes() for path in kept}

    before = files()
    shown(project)
    assert files() == before


@pytest.mark.real
def test_it_drives_nothing(project):
    script = (
        "import sys; from treadle.cli import main; main.main(['status']);"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=project.root, capture_output=True, text=True
    )
    heavy = {"treadle.engine.wheel.loop", "treadle.engine.session", "treadle.engine.landing.land"}
    assert done.stderr.split()
    assert not heavy & set(done.stderr.split())


@pytest.mark.real
def test_undone_work_of_a_task_waits_to_be_landed_again(project):
    project.agent("do", '(repo / "done.txt").write_text("done"); ok()', edits=True)
    project.treadle("task", "add", "Make it", "--verify", "AC1=test -f done.txt")
    project.treadle("run")
    project.treadle("land", "last")
    project.treadle("undo", "last")
    (item,) = project.treadle("status", "--json").json["unlanded"]
    assert (item["name"], item["reason"]) == ("T-1", "it was undone")
    assert item in project.treadle("desk", "--json").json["unlanded"]
    assert project.treadle(*item["next"].split()[1:]).code == 0
    assert project.treadle("status", "--json").json["unlanded"] == []


def test_a_store_that_is_gone_is_not_taken_for_an_empty_one(project, site):
    run_id = site.passed()
    (project.root / ".treadle" / "treadle.db").unlink()
    error = project.treadle("status", "--json").json["error"]
    assert (error["code"], error["fix"]) == ("store_damaged", ["treadle doctor --repair"])
    assert "NOT  store" in project.treadle("doctor").out
    assert "ok   store" in project.treadle("doctor", "--repair").out
    assert run_id[-6:] in shown(project)
