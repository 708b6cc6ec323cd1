"""Missions are made, covered, renamed, given up, put away and taken up again."""

import json
from pathlib import Path

import pytest

from tests.acceptance.mission import REAL_PLAN, SPEC
from tests.acceptance.test_work_trees import sh
from tests.builder import Project, wait_for

TWO_ROWS = SPEC.format(rows="| FR-001 | Users can log in |\n| FR-002 | Tokens expire |")
HEADED = """
## Tasks

Some words about them.

### WP01: Keep tokens (files: lib/)

Why this is needed.

- The tests pass: `$ true`
- Requirements: FR-001

#### Notes

- Tokens are files

### WP02: Reject expired ones

- **Depends on**: WP01
- An expired token is refused

```
### WP09: not this one
- nor this
```

## Risks

- None
"""


def test_headings_under_tasks_make_one_task_each(mission):
    mission.specified()
    mission.plan.write_text(REAL_PLAN + HEADED)
    assert mission.setup_plan().code == 0
    assert mission.project.treadle("mission", "tasks").code == 0
    first, second = sorted((mission.folder / "tasks").iterdir())
    assert [first.name, second.name] == ["WP01-keep-tokens.md", "WP02-reject-expired-ones.md"]
    text = first.read_text()
    assert "requirement_refs: [FR-001]" in text
    assert "owned_files: ['lib/']" in text
    assert text.endswith("- The tests pass: `$ true`\n- Tokens are files\n")
    assert "dependencies: [WP01]" in second.read_text()
    assert second.read_text().endswith("\n- An expired token is refused\n")


def test_a_goal_stands_in_meta_and_spec(project):
    goal = "Users log in\n with a {token}"
    assert project.treadle("mission", "create", "auth", "--goal", goal).code == 0
    folder = project.root / "missions" / "auth"
    assert json.loads((folder / "meta.json").read_text())["goal"] == "Users log in with a {token}"
    assert "## Goal\n\nUsers log in with a {token}\n" in (folder / "spec.md").read_text()
    assert project.treadle("next", "--json").json["phase"] == "specify"


def test_creating_waits_for_gits_lock(project):
    lock = project.root / ".git" / "index.lock"
    lock.touch()
    started = project.start("mission", "create", "auth", "--json")
    wait_for((project.root / "missions" / "auth" / "spec.md").exists)
    assert started.poll() is None
    lock.unlink()
    out, err = started.communicate(timeout=60)
    assert started.returncode == 0, err
    assert project.git("rev-parse", "HEAD").strip() == json.loads(out)["commit"]


@pytest.mark.real
def test_a_lock_that_stays_is_named(mission):
    mission.specified()
    mission.plan.write_text(REAL_PLAN)
    before = mission.project.git("rev-parse", "HEAD")
    lock = mission.project.root / ".git" / "index.lock"
    lock.touch()
    for words in (("create", "other"), ("setup-plan", "--mission", "auth")):
        refused = mission.project.treadle("mission", *words, "--json")
        assert (refused.code, refused.json["error"]["code"]) == (3, "git_locked")
        assert str(lock) in refused.json["error"]["message"]
    assert mission.project.git("rev-parse", "HEAD") == before
    assert not (mission.folder.parent / "other").exists()
    assert sh(refused.json["error"]["fix"][-1], mission.project.root).returncode == 0
    assert mission.setup_plan().json["phase_complete"]


def with_refs(mission, *refs):
    mission.commit(mission.spec, TWO_ROWS)
    mission.plan.write_text(REAL_PLAN)
    assert mission.setup_plan().code == 0
    for number, ref in enumerate(refs, 1):
        head = f"work_package_id: WP{number:02}\ntitle: Part {number}\n"
        head += f"requirement_refs: [{ref}]\n" if ref else ""
        mission.task(number).parent.mkdir(exist_ok=True)
        mission.task(number).write_text(f"---\n{head}---\nDo it.\n")
    mission.commit(mission.folder / "tasks")


