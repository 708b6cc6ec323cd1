"""Linked work trees of one repository share what treadle keeps; a clone starts without it."""

import json
import shlex
import shutil
import subprocess
import sys

import pytest

from tests.builder import Project, git, wait_for

DO = '[agents.do]\ntype = "builtin"\nrun = ["sh", "-c", "cp README.md done.txt"]\n'
SPEC = "# Make done.txt\n\n## Acceptance Criteria\n\n- [ ] done `$ test -f done.txt`\n"


@pytest.fixture
def main(project):
    project.settings(DO)
    project.git("add", ".")
    project.git("commit", "-qm", "Settings")
    return project


@pytest.fixture
def linked(main, tmp_path):
    git(main.root, "worktree", "add", "-q", "-b", "feature", str(tmp_path / "linked"))
    return Project(tmp_path / "linked", main.folder)


def run(project, *words, code=0):
    asked = ("run", "--goal", "Make done.txt", "--ac", "x", "--verify", "AC1=test -f done.txt")
    done = project.treadle(*asked, *words, "--json")
    assert done.code == code, done
    return done.json.get("run_id")


def sh(line: str, cwd) -> subprocess.CompletedProcess:
    """Take a command literally, with treadle on PATH as this very one."""
    text = f'treadle() {{ {shlex.quote(sys.executable)} -m treadle "$@"; }}; {line}'
    return subprocess.run(["sh", "-c", text], cwd=cwd, capture_output=True, text=True)


def test_work_trees_share_runs_tasks_inbox_and_letters(main, linked):
    run_id = run(linked)
    assert not (linked.root / ".treadle" / "runs").exists()
    assert (main.root / ".treadle" / "runs" / run_id).is_dir()
    for project in (main, linked):
        assert project.only_run()["run_id"] == run_id
        assert project.treadle("log", run_id).code == 0
        assert project.treadle("why", run_id).code == 0
    assert main.treadle("task", "add", "Shared", "--id", "T1").code == 0
    assert linked.treadle("task", "show", "T1").code == 0
    sent = ("mail", "send", "--to", "bob", "--from", "amy", "--intent", "inform", "--summary", "Hi")
    assert linked.treadle(*sent).code == 0, linked.treadle(*sent)
    assert "amy   bob  inform" in main.treadle("mail", "list", "--as", "bob").out
    assert linked.treadle("send", "Do something").code == 0
    assert list((main.root / ".treadle" / "inbox").glob("*.md"))
    assert git(linked.root, "status", "--porcelain") == ""
    assert git(main.root, "status", "--porcelain") == ""


@pytest.mark.real
def test_a_run_begins_and_lands_where_its_work_tree_stands(main, linked):
    (linked.root / "only-here.txt").write_text("feature\n")
    linked.git("add", ".")
    linked.git("commit", "-qm", "Only here")
    run_id = run(linked)
    assert linked.show(run_id)["base_branch"] == "feature"
    elsewhere = main.treadle("land", run_id, "--json")
    assert elsewhere.json["error"]["code"] == "checked_out_elsewhere"
    (fix,) = elsewhere.json["error"]["fix"]
    assert fix == f"cd {linked.root} && treadle land {run_id}"
    assert sh(fix, main.root).returncode == 0
    assert (linked.root / "done.txt").is_file()
    assert git(linked.root, "log", "-1", "--format=%s") == "Make done.txt\n"
    assert not (main.root / "done.txt").exists()
    undo = main.treadle("undo", run_id, "--json").json["error"]["fix"]
    assert undo == [f"cd {linked.root} && treadle undo {run_id}"]
    assert sh(undo[0], main.root).returncode == 0
    assert not (linked.root / "done.txt").exists()


def test_a_spec_of_a_work_tree_is_listed_in_its_own_branch(main, linked):
    (linked.root / "specs").mkdir(exist_ok=True)
    (linked.root / "specs" / "01-done.spec.md").write_text(SPEC)
    linked.git("add", ".")
    linked.git("commit", "-qm", "Spec")
    assert linked.treadle("process").code == 0
    assert git(linked.root, "show", "feature:specs/processed-spec.md") == "01-done.spec.md\n"
    assert not (main.root / "specs" / "processed-spec.md").exists()
    assert git(linked.root, "status", "--porcelain") == ""


