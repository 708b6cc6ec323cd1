"""Tasks of missions are worked on in worktrees of their own and come together again."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.acceptance.mission import Mission
from tests.acceptance.test_work_trees import sh
from tests.builder import Project, git

TWO = ("", "")


@pytest.fixture
def free(mission):
    """A mission with two tasks that do not wait for each other."""
    return mission.with_tasks(*TWO)


def take(mission, agent, *words) -> dict:
    return mission.next("--agent", agent, "--worktree", *words)


def at(mission, step) -> Project:
    return Project(Path(step["workspace_path"]), mission.project.folder, mission.project.env)


def commit(project, name, text="x\n") -> None:
    (project.root / name).parent.mkdir(parents=True, exist_ok=True)
    (project.root / name).write_text(text)
    project.git("add", "-A")
    project.git("commit", "-qm", f"Write {name}")


def report(project, agent, step, result="success", *words) -> dict:
    step = step if isinstance(step, str) else f"{step['phase']}:{step['task_id'][-4:]}"
    asked = ("next", "--json", "--mission", "auth", "--agent", agent, "--step", step)
    done = project.treadle(*asked, "--result", result, *words)
    assert done.code == 0, done
    return done.json


def test_two_agents_work_at_once_without_seeing_each_other(free):
    before = free.project.git("rev-parse", "HEAD")
    amy, bob = take(free, "amy"), take(free, "bob")
    assert (amy["task_id"], bob["task_id"]) == ("auth.WP01", "auth.WP02")
    ours, theirs = at(free, amy), at(free, bob)
    assert ours.git("branch", "--show-current").strip() == "treadle/auth/WP01"
    assert theirs.git("branch", "--show-current").strip() == "treadle/auth/WP02"
    assert ours.git("rev-parse", "HEAD") == theirs.git("rev-parse", "HEAD") == before
    assert str(ours.root) in Path(amy["prompt_file"]).read_text()
    (ours.root / "amy.txt").write_text("half\n")
    (free.project.root / "mine.txt").write_text("the user's own\n")
    assert theirs.git("status", "--porcelain") == ""
    assert free.project.git("status", "--porcelain") == "?? mine.txt\n"
    commit(theirs, "bob.txt")
    told = report(theirs, "bob", bob)  # neither amy's file nor the user's is in the way
    assert told["kind"] in ("step", "blocked"), told
    assert free.lane("auth.WP02") == "for_review"
    refused = ours.treadle(
        "next", "--json", "--mission", "auth", "--agent", "amy", "--result", "success"
    )
    assert (refused.code, refused.json["error"]["code"]) == (3, "dirty_worktree")
    assert refused.json["error"]["files"] == ["amy.txt"]
    assert len(amy) <= 15
    (ours.root / "amy.txt").unlink()
    pipe = ours.root / ".gitignore"
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    refused = ours.treadle(
        "next", "--json", "--mission", "auth", "--agent", "amy", "--result", "success"
    )
    assert (refused.code, refused.json["error"]["code"]) == (3, "special_file")
    assert refused.json["error"]["fix"] == [f"rm {pipe}"]


def test_asked_again_a_task_has_the_same_worktree(free):
    first = take(free, "amy")
    commit(at(free, first), "amy.txt")
    again = take(free, "amy")
    assert again["workspace_path"] == first["workspace_path"]
    assert (Path(again["workspace_path"]) / "amy.txt").is_file()
    # Who does not ask for one is led there all the same: the work is on the task's branch.
    assert free.next("--agent", "amy")["workspace_path"] == first["workspace_path"]
    assert free.next("--agent", "bob")["workspace_path"] is None


def test_a_worktree_is_somebodys(free):
    refused = free.project.treadle("next", "--worktree", "--json")
    assert refused.code == 2
    (fix,) = refused.json["error"]["fix"]
    assert json.loads(sh(fix, free.project.root).stdout)["workspace_path"]


def test_a_worktree_deleted_by_hand_is_named_and_made_again(free):
    first = take(free, "amy")
    commit(at(free, first), "amy.txt")
    shutil.rmtree(first["workspace_path"])
    told = free.next("--agent", "amy")
    assert (told["kind"], told["reason_code"]) == ("blocked", "worktree_gone")
    assert first["workspace_path"] in told["reason"]
    again = json.loads(sh(told["unblock"][0], free.project.root).stdout)
    assert again["workspace_path"] == first["workspace_path"]
    assert (Path(again["workspace_path"]) / "amy.txt").is_file()


def test_something_else_in_its_place_is_left_alone(free):
    other = free.project.root / ".treadle" / "worktrees" / "auth.WP01"
    other.mkdir(parents=True)
    (other / "note.txt").write_text("mine\n")
    told = take(free, "amy")
    assert (told["kind"], told["reason_code"]) == ("blocked", "worktree_in_the_way")
    assert sh(told["unblock"][0], free.project.root).returncode == 0
    assert take(free, "amy")["workspace_path"] == str(other)
    assert (other.with_name("auth.WP01.old") / "note.txt").read_text() == "mine\n"


def test_inside_a_worktree_the_next_task_gets_one_too(free):
    first = take(free, "amy")
    here = at(free, first)
    commit(here, "amy.txt")
    told = report(here, "amy", first)
    assert told["task_id"] == "auth.WP02"
    there = at(free, told)
    assert there.root != here.root
    assert not (there.root / "amy.txt").exists()  # it begins from main, not from WP01


@pytest.mark.real
def test_a_task_begins_with_what_it_depends_on(tasked):
    first = take(tasked, "amy")
    commit(at(tasked, first), "amy.txt")
    report(at(tasked, first), "amy", first)
    report(tasked.project, "bob", "review:WP01")
    tasked.project.git("merge", "-q", "treadle/auth/WP01")
    tasked.project.git("reset", "-q", "--hard", "HEAD~1")
    assert tasked.move("auth.WP01", "done", "--force", "--reason", "by hand").code == 0
    second = take(tasked, "bob")
    assert second["task_id"] == "auth.WP02"
    assert (Path(second["workspace_path"]) / "amy.txt").is_file()


@pytest.mark.real
def test_no_hook_of_the_repository_runs(free):
    hook = free.project.root / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {free.project.root}/hooked\n")
    hook.chmod(0o755)
    assert take(free, "amy")["kind"] == "step"
    assert not (free.project.root / "hooked").exists()


@pytest.mark.real
@pytest.mark.parametrize("point", ["task_base_written", "task_branch_made", "task_tree_made"])
def test_a_killed_hand_out_is_finished_by_the_next(free, point):
    asked = ("next", "--json", "--agent", "amy", "--worktree")
    assert free.project.treadle(*asked, env={"TREADLE_DIE_AT": point}).code < 0
    step = take(free, "amy")
    assert step["task_id"] == "auth.WP01"
    assert at(free, step).git("status", "--porcelain") == ""
    branches = free.project.git("branch", "--list", "treadle/*", "--format=%(refname:short)")
    assert branches.split() == ["treadle/auth/WP01"]
    assert len(free.project.git("worktree", "list").splitlines()) == 2


@pytest.mark.real
def test_a_worktree_that_git_left_half_made_is_made_again(free):
    step = take(free, "amy")
    (record,) = (free.project.root / ".git" / "worktrees").iterdir()
    (record / "locked").write_text("initializing")
    (Path(step["workspace_path"]) / "README.md").unlink()
    assert take(free, "amy")["workspace_path"] == step["workspace_path"]
    assert (Path(step["workspace_path"]) / "README.md").is_file()


@pytest.mark.real
def test_a_project_in_a_folder_works_in_that_folder(repo, tmp_path):
    (tmp_path / "agents").mkdir()
    web = Project(repo / "web", tmp_path / "agents")
    web.root.mkdir()
    (web.root / "README.md").write_text("web\n")
    web.git("add", ".")
    web.git("commit", "-qm", "Web")
    assert web.treadle("init", "--here", "--commit").code == 0
    mission = Mission(web).create().with_tasks("")
    step = take(mission, "amy")
    assert step["workspace_path"].endswith(".treadle/worktrees/auth.WP01/web")
    here = at(mission, step)
    commit(here, "amy.txt")
    report(here, "amy", step)
    assert mission.lane("auth.WP01") == "for_review"
    assert git(repo, "status", "--porcelain") == ""


@pytest.mark.real
def test_commands_run_on_the_tasks_branch(mission):
    mission.with_tasks("")
    body = "Do it.\n\n## Acceptance Criteria\n\n- It is there: `$ test -f amy.txt`\n"
    mission.commit(mission.task(1), f"---\nwork_package_id: WP01\ntitle: Part 1\n---\n{body}")
    step = take(mission, "amy")
    here = at(mission, step)
    commit(here, "other.txt")
    refuted = report(here, "amy", step)
    assert refuted["reason_code"] == "claim_refuted", refuted
    commit(here, "amy.txt")  # on its branch, not on the user's
    report(mission.project, "amy", step)
    assert mission.lane("auth.WP01") == "for_review"


@pytest.mark.real
def test_nothing_is_accepted_before_it_is_merged(mission):
    mission.with_tasks("")
    step = take(mission, "amy")
    here = at(mission, step)
    commit(here, "amy.txt")
    told = report(here, "amy", step)
    assert (told["phase"], told["workspace_path"]) == ("review", step["workspace_path"]), told
    told = report(mission.project, "bob", "review:WP01")
    assert (told["kind"], told["reason_code"]) == ("blocked", "tasks_unmerged")
    assert told["unblock"] == ["treadle mission merge --mission auth"]
    told = report(mission.project, "bob", "accept")
    assert (told["kind"], told["reason_code"]) == ("blocked", "tasks_unmerged")
    inside = Mission(here).next("--mission", "auth", "--agent", "bob")
    assert inside["unblock"] == [
        f"cd {mission.project.root} && treadle mission merge --mission auth"
    ]
    assert mission.lane("auth.WP01") == "approved"


def approved(mission, agent, name, text="x\n", step=None) -> Path:
    """Let an agent do the task it is handed, and another one approve it."""
    step = step or take(mission, agent)
    here = at(mission, step)
    commit(here, name, text)
    report(here, agent, step)
    report(mission.project, f"{agent}-reviewer", f"review:{step['task_id'][-4:]}")
    assert mission.lane(step["task_id"]) == "approved"
    return here.root


def both_approved(mission, *files) -> None:
    """Let two agents do a task each, at once."""
    steps = [take(mission, agent) for agent in ("amy", "bob")]
    for agent, step, (name, text) in zip(("amy", "bob"), steps, files, strict=True):
        approved(mission, agent, name, text, step)


def merge(mission, *words, **options):
    return mission.project.treadle(
        "mission", "merge", "--mission", "auth", "--json", *words, **options
    )


@pytest.mark.real
def test_approved_tasks_come_together(free):
    amy, bob = take(free, "amy"), take(free, "bob")
    first, held = approved(free, "amy", "amy.txt", step=amy), at(free, bob)
    commit(held, "bob.txt")
    done = merge(free)
    assert done.code == 0, done
    assert (done.json["merged"], done.json["left"]) == (["auth.WP01"], {"auth.WP02": "claimed"})
    assert (free.project.root / "amy.txt").is_file()
    assert not (free.project.root / "bob.txt").exists()
    assert (first.exists(), held.root.is_dir()) == (False, True)
    assert free.project.git(
        "branch", "--list", "treadle/*", "--format=%(refname:short)"
    ).split() == ["treadle/auth/WP02"]
    report(held, "bob", "implement:WP02")
    report(free.project, "cid", "review:WP02")
    assert merge(free).json["merged"] == ["auth.WP02"]
    assert (free.project.root / "bob.txt").is_file()
    assert free.project.git("log", "-1", "--format=%s") == "Merge auth.WP02\n"
    assert free.project.git("status", "--porcelain") == ""
    told = report(free.project, "cid", "accept")
    assert told["kind"] == "complete", told
    again = merge(free)
    assert (again.code, again.json["merged"]) == (0, [])


@pytest.mark.real
def test_a_conflict_names_files_and_tasks_and_merges_nothing(free):
    both_approved(free, ("same.txt", "amy\n"), ("same.txt", "bob\n"))
    before = free.project.git("rev-parse", "HEAD")
    refused = merge(free)
    error = refused.json["error"]
    assert (refused.code, error["code"]) == (3, "tasks_conflict")
    assert (error["files"], error["tasks"]) == (["same.txt"], ["auth.WP02", "auth.WP01"])
    assert free.project.git("rev-parse", "HEAD") == before
    assert free.project.git("status", "--porcelain") == ""
    merging, again = error["fix"]
    assert sh(merging, free.project.root).returncode == 1  # git names the conflict too
    theirs = free.project.root / ".treadle" / "worktrees" / "auth.WP02"
    (theirs / "same.txt").write_text("amy\nbob\n")
    git(theirs, "commit", "-qam", "Both")
    assert sh(again, free.project.root).returncode == 0
    assert (free.project.root / "same.txt").read_text() == "amy\nbob\n"


@pytest.mark.real
def test_a_conflict_with_what_came_meanwhile_names_the_branch(free):
    approved(free, "amy", "same.txt", "amy\n")
    commit(free.project, "same.txt", "mine\n")
    error = merge(free).json["error"]
    assert error["fix"][0].endswith("auth.WP01 merge main")
    assert "auth.WP01 and main both changed same.txt" in error["message"]


@pytest.mark.real
def test_what_passes_alone_and_fails_together_is_not_merged(mission):
    mission.with_tasks("", "")
    for number in (1, 2):
        body = "Do it.\n\n## Acceptance Criteria\n\n- One: `$ test $(ls *.part | wc -l) -le 1`\n"
        head = f"---\nwork_package_id: WP{number:02}\ntitle: Part {number}\n---\n"
        mission.commit(mission.task(number), head + body)
    both_approved(mission, ("a.part", ""), ("b.part", ""))
    before = mission.project.git("rev-parse", "HEAD")
    refused = merge(mission)
    assert (refused.code, refused.json["error"]["code"]) == (3, "claim_refuted")
    assert mission.project.git("rev-parse", "HEAD") == before
    log, back, again = refused.json["error"]["fix"]
    assert again == "treadle mission merge --mission auth"
    assert sh(log, mission.project.root).returncode == 0
    assert sh(back, mission.project.root).returncode == 0
    assert "planned" in mission.lane("auth.WP01") + mission.lane("auth.WP02")
    assert merge(mission).code == 0


@pytest.mark.real
@pytest.mark.parametrize("is_tracked", [True, pytest.param(False, marks=pytest.mark.real)])
def test_a_worktree_is_made_behind_no_link(free, tmp_path, is_tracked):
    trees, outside = free.project.root / ".treadle" / "worktrees", tmp_path / "outside"
    outside.mkdir()
    trees.mkdir()
    (trees / "auth.WP01").symlink_to(outside)
    if is_tracked:
        free.project.git("add", "-f", str(trees / "auth.WP01"))
        free.project.git("commit", "-qm", "A gift")
    told = take(free, "amy") if not is_tracked else refused(free, "amy")
    code = told["error"]["code"] if is_tracked else told["reason_code"]
    assert code == ("state_tracked" if is_tracked else "worktree_in_the_way")
    assert not list(outside.iterdir())


def refused(mission, agent) -> dict:
    words = ("next", "--json", "--mission", "auth", "--agent", agent, "--worktree")
    return mission.project.treadle(*words).json


def test_a_dirty_worktree_stays(free):
    place = approved(free, "amy", "amy.txt")
    (place / "notes.txt").write_text("not committed\n")
    done = merge(free)
    assert done.json["merged"] == ["auth.WP01"]
    assert str(place) in done.json["kept"][0]
    assert "notes.txt" in done.json["kept"][0]
    assert (place / "notes.txt").read_text() == "not committed\n"
    kept = free.project.treadle("runs", "prune", "--json")
    assert (kept.code, kept.json["worktrees"]) == (0, [])
    assert place.is_dir()
    (place / "notes.txt").unlink()
    pipe = place / "n" / ".gitignore"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    kept = free.project.treadle("runs", "prune", "--json")
    assert (kept.code, kept.json["worktrees"]) == (0, [])
    assert f"{pipe} cannot be read" in merge(free).json["kept"][0]
    pipe.unlink()
    would = free.project.treadle("runs", "prune", "--dry-run", "--json").json
    assert would["worktrees"] == ["auth.WP01"]
    assert place.is_dir()
    assert free.project.treadle("runs", "prune", "--json").json["worktrees"] == ["auth.WP01"]
    assert not place.exists()


@pytest.mark.real
def test_merging_asks_for_a_clean_checkout_of_a_branch(free):
    place = approved(free, "amy", "amy.txt")
    inside = Project(place, free.project.folder).treadle(
        "mission", "merge", "--mission", "auth", "--json"
    )
    assert inside.json["error"]["code"] == "task_worktree"
    assert inside.json["error"]["fix"] == [
        f"cd {free.project.root} && treadle mission merge --mission auth"
    ]
    (free.project.root / "mine.txt").write_text("x\n")
    assert merge(free).json["error"]["code"] == "dirty_worktree"
    (free.project.root / "mine.txt").unlink()
    free.project.git("switch", "-q", "--detach")
    refused = merge(free).json["error"]
    assert refused["code"] == "no_branch"
    assert sh(refused["fix"][0], free.project.root).returncode == 0
    assert sh(inside.json["error"]["fix"][0], place).returncode == 0
    assert (free.project.root / "amy.txt").is_file()


@pytest.mark.real
@pytest.mark.parametrize("point", ["merge_intended", "merge_moved", "task_tree_removed"])
def test_a_killed_merge_is_finished_by_the_next(mission, point):
    free = mission.with_tasks("")
    approved(free, "amy", "amy.txt")
    assert merge(free, env={"TREADLE_DIE_AT": point}).code < 0
    if point == "merge_intended":  # git was cut off among the files
        (free.project.root / "amy.txt").write_text("x\n")
    assert merge(free).code == 0
    assert free.project.git("status", "--porcelain") == ""
    assert free.project.git("log", "--format=%s", "-1") == "Write amy.txt\n"
    assert free.project.git("branch", "--list", "treadle/*") == ""
    assert [it.name for it in (free.project.root / ".treadle" / "worktrees").iterdir()] == []


@pytest.mark.real
def test_accepting_puts_away_what_became_clean(mission):
    mission.with_tasks("")
    place = approved(mission, "amy", "amy.txt")
    (place / "notes.txt").write_text("not committed\n")
    assert merge(mission).code == 0
    (place / "notes.txt").unlink()
    assert report(mission.project, "bob", "accept")["kind"] == "complete"
    assert not place.exists()


@pytest.mark.real
def test_doctor_names_a_worktree_that_is_gone(free):
    step = take(free, "amy")
    checks = free.project.treadle("doctor", "--json").json["checks"]
    assert [it["ok"] for it in checks if it["name"] == "worktrees"] == [True]
    shutil.rmtree(step["workspace_path"])
    checks = free.project.treadle("doctor", "--json").json["checks"]
    (gone,) = [it for it in checks if it["name"] == "worktrees"]
    assert not gone["ok"]
    assert step["workspace_path"] in gone["detail"]
    assert sh(gone["fix"][0], free.project.root).returncode == 0
    assert free.next("--agent", "amy")["workspace_path"] == step["workspace_path"]


@pytest.mark.real
def test_uninstalling_loses_no_work_of_a_worktree(free):
    here = at(free, take(free, "amy"))
    commit(here, "amy.txt")
    (here.root / "half.txt").write_text("not committed\n")
    refused = free.project.treadle("uninstall", "--purge", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (3, "dirty_worktree")
    assert (here.root / "half.txt").is_file()
    assert sh(refused.json["error"]["fix"][-1], free.project.root).returncode == 0
    assert free.project.treadle("uninstall", "--purge", "--json").code == 0
    assert not here.root.exists()
    assert "amy.txt" in free.project.git("ls-tree", "--name-only", "treadle/auth/WP01").split()
    assert len(free.project.git("worktree", "list").splitlines()) == 1


@pytest.mark.real
def test_a_folder_renamed_by_hand_keeps_its_worktrees(free):
    step = take(free, "amy")
    commit(at(free, step), "amy.txt")
    free.project.git("mv", "missions/auth", "missions/login")
    free.project.git("commit", "-qm", "Rename")
    again = free.next("--agent", "amy")
    assert (again["task_id"], again["workspace_path"]) == ("login.WP01", step["workspace_path"])
    words = ("--agent", "amy", "--result", "success", "--step", "implement:WP01")
    free.next(*words)
    free.next("--agent", "bob", "--result", "success", "--step", "review:WP01")
    done = free.project.treadle("mission", "merge", "--json")
    assert done.json["merged"] == ["login.WP01"], done
    assert (free.project.root / "amy.txt").is_file()
    assert not Path(step["workspace_path"]).exists()