def test_status_shows_which_task_covers_which_requirement(mission):
    with_refs(mission, "FR-001, FR-002", "fr-001")
    found = mission.project.treadle("mission", "status", "--json").json
    assert found["coverage"] == {"FR-001": ["WP01", "WP02"], "FR-002": ["WP01"]}
    told = mission.project.treadle("mission", "status").out
    assert "  FR-001: WP01, WP02\n" in told
    assert "2 of 2 tasks of auth are not done yet" in told
    mission.project.treadle("task", "move", "auth.WP01", "--to", "canceled", "--reason", "x")
    assert (
        "1 of 2 tasks of auth is not done yet" in mission.project.treadle("mission", "status").out
    )


def test_the_tasks_gate_names_what_no_task_covers(mission):
    with_refs(mission, "FR-001", "")
    step = mission.next()
    assert (step["kind"], step["phase"]) == ("step", "tasks")
    assert "no task names FR-002" in Path(step["prompt_file"]).read_text()
    told = mission.next("--result", "success", "--step", "tasks")
    assert (told["kind"], told["reason_code"]) == ("blocked", "requirements_uncovered")
    assert "FR-002" in told["reason"]
    shown = sh(told["unblock"][0], mission.project.root)
    assert "FR-002: no task" in shown.stdout
    text = mission.task(2).read_text().replace("title", "requirement_refs: [FR-002]\ntitle")
    mission.commit(mission.task(2), text)
    assert mission.next("--result", "success", "--step", "tasks")["phase"] == "implement"


def test_tasks_that_name_no_requirement_hold_nothing_up(mission):
    with_refs(mission, "", "")
    assert mission.next()["phase"] == "implement"
    found = mission.project.treadle("mission", "status", "--json").json
    assert found["coverage"] == {"FR-001": [], "FR-002": []}


@pytest.mark.real
def test_a_requirement_that_comes_later_stops_nobody_at_work(mission):
    with_refs(mission, "FR-001, FR-002")
    assert mission.next("--agent", "amy")["phase"] == "implement"
    mission.commit(mission.spec, TWO_ROWS + "| FR-003 | Late |\n")
    assert mission.next("--agent", "amy")["phase"] == "implement"
    assert "FR-003: no task" in mission.project.treadle("mission", "status").out


def run(mission, *words):
    return mission.project.treadle("mission", *words, "--mission", "auth", "--json")


@pytest.mark.real
def test_a_canceled_mission_hands_nothing_out(tasked):
    assert tasked.next("--agent", "amy")["task_id"] == "auth.WP01"
    done = run(tasked, "cancel", "--reason", "We buy it instead")
    assert done.json["tasks"] == {"auth.WP01": "amy", "auth.WP02": None}
    assert {tasked.lane("auth.WP01"), tasked.lane("auth.WP02")} == {"canceled"}
    for agent in ("amy", "bob"):
        told = tasked.next("--agent", agent)
        assert (told["kind"], told["reason_code"]) == ("blocked", "mission_canceled")
        assert "We buy it instead" in told["reason"]
        assert not any("reopen" in command for command in told["unblock"])
    report = ("next", "--json", "--agent", "amy", "--step", "implement:WP01", "--result", "failed")
    refused = tasked.project.treadle(*report)
    assert (refused.code, refused.json["error"]["code"]) == (3, "step_over")
    assert "We buy it instead" in tasked.project.treadle("mission", "status").out
    assert run(tasked, "cancel").code == 2


@pytest.mark.real
def test_canceling_closes_what_was_asked(tasked):
    tasked.next("--agent", "amy")
    tasked.next("--agent", "amy", "--result", "blocked", "--note", "which token?")
    assert len(tasked.project.treadle("desk", "--json").json["items"]) == 1
    assert run(tasked, "cancel", "--reason", "given up").json["questions"] == ["Q-1"]
    assert tasked.project.treadle("desk", "--json").json["items"] == []


@pytest.mark.real
def test_a_mission_canceled_before_its_tasks_can_be_reopened(mission):
    assert run(mission, "cancel", "--reason", "later").code == 0
    told = mission.next()
    assert told["reason_code"] == "mission_canceled"
    assert sh(told["unblock"][0], mission.project.root).returncode == 0
    assert mission.next()["phase"] == "specify"


