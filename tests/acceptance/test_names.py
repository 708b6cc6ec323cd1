"""Name a run in a few characters, and read lists, times and outputs as a person does."""

import re
import sqlite3
import subprocess

import pytest

from tests.acceptance.messages import routine, spec
from tests.acceptance.site import Site

PRINTS = "echo to-stdout; echo to-stderr >&2; echo > done.txt"


@pytest.fixture
def site(project):
    return Site(project)


@pytest.fixture
def ran(site):
    """Return the id of a run that passed, in a project with no other."""
    return site.passed(PRINTS)


def copies(project, run_id, *ids):
    """Add runs like this one."""
    with sqlite3.connect(project.root / ".treadle" / "treadle.db") as store:
        names = [row[1] for row in store.execute("PRAGMA table_info(runs)")]
        kept = ", ".join(name for name in names if name != "run_id")
        for new in ids:
            store.execute(
                f"INSERT INTO runs (run_id, {kept}) SELECT ?, {kept} FROM runs WHERE run_id = ?",
                (new, run_id),
            )


@pytest.mark.real
def test_a_beginning_an_end_and_last_name_a_run(project, ran):
    for word in (ran, ran[:10], ran[-6:], ran[-4:], "last"):
        for command in (["why"], ["runs", "show"], ["runs", "events"], ["report"]):
            assert project.treadle(*command, word, "--json").code == 0, (command, word)
        assert project.treadle("runs", "show", word, "--json").json["run_id"] == ran
    assert project.treadle("land", ran[-6:], "--json").json["run_id"] == ran
    assert project.treadle("undo", "last", "--json").json["run_id"] == ran


def test_last_is_the_newest_run(project, ran, site):
    newer = site.passed(goal="Another")
    assert project.show("last")["run_id"] == newer


def test_a_task_and_a_spec_name_their_newest_run(project, ran):
    project.treadle("task", "add", "A task", "--id", "AUTH-1", "--verify", "AC1=test -f done.txt")
    none = project.treadle("why", "AUTH-1", "--json").json["error"]
    assert (none["message"], none["fix"]) == ("task AUTH-1 has no run yet", ["treadle run AUTH-1"])
    run_id = project.treadle("run", "AUTH-1", "--json").json["run_id"]
    assert project.show("AUTH-1")["run_id"] == run_id
    routine(project, "touch", "#!/bin/sh\n# Touch\necho > touched\n")
    spec(project, "03-x.spec.md", "---\nroutine: touch\n---\n# X\n")
    assert project.treadle("process").code == 0
    made = project.show("last")
    for word in ("03-x", "03-x.spec.md", "specs/03-x.spec.md"):
        assert project.show(word)["run_id"] == made["run_id"] != run_id
    assert project.treadle("runs", "prune", "--history", "--older-than", "0").code == 0
    none = project.treadle("undo", "03-x", "--json").json["error"]
    assert none["message"] == "spec 03-x.spec.md has no run any more"
    assert "Treadle-Run" in subprocess.check_output(
        none["fix"][0], cwd=project.root, shell=True, text=True
    )


@pytest.mark.real
def test_what_could_mean_several_runs_names_five_of_them_with_goal_and_age(project, ran):
    copies(project, ran, *(f"20300101-00000{n}-abcdef" for n in range(7)))
    done = project.treadle("why", "abcdef", "--json")
    error = done.json["error"]
    assert (done.code, error["code"]) == (1, "run_ambiguous")
    assert error["candidates"] == [f"20300101-00000{n}-abcdef" for n in (6, 5, 4, 3, 2)]
    lines = error["message"].splitlines()
    assert len(lines) == 7
    assert re.fullmatch(r"20300101-000006-abcdef  \d+[smhd]  Make done", lines[1])
    assert lines[-1] == "and more"


@pytest.mark.real
@pytest.mark.parametrize("word", ["nobody", "%", "______", "zzzzzz", ""])
def test_a_name_that_nothing_has_is_told_with_a_command(project, ran, word):
    done = project.treadle("runs", "show", word, "--json")
    assert (done.code, done.json["error"]["fix"]) == (1, ["treadle runs list"])


