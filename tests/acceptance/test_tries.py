"""Several agents on one task: side by side, compared, one of them landed."""

import json
import os

import pytest

from tests.agents import fake
from tests.builder import wait_for
from tests.web.conftest import Worked

TRY = ("--try", "idle", "--try", "long", "--try", "short")


@pytest.fixture
def several(project):
    """Have agents of which one is good, one is good and wordy, one does nothing."""
    for name, code in {
        "short": '(repo / "done.txt").write_text("done\\n"); ok()',
        "long": '(repo / "done.txt").write_text("done\\n" * 9); ok()',
        "idle": "ok()",
    }.items():
        project.agent(name, code, edits=True)
    project.settings("[budgets]\nmax_iterations = 1\n")
    project.treadle("task", "add", "Make done.txt", "--verify", "AC1=test -f done.txt")
    return project


def lane(project):
    return project.treadle("task", "show", "T-1", "--json").json["lane"]


def compared(project, name="T-1"):
    return project.treadle("compare", name, "--json").json


def branches(project):
    return project.git("branch", "--list", "treadle/*", "--format=%(refname:short)").split()


def test_the_best_lands_and_the_others_are_closed(several):
    done = several.treadle(
        "run", "T-1", *["--try", "idle", "--try", "long", "--try", "short", "--json"]
    )
    assert done.code == 0, done.err
    told = done.json
    assert [(it["agent"], it["status"]) for it in told["tries"]] == [
        ("short", "passed"),
        ("long", "passed"),
        ("idle", "stopped"),
    ]
    assert [it["lines"] for it in told["tries"]] == [1, 9, 0]
    assert [it["criteria_held"] for it in told["tries"]] == [1, 1, 0]
    assert len({row["base_commit"] for row in told["runs"]}) == 1
    assert lane(several) == "approved"
    best, second, last = (it["run_id"] for it in told["tries"])
    assert told["winner"] == best == compared(several)["winner"]
    waiting = several.treadle("status", "--json").json["unlanded"]
    assert [it["run_id"] for it in waiting] == [best]
    assert "treadle land" in several.treadle("compare", second).out
    get = Worked(several, best, {}).browser.get
    assert get(f"/runs/{second}/compare.json").json() == compared(several)
    assert f'href="/runs/{best}"' in get(f"/runs/{second}/compare").text
    assert f'href="/runs/{second}/compare"' in get(f"/runs/{second}").text
    assert several.treadle("desk", "--json").json["items"]

    assert several.treadle("land", "T-1", "--json").json["run_id"] == best
    assert (several.root / "done.txt").read_text() == "done\n"
    assert lane(several) == "done"
    assert several.treadle("compare", "T-1").out.endswith(f"  next: treadle undo {best}\n")
    listed = several.treadle("runs", "list").out
    assert "Make done.txt by long" in listed
    assert "not yet" not in listed
    assert branches(several) == []
    assert several.treadle("desk", "--json").json["items"] == []
    for run_id, status in ((second, "passed"), (last, "stopped")):
        shown = several.show(run_id)
        assert (shown["status"], shown["reason_code"]) == (status, "superseded")
        assert several.event_types(run_id)[-1] == "superseded"
    refused = several.treadle("land", second, "--json")
    assert (refused.code, refused.json["error"]["code"]) == (3, "superseded")
    refused = several.treadle("run", "--resume", last, "--json")
    assert refused.json["error"]["fix"][-1] == f"treadle undo {best}"

    assert several.treadle("undo", best).code == 0
    assert lane(several) == "approved"
    assert several.treadle("land", second).code == 0
    assert (several.root / "done.txt").read_text() == "done\n" * 9
    assert lane(several) == "done"


def test_one_after_the_other_and_by_themselves_onto_the_branch(several):
    several.settings('[budgets]\nmax_iterations = 1\n[land]\nrun = "auto"\n')
    done = several.treadle(
        "run", "T-1", *TRY, "--parallel", "1", "--json", env={"TREADLE_PROGRESS": "1"}
    )
    assert done.code == 0, done.err
    steps = [text.strip() for text in done.err.splitlines() if text.startswith("  ")]
    assert {text.split("  ")[0] for text in steps} == {"T-1 by idle", "T-1 by long", "T-1 by short"}
    assert (several.root / "done.txt").read_text() == "done\n"
    assert lane(several) == "done"
    assert compared(several)["tries"][0]["landed"]