@pytest.mark.real
def test_a_mission_that_was_only_begun_can_be_renamed_and_put_away(mission):
    named = mission.project.treadle("mission", "rename", "auth", "login", "--json").json
    assert sh(named["commit"], mission.project.root).returncode == 0
    assert (mission.project.root / "missions/login/spec.md").read_text() != ""
    assert mission.project.treadle("mission", "cancel", "--reason", "no need").code == 0
    archive = ("mission", "archive", "--json")
    (mission.project.root / "mine.txt").write_text("mine\n")
    assert mission.project.treadle(*archive).json["error"]["files"] == ["mine.txt"]
    (mission.project.root / "mine.txt").unlink()
    done = mission.project.treadle(*archive).json
    assert sh(done["commit"], mission.project.root).returncode == 0
    assert (mission.project.root / "missions/archive/login/spec.md").is_file()


@pytest.mark.real
@pytest.mark.parametrize("phase", ["specify", "plan", "tasks"])
def test_a_reopened_phase_comes_first_until_it_succeeds(tasked, phase):
    done = run(tasked, "reopen", phase, "--reason", "The scope has grown")
    assert done.code == 0, done
    step = tasked.next()
    assert (step["kind"], step["phase"]) == ("step", phase)
    assert "The scope has grown" in Path(step["prompt_file"]).read_text()
    assert "reopened by human" in tasked.project.treadle("mission", "status").out
    assert tasked.next("--result", "success", "--step", phase)["phase"] == "implement"


@pytest.mark.real
def test_reopening_sends_tasks_back(tasked):
    for lane in ("claimed", "in_progress", "for_review", "in_review", "approved"):
        assert tasked.move("auth.WP01", lane).code == 0
    assert run(tasked, "reopen", "review", "--reason", "look again").json["tasks"] == {
        "auth.WP01": None
    }
    assert tasked.lane("auth.WP01") == "for_review"
    run(tasked, "reopen", "implement", "--reason", "too slow")
    assert tasked.lane("auth.WP01") == "planned"
    assert "too slow" in Path(tasked.next("--agent", "amy")["prompt_file"]).read_text()
    assert run(tasked, "reopen", "accept").code == 2


@pytest.mark.real
def test_what_is_accepted_is_not_reopened(mission):
    mission.with_tasks("")
    assert run(mission, "archive").json["error"]["code"] == "mission_open"
    (mission.project.root / "a.txt").write_text("x\n")
    mission.commit(mission.project.root / "a.txt")
    for step in ("implement:WP01", "review:WP01", "accept"):
        agent = "bob" if step.startswith("review") else "amy"
        mission.next("--agent", agent)
        said = ("--result", "success", "--step", step, "--no-change", "--note", "there already")
        told = mission.next("--agent", agent, *(said if step == "implement:WP01" else said[:4]))
    assert told["kind"] == "complete", told
    refused = run(mission, "reopen", "implement").json["error"]
    assert refused["code"] == "mission_over"
    assert run(mission, "cancel", "--reason", "x").json["error"]["code"] == "mission_over"
    assert sh(refused["fix"][0], mission.project.root).returncode == 0


@pytest.mark.real
def test_an_archived_mission_is_out_of_the_way_and_can_be_brought_back(tasked):
    open_ = run(tasked, "archive").json["error"]
    assert open_["code"] == "mission_open"
    assert sh(open_["fix"][-1], tasked.project.root).returncode == 0  # cancel it
    done = run(tasked, "archive").json
    assert Path(done["folder"]) == tasked.folder.parent / "archive" / "auth"
    assert sh(done["commit"], tasked.project.root).returncode == 0
    assert tasked.project.git("status", "--porcelain") == ""
    assert tasked.project.treadle("mission", "list", "--json").json["missions"] == []
    assert sh(done["undo"], tasked.project.root).returncode == 0
    assert tasked.next()["reason_code"] == "mission_canceled"