@pytest.mark.real
def test_settings_that_only_the_main_work_tree_has_count_everywhere(repo, tmp_path):
    git(repo, "worktree", "add", "-q", "-b", "feature", str(tmp_path / "linked"))
    main, linked = Project(repo, tmp_path), Project(tmp_path / "linked", tmp_path)
    assert main.treadle("init").code == 0  # nothing is committed
    main.settings(DO)
    run(linked)
    assert linked.treadle("doctor").code == 0


@pytest.mark.real
def test_init_in_a_linked_work_tree_serves_both(repo, tmp_path):
    git(repo, "worktree", "add", "-q", "-b", "feature", str(tmp_path / "linked"))
    main, linked = Project(repo, tmp_path), Project(tmp_path / "linked", tmp_path)
    assert linked.treadle("init", "--commit").code == 0
    linked.settings(DO)
    linked.git("commit", "-qam", "Settings")
    run_id = run(linked)
    assert (repo / ".treadle" / "runs" / run_id).is_dir()
    assert git(repo, "status", "--porcelain") == ""
    assert main.treadle("runs", "list", "--json").json["error"]["fix"] == ["treadle init"]
    git(repo, "merge", "-q", "feature")
    assert main.only_run()["run_id"] == run_id


@pytest.mark.real
def test_one_treadle_works_at_a_time_in_all_work_trees(main, linked, tmp_path):
    go = tmp_path / "go"
    slow = f"touch {tmp_path}/begun; while ! test -f {go}; do sleep 0.05; done; touch done.txt"
    main.settings(
        '[sandbox]\nmode = "off"\n[agents.do]\ntype = "builtin"\n'
        f"run = {json.dumps(['sh', '-c', slow])}\n"
    )
    first = main.start("run", "--goal", "g", "--ac", "x", "--verify", "AC1=test -f done.txt")
    try:
        wait_for((tmp_path / "begun").exists)
        run(linked, code=75)
    finally:
        go.write_text("")
        first.communicate(timeout=120)
    assert first.returncode == 0


@pytest.mark.real
def test_bare_repository_with_work_trees(main, tmp_path):
    bare, one, two = tmp_path / "bare.git", tmp_path / "one", tmp_path / "two"
    git(tmp_path, "clone", "-q", "--bare", str(main.root), str(bare))
    git(bare, "worktree", "add", "-q", "-b", "one", str(one))
    git(bare, "worktree", "add", "-q", "-b", "two", str(two))
    first, second = Project(one, main.folder), Project(two, main.folder)
    assert first.treadle("trust").code == 0
    run_id = run(first)
    assert second.only_run()["run_id"] == run_id
    assert (bare / "treadle" / ".treadle" / "runs" / run_id).is_dir()
    assert first.treadle("land", run_id).code == 0
    assert first.treadle("doctor").code == 0
    assert git(one, "status", "--porcelain") == ""
    assert git(bare, "fsck") == ""


@pytest.mark.real
def test_a_main_work_tree_that_moved_is_named_with_what_mends_it(main, linked, tmp_path):
    run_id = run(linked)
    moved = tmp_path / "moved"
    main.root.rename(moved)
    lost = linked.treadle("runs", "list", "--json").json["error"]
    assert lost["code"] == "work_tree_lost"
    assert str(main.root) in lost["message"]
    (fix,) = lost["fix"]
    assert sh(fix, moved).returncode == 0
    assert linked.only_run()["run_id"] == run_id
    here = Project(moved, main.folder)
    refused = here.treadle("land", run_id, "--json").json["error"]
    assert sh(refused["fix"][0], moved).returncode in (0, 3)


@pytest.mark.real
def test_a_work_tree_that_git_forgot_is_made_again(main, linked):
    shutil.rmtree(main.root / ".git" / "worktrees")
    lost = linked.treadle("runs", "list", "--json").json["error"]
    assert lost["code"] == "work_tree_lost"
    for line in lost["fix"]:
        done = sh(line, main.root)
        assert done.returncode == 0, done
    assert linked.treadle("runs", "list").code == 0


@pytest.mark.real
@pytest.mark.parametrize("forget", [True, False])
def test_a_run_of_a_removed_work_tree_goes_on(main, linked, forget):
    run_id = run(linked)
    if forget:
        git(main.root, "worktree", "remove", "--force", str(linked.root))
    else:
        shutil.rmtree(linked.root)
    landed = main.treadle("land", run_id, "--json")
    if landed.code:
        for line in landed.json["error"]["fix"]:
            assert sh(line, main.root).returncode == 0
        landed = main.treadle("land", run_id, "--json")
    assert landed.code == 0, landed
    assert "done.txt" in git(main.root, "ls-tree", "--name-only", "feature").split()