def test_a_goal_is_tried_too_and_all_may_fail(several):
    words = ["--verify", "AC1=test -f other.txt", "--try", "idle", "--try", "long", "--json"]
    done = several.treadle("run", "--goal", "Make other.txt", *words)
    assert done.code == 4
    assert done.json["winner"] is None
    assert [it["agent"] for it in compared(several, "last")["tries"]] == ["idle", "long"]
    assert compared(several, "last")["task_id"] is None


def test_after_a_kill_one_goes_on_and_the_task_stays_taken(several):
    wait = 'import time\nif not (repo.parent / "go").exists():\n    time.sleep(600)\n'
    several.agent("slow", wait + '(repo / "done.txt").write_text("done\\n"); ok()', edits=True)
    process = several.start("run", "T-1", "--try", "slow", "--try", "slow")
    runs = several.root / ".treadle" / "runs"
    wait_for(lambda: len(list(runs.glob("*/steps/002-do.tmp-*/input.json"))) == 2)
    process.kill()
    process.communicate()
    rows = several.treadle("run", "--json").json  # nothing is ready
    assert rows["runs"] == []
    first, second = (it["run_id"] for it in compared(several)["tries"])
    assert [it["status"] for it in compared(several)["tries"]] == ["stopped", "stopped"]
    assert lane(several) == "in_progress"
    several.agent("slow", '(repo / "done.txt").write_text("done\\n"); ok()', edits=True)
    assert several.treadle("run", "--resume", second).code == 0
    assert lane(several) == "approved"
    assert compared(several)["winner"] == second
    assert several.treadle("run", "--json").json["runs"] == []
    assert several.treadle("land", "T-1").code == 0
    assert several.show(first)["reason_code"] == "superseded"


def test_a_tool_and_a_model_may_be_named(several, tmp_path):
    answer = json.dumps({"version": 1, "status": "ok", "summary": "done"})
    cmd = ["sh", "-c", f"cat > /dev/null; echo $1 > done.txt; echo '{answer}'", "sh", "{model}"]
    several.config["tool"] = f'type = "command"\nmodel = "m1"\ncmd = {json.dumps(cmd)}'
    several.save()
    done = several.treadle(*["run", "T-1", "--try", "tool", "--try", "tool:m2", "--json"])
    found = {it["agent"]: it["run_id"] for it in done.json["tries"]}
    shown = [several.git("show", f"treadle/{found[it]}:done.txt") for it in ("tool", "tool:m2")]
    assert shown == ["m1\n", "m2\n"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "T-1 --try shrt --try idle",
            "--try shrt: no agent or tool has this name; did you mean",
        ),
        ("T-1 --try short:m1", "--try short:m1: agent short (exec) takes no model"),
        ("T-1 T-2 --try short", "--try needs one task, or --goal"),
        ("T-1 --try short --fleet", "--try belongs to runs on this machine"),
    ],
)
def test_what_cannot_be_tried_is_said(several, words, said):
    done = several.treadle("run", *words.split())
    assert done.code == 2
    assert said in done.err
    assert not (several.root / ".treadle" / "runs").exists()


def test_a_task_that_one_agent_did_has_nothing_to_compare(several):
    several.treadle("run", "T-1", "--agent", "do=short")
    done = several.treadle("compare", "T-1", "--json")
    assert (done.code, done.json["error"]["code"]) == (3, "not_tried")
    assert several.treadle(*done.json["error"]["fix"][0].split()[1:]).code == 0


def test_the_limit_of_the_day_holds_for_all_of_them(several):
    env = {"TREADLE_NIGHT_MAX_RUNS": "1"}
    words = ("--try", "short", "--try", "long", "--parallel", "1", "--json")
    done = several.treadle("run", "T-1", *words, env=env)
    assert (done.code, len(done.json["runs"])) == (0, 1)
    assert [it["task_id"] for it in done.json["refused"]] == ["T-1 by long"]


def test_a_tool_that_no_agent_is_goes_on_after_a_failure(several, tmp_path):
    refused = '{"type": "turn.failed", "error": {"message": "The model o4 does not exist"}}'
    path = fake.program(tmp_path, "codex", f"cat > /dev/null; echo '{refused}'\n")
    env = {"PATH": f"{path}:{os.environ['PATH']}"}
    found = several.treadle("run", "T-1", "--try", "codex:o4", "--json", env=env).json
    again = several.treadle("run", "--resume", found["run_id"], "--json", env=env).json
    assert again["run_id"] == found["run_id"]
    steps = several.show(found["run_id"])["steps"]
    assert [step["agent"] for step in steps if step["role"] == "do"] == ["codex", "codex"]