@pytest.mark.real
def test_a_mission_with_work_on_branches_is_not_put_away(tasked):
    step = tasked.next("--agent", "amy", "--worktree")
    here = Project(Path(step["workspace_path"]), tasked.project.folder)
    (here.root / "a.txt").write_text("x\n")
    here.git("add", "-A")
    here.git("commit", "-qm", "Work")
    assert run(tasked, "cancel", "--reason", "given up").code == 0
    refused = run(tasked, "archive").json["error"]
    assert refused["code"] == "worktrees_left"
    assert here.root.is_dir()
    for line in refused["fix"][1:]:
        assert sh(line, tasked.project.root).returncode == 0
    assert run(tasked, "archive").code == 0


def forget_id(mission):
    meta = mission.folder / "meta.json"
    said = json.loads(meta.read_text())
    said.pop("mission_id")
    mission.commit(meta, json.dumps(said))


@pytest.mark.real
@pytest.mark.parametrize("has_id", [True, False])
def test_a_renamed_mission_keeps_everything(tasked, has_id):
    if not has_id:
        forget_id(tasked)
    assert tasked.next("--agent", "amy")["task_id"] == "auth.WP01"
    before = tasked.project.git("rev-parse", "HEAD")
    done = tasked.project.treadle("mission", "rename", "auth", "login", "--json")
    assert done.code == 0, done
    assert tasked.project.git("rev-parse", "HEAD") == before  # nothing else commits
    assert sh(done.json["commit"], tasked.project.root).returncode == 0
    assert tasked.project.git("status", "--porcelain") == ""
    assert tasked.next("--agent", "amy")["task_id"] == "login.WP01"
    assert tasked.next("--agent", "bob")["kind"] == "blocked"  # amy holds it
    said = json.loads((tasked.folder.with_name("login") / "meta.json").read_text())
    assert said["mission_slug"] == "login"
    assert sh(done.json["undo"], tasked.project.root).returncode == 0
    assert tasked.folder.is_dir()
    assert tasked.lane("auth.WP01") == "claimed"


@pytest.mark.real
def test_a_rename_is_refused_with_what_goes_on(tasked):
    rename = ("mission", "rename", "auth")
    for name, code in (("No Good", "slug_invalid"), ("auth", "mission_exists")):
        refused = tasked.project.treadle(*rename, name, "--json").json["error"]
        assert refused["code"] == code
    assert tasked.project.treadle("mission", "rename", "auht", "x", "--json").code == 1
    tasked.next("--agent", "amy", "--worktree")
    Project(tasked.project.root / ".treadle/worktrees/auth.WP01", tasked.project.folder).git(
        "commit", "-q", "--allow-empty", "-m", "Work"
    )
    refused = tasked.project.treadle(*rename, "login", "--json").json["error"]
    assert refused["code"] == "worktrees_left"
    assert tasked.next("--agent", "amy")["task_id"] == "auth.WP01"


@pytest.mark.real
@pytest.mark.parametrize("has_id", [True, False])
def test_a_killed_rename_loses_nothing(tasked, has_id):
    if not has_id:
        forget_id(tasked)
    tasked.next("--agent", "amy")
    words = ("mission", "rename", "auth", "login", "--json")
    assert tasked.project.treadle(*words, env={"TREADLE_DIE_AT": "mission_named"}).code < 0
    assert tasked.next("--agent", "amy")["task_id"] == "auth.WP01"
    assert tasked.next("--agent", "bob")["kind"] == "blocked"  # amy holds it
    done = tasked.project.treadle(*words)
    assert sh(done.json["commit"], tasked.project.root).returncode == 0
    assert tasked.next("--agent", "amy")["task_id"] == "login.WP01"
    assert tasked.next("--agent", "bob")["kind"] == "blocked"


def test_a_phase_that_has_not_begun_is_not_reopened(mission):
    refused = run(mission, "reopen", "plan").json["error"]
    assert refused["code"] == "mission_open"
    assert mission.project.treadle(*refused["fix"][0].split()[1:]).code == 0
    assert "reopened" not in mission.project.treadle("mission", "status").out


def test_a_wrong_new_name_is_mended_in_the_same_command(mission):
    done = mission.project.treadle("mission", "rename", "auth", "Log In", "--json")
    refused = done.json["error"]
    assert refused["fix"] == ["treadle mission rename auth log-in"]
