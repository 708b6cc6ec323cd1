"""Specs and plans pass their gates when they say something and are committed."""

import json
import shlex

import pytest

from tests.acceptance.mission import REAL_PLAN, REAL_SPEC, SCAFFOLD_SPEC
from tests.acceptance.untouched import untouched
from tests.builder import git

SPEC_SENTENCE = (
    "spec.md must be committed and substantive before the plan phase can begin. "
    "Populate Functional Requirements and commit, then re-run setup-plan."
)
PLAN_SENTENCE = (
    "plan.md content is not substantive yet; populate Technical Context with real values "
    "and re-run setup-plan to commit."
)


def tracked(mission) -> list[str]:
    return mission.project.git("ls-tree", "-r", "--name-only", "HEAD", "missions").split()


def test_create_commits_meta_and_leaves_the_spec_untracked(project):
    with untouched(project.root):
        before = project.git("rev-list", "--count", "HEAD")
        made = project.treadle("mission", "create", "auth", "--title", "Log in", "--json").json
        (project.root / "missions" / "auth" / "spec.md").rename(project.folder / "spec.md")
    assert int(project.git("rev-list", "--count", "HEAD")) == int(before) + 1
    assert project.git("log", "-1", "--format=%s").strip() == (
        "Add meta and scaffolding for feature auth"
    )
    assert project.git("ls-tree", "-r", "--name-only", "HEAD", "missions").split() == [
        "missions/auth/meta.json"
    ]
    assert made["commit"] == project.git("rev-parse", "HEAD").strip()
    assert "Commit Boundary" in (project.folder / "spec.md").read_text()
    assert json.loads((project.root / made["meta_file"]).read_text())["title"] == "Log in"


def test_uncommitted_spec_blocks_the_plan(mission):
    mission.spec.write_text(REAL_SPEC)
    result = mission.setup_plan()
    assert result.code == 3
    assert (result.json["phase_complete"], result.json["commit"]) == (False, None)
    assert result.json["blocked_reason"] == SPEC_SENTENCE
    assert result.json["missing"] == ["spec.md is not committed"]
    assert not mission.plan.exists()


def test_committed_scaffold_blocks_the_plan(mission):
    mission.commit(mission.spec, SCAFFOLD_SPEC)
    result = mission.setup_plan()
    assert (result.code, result.json["blocked_reason"]) == (3, SPEC_SENTENCE)
    assert result.json["missing"][0].startswith("spec.md:3: ")
    assert not mission.plan.exists()


def test_populated_plan_is_committed(mission):
    mission.specified()
    mission.plan.write_text(REAL_PLAN)
    result = mission.setup_plan()
    assert (result.code, result.json["phase_complete"]) == (0, True)
    assert result.json["blocked_reason"] is None
    assert "missions/auth/plan.md" in tracked(mission)
    assert result.json["commit"] == mission.project.git("rev-parse", "HEAD").strip()
    again = mission.setup_plan().json
    assert (again["phase_complete"], again["commit"]) == (True, None)


def test_placeholder_plan_is_written_but_not_committed(mission):
    mission.specified()
    for _ in range(2):
        result = mission.setup_plan()
        assert (result.code, result.json["phase_complete"]) == (3, False)
        assert result.json["blocked_reason"] == PLAN_SENTENCE
        assert result.json["missing"]
    assert "Commit Boundary" in mission.plan.read_text()
    assert "missions/auth/plan.md" not in tracked(mission)


def test_a_plan_is_never_overwritten(mission):
    mission.specified()
    mission.plan.write_text("# Half a plan\n")
    mission.setup_plan()
    assert mission.plan.read_text() == "# Half a plan\n"


def test_real_text_only_in_the_work_tree_does_not_count(mission):
    mission.commit(mission.spec, SCAFFOLD_SPEC)
    mission.spec.write_text(REAL_SPEC)
    assert mission.setup_plan().json["blocked_reason"] == SPEC_SENTENCE