@pytest.mark.real
def test_the_list_shows_short_ends_age_cost_and_what_landed(project, ran):
    heads, line = project.treadle("runs", "list").out.splitlines()[:2]
    assert heads.split() == [
        *("run", "age", "status", "verdict", "iteration", "USD", "landed", "task", "goal")
    ]
    assert re.match(rf"{ran[-6:]}  \d+[sm] +passed +PASS +1 +not yet +Make done", line)
    landed = project.treadle("land", ran, "--json").json["landed"]
    assert landed[:9] in project.treadle("runs", "list").out
    (row,) = project.treadle("runs", "list", "--json").json["runs"]
    assert (row["run_id"], row["landed"], row["cost_usd"]) == (ran, landed, 0)
    project.treadle("undo", ran)
    assert " undone " in project.treadle("runs", "list").out


@pytest.mark.real
def test_a_list_that_is_cut_says_so_and_all_shows_all(project, ran):
    copies(project, ran, *(f"20300101-000000-{n:06x}" for n in range(59)))
    cut = project.treadle("runs", "list").out.splitlines()
    assert (len(cut), cut[-1]) == (52, "50 of 60 runs; see all of them with --all")
    assert len(project.treadle("runs", "list", "--all").out.splitlines()) == 61
    assert len(project.treadle("runs", "list", "--all", "--json").json["runs"]) == 60
    assert (
        project.treadle("runs", "list", "--limit", "2").out.splitlines()[-1].startswith("2 of 60")
    )


@pytest.mark.real
def test_people_read_local_times_with_their_zone_and_programs_utc(project, ran):
    zone = {"TZ": "EST5"}
    stamp = project.events(ran)[0]["ts"]
    assert stamp.endswith("Z")
    hour = (int(stamp[11:13]) - 5) % 24
    assert project.treadle("log", ran, env=zone).out.startswith(f"{hour:02d}{stamp[13:19]} EST ")
    table = project.treadle("runs", "events", ran, env=zone).out.splitlines()
    assert f" {hour:02d}{stamp[13:19]} EST " in table[1]


@pytest.mark.real
def test_a_steps_output_is_printed_with_the_commands_of_its_checks(project, ran):
    shown = project.treadle("log", ran, "--output", "2").out
    assert "002-do/logs/stdout.txt\nto-stdout\n" in shown
    assert "002-do/logs/stderr.txt\nto-stderr\n" in shown
    told = project.treadle("log", ran, "--output", "2", "--json").json
    assert (told["run_id"], told["step"]) == (ran, 2)
    assert "to-stdout\n" in told["output"].values()
    failed = project.treadle(
        "run", "--goal", "x", "--verify", "AC1=echo seen; false", "--budget", "max_iterations=1"
    )
    assert failed.code == 4
    assert "\nseen\n" in project.treadle("log", "last", "--output").out
    none = project.treadle("log", ran, "--output", "9", "--json").json["error"]
    assert "has no step 9; it has 3 steps" in none["message"]


@pytest.mark.real
def test_runs_show_says_where_a_claim_was_refuted(project):
    project.agent("plan", "ok()")
    project.agent("do", "ok()")
    project.agent("act", "ok()")
    project.agent("check", 'verdict("PASS", AC1=True); ok()')
    run_id = project.run_json("--verify", "AC1=false", "--budget", "max_iterations=1")["run_id"]
    shown = project.treadle("runs", "show", run_id).out
    assert re.search(r"AC1 +yes +no \(refuted\)", shown)
    assert "ok (refuted: AC1)" in shown
    assert project.show(run_id)["steps"][2]["refuted"] == ["AC1"]


@pytest.mark.real
def test_parallel_progress_lines_name_their_task(project):
    project.settings('[agents.do]\ntype = "builtin"\nrun = ["touch", "ONE-1", "TWO-2"]\n')
    for name in ("ONE-1", "TWO-2"):
        project.treadle("task", "add", name, "--id", name, "--verify", f"AC1=test -f {name}")
    lines = project.treadle("run", "--parallel", "2").err.splitlines()
    steps = [line for line in lines if re.search(r"criteria \d/\d", line) and "ended" not in line]
    assert len(steps) == 6
    assert {line.split()[0] for line in steps} == {"ONE-1", "TWO-2"}