@pytest.mark.real
def test_trust_and_uninstall_belong_to_the_main_work_tree(main, linked):
    assert linked.treadle("trust", "--show", "--json").json["trusted"]
    run(linked)
    refused = linked.treadle("uninstall", "--json").json["error"]
    assert refused["code"] == "linked_work_tree"
    assert (main.root / ".treadle" / "runs").is_dir()
    assert sh(refused["fix"][0], linked.root).returncode == 0
    assert not (main.root / ".treadle" / "locks").exists()


@pytest.mark.real
def test_a_project_in_a_folder_is_shared_too(repo, tmp_path):
    web = Project(repo / "web", tmp_path)
    web.root.mkdir()
    (web.root / "README.md").write_text("web\n")
    web.git("add", ".")
    assert web.treadle("init", "--here", "--commit").code == 0
    web.settings(DO)
    web.git("commit", "-qam", "Settings")
    git(repo, "worktree", "add", "-q", "-b", "feature", str(tmp_path / "linked"))
    theirs = Project(tmp_path / "linked" / "web", tmp_path)
    run_id = run(theirs)
    assert web.only_run()["run_id"] == run_id
    assert theirs.treadle("land", run_id).code == 0
    assert (theirs.root / "done.txt").read_text() == "web\n"


@pytest.mark.real
def test_a_clone_knows_what_git_knows(main, tmp_path):
    (main.root / "specs").mkdir(exist_ok=True)
    (main.root / "specs" / "01-done.spec.md").write_text(SPEC)
    main.git("add", ".")
    main.git("commit", "-qm", "Spec")
    assert main.treadle("process").code == 0
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(main.root), str(clone))
    theirs = Project(clone, main.folder)
    assert theirs.treadle("trust").code == 0
    assert theirs.treadle("runs", "list", "--json").json["runs"] == []
    assert "1 run of another clone landed here" in theirs.treadle("runs", "list").out
    assert theirs.treadle("verify", "--all", "--json").json["green"] == ["01-done.spec.md"]
    (clone / "done.txt").unlink()
    git(clone, "commit", "-qam", "Lose it")
    red = theirs.treadle("verify", "--json")
    assert (red.code, red.json["red"]) == (1, ["01-done.spec.md"])
    assert "treadle answer Q-1 again" in theirs.treadle("desk").out
    assert theirs.treadle("desk", "show", "Q-1").code == 0
    assert theirs.treadle("answer", "Q-1", "again").code == 1  # red is red, with a task now
    assert len(theirs.treadle("task", "list", "--json").json["tasks"]) == 1
    before = git(clone, "rev-parse", "HEAD")
    assert theirs.treadle("process").code == 0
    assert git(clone, "rev-parse", "HEAD") == before  # its spec is done, as the list says


@pytest.mark.real
@pytest.mark.parametrize("point", ["after_intent", "after_move"])
def test_a_landing_that_was_killed_is_finished_from_another_work_tree(main, linked, point):
    run_id = run(linked)
    linked.treadle("land", run_id, env={"TREADLE_DIE_AT": point})
    run(main)  # whoever starts next recovers for all work trees
    assert main.show(run_id)["landed"] == git(linked.root, "rev-parse", "HEAD").strip()
    assert (linked.root / "done.txt").is_file()
    assert git(linked.root, "status", "--porcelain") == ""
    assert git(linked.root, "log", "--format=%s", "-2").split("\n")[0] == "Make done.txt"


@pytest.mark.real
def test_a_main_work_tree_whose_branch_knows_nothing_of_treadle_stays_clean(main, tmp_path):
    clone, linked = tmp_path / "clone", tmp_path / "linked"
    git(main.root, "branch", "plain", "HEAD~2")
    git(tmp_path, "clone", "-q", "--branch", "plain", str(main.root), str(clone))
    git(clone, "worktree", "add", "-q", str(linked), "main")
    theirs = Project(linked, main.folder)
    assert theirs.treadle("trust").code == 0
    run_id = run(theirs)
    assert (clone / ".treadle" / "runs" / run_id).is_dir()
    assert git(clone, "status", "--porcelain") == ""
    git(linked, "switch", "-q", "--detach")
    git(clone, "switch", "-q", "main")
    assert Project(clone, main.folder).only_run()["run_id"] == run_id
    assert git(clone, "status", "--porcelain") == ""