def test_real_text_only_in_the_last_commit_does_not_count(mission):
    mission.specified()
    mission.spec.write_text(SCAFFOLD_SPEC)
    assert mission.setup_plan().json["blocked_reason"] == SPEC_SENTENCE


def test_untracked_in_the_index_is_not_committed(mission):
    mission.specified()
    mission.project.git("rm", "-q", "--cached", "missions/auth/spec.md")
    assert mission.setup_plan().json["missing"] == ["spec.md is not committed"]


def test_staged_work_stays_staged(mission):
    mission.specified()
    (mission.project.root / "README.md").write_text("mine")
    mission.project.git("add", "README.md")
    mission.plan.write_text(REAL_PLAN)
    assert mission.setup_plan().json["phase_complete"]
    assert mission.project.git("diff", "--cached", "--name-only").split() == ["README.md"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "this file does not exist"),
        ("folder", "this is not a file"),
        (b"\xff\xfe bad", "not UTF-8"),
        (REAL_SPEC.replace("\n", "\r\n").encode(), None),
        (("```\n" + REAL_SPEC + "```\n").encode(), "spec.md:1"),
        (("<!--\n" + REAL_SPEC + "-->\n").encode(), "spec.md:1"),
        (b"word " * 2_000_000, "spec.md:1"),
    ],
    ids=["missing", "folder", "not UTF-8", "CRLF", "in a fence", "in a comment", "10 MB"],
)
def test_odd_specs_get_one_clear_answer(mission, content, words):
    mission.spec.unlink()
    if content == "folder":
        mission.spec.mkdir()
        (mission.spec / "x").write_text("x")
    elif content is not None:
        mission.spec.write_bytes(content)
    mission.project.git("add", "-A")
    mission.project.git("commit", "-q", "--allow-empty", "-m", "Odd")
    result = mission.setup_plan()
    if words is None:
        assert result.json["blocked_reason"] == PLAN_SENTENCE
    else:
        assert result.json["blocked_reason"] == SPEC_SENTENCE
        assert words in result.json["missing"][0]


def test_create_works_without_any_commit_and_on_a_detached_head(project, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "-q")
    assert project.treadle("init", cwd=empty).code == 0
    made = project.treadle("mission", "create", "auth", "--json", cwd=empty).json
    assert git(empty, "rev-list", "HEAD").split() == [made["commit"]]
    assert git(empty, "ls-tree", "-r", "--name-only", "HEAD").split() == ["missions/auth/meta.json"]
    project.git("checkout", "-q", "--detach")
    assert project.treadle("mission", "create", "auth").code == 0


def test_missions_work_in_a_linked_worktree(project, tmp_path):
    other = tmp_path / "other"
    project.git("worktree", "add", "-q", "-b", "side", str(other))
    assert project.treadle("mission", "create", "auth", cwd=other).code == 0
    assert git(other, "log", "-1", "--format=%s", "side").startswith("Add meta")
    found = project.treadle("next", "--json", cwd=other).json
    assert found["prompt_file"].startswith(str(other))


NOWHERE = [
    (("mission", "create", "Not Good"), 2, "slug_invalid", "treadle mission create not-good"),
    (("mission", "create", "a--b"), 2, "slug_invalid", "treadle mission create a-b"),
    (("mission", "create", "x" * 57), 2, "slug_invalid", "treadle mission create " + "x" * 56),
    (("mission", "create", "auth"), 2, "mission_exists", "--mission auth"),
    (("mission", "status", "--mission", "auht"), 1, "not_found", "--mission auth"),
    (("next", "--mission", "nothing-like-it"), 1, "not_found", "treadle mission list"),
    (("mission", "setup-plan"), 2, "mission_ambiguous", "treadle mission list"),
    (("next", "--retry"), 2, "mission_ambiguous", "treadle mission list"),
]


def test_names_that_lead_nowhere(mission):
    mission.project.treadle("mission", "create", "second")
    for words, code, error, hint in NOWHERE:
        result = mission.project.treadle(*words, "--json")
        assert (result.code, result.json["error"]["code"]) == (code, error), words
        assert hint in result.json["error"]["fix"][0]


def test_no_mission_and_no_repository_are_told(project, tmp_path):
    assert project.treadle("mission", "status", "--json").json["error"]["code"] == "no_mission"
    for words in (("next",), ("mission", "create", "x"), ("mission", "list")):
        result = project.treadle(*words, "--json", cwd=tmp_path)
        assert (result.code, result.json["error"]["code"]) == (1, "no_repository")


def test_git_that_is_missing_is_told(mission):
    for words in (("next",), ("mission", "status"), ("mission", "setup-plan")):
        result = mission.project.treadle(*words, "--json", env={"PATH": "/nonexistent"})
        assert (result.code, result.json["error"]["code"]) == (1, "git_missing")


def test_a_mission_is_found_from_its_own_folder(mission):
    mission.project.treadle("mission", "create", "second")
    found = mission.project.treadle("mission", "status", "--json", cwd=mission.folder)
    assert found.json["mission_slug"] == "auth"


def test_a_merge_in_progress_is_respected(mission):
    mission.project.git("update-ref", "MERGE_HEAD", "HEAD")
    before = mission.project.git("status", "--porcelain")
    result = mission.project.treadle("mission", "create", "other", "--json")
    assert (result.code, result.json["error"]["code"]) == (3, "blocked")
    assert mission.project.git("status", "--porcelain") == before


def test_a_commit_that_fails_leaves_nothing(project):
    (project.root / ".gitignore").write_text("missions/\n")
    before = sorted(project.root.iterdir())
    result = project.treadle("mission", "create", "auth", "--json")
    assert result.json["error"]["code"] == "git_failed"
    assert sorted(project.root.iterdir()) == before


def test_status_tells_phase_and_reason(mission):
    found = mission.project.treadle("mission", "status", "--json").json
    assert list(found) == [
        *("schema_version", "mission_slug", "phase", "phase_complete", "blocked_reason"),
        *("missing", "tasks", "coverage"),
    ]
    assert (found["phase"], found["blocked_reason"]) == ("specify", SPEC_SENTENCE)
    mission.specified()
    found = mission.project.treadle("mission", "status", "--json").json
    assert (found["phase"], found["blocked_reason"]) == ("plan", PLAN_SENTENCE)
    mission.with_tasks("", "lane: done\n")
    found = mission.project.treadle("mission", "status", "--json").json
    assert (found["phase"], found["phase_complete"]) == ("implement", False)
    assert (found["tasks"], found["missing"]) == ({"planned": 1, "done": 1}, [])
    assert found["blocked_reason"]


def test_a_broken_mission_does_not_hide_the_others(mission):
    mission.project.treadle("mission", "create", "second")
    (mission.folder / "meta.json").write_text("{broken")
    found = mission.project.treadle("mission", "list", "--json").json["missions"]
    assert [(item["mission_slug"], item["phase"]) for item in found] == [
        ("auth", None),
        ("second", "specify"),
    ]
    assert found[0]["error"].startswith("missions/auth/meta.json cannot be read")
    decision = mission.next("--mission", "auth")
    assert (decision["kind"], decision["reason_code"]) == ("blocked", "meta_invalid")
    assert decision["phase"] == mission.next("--mission", "auth", "--query")["phase"] == "specify"
    assert decision["unblock"] == ["git log --oneline -- missions/auth/meta.json"]


def test_a_task_file_that_cannot_be_read_is_named_with_a_command(tasked):
    tasked.task(1).rename(tasked.folder / "tasks" / "WP01 it's one.md")
    (tasked.folder / "tasks" / "WP01 it's one.md").write_text("---\nlane: nowhere\n---\n")
    decision = tasked.next()
    assert (decision["phase"], decision["reason_code"]) == ("implement", "task_file_invalid")
    words = shlex.split(decision["unblock"][0])
    assert words == ["git", "log", "--", "missions/auth/tasks/WP01 it's one.md"]
