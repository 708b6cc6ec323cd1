"""`treadle land` through the real command, on real git; what is the user's stays as it is."""

import os
import shlex
import shutil

import pytest

from tests.acceptance.site import Site
from tests.acceptance.untouched import lived_in, untouched
from tests.builder import git


@pytest.fixture
def site(project):
    return Site(project)


def test_a_passed_run_lands_as_one_commit(site):
    run_id = site.passed()
    base, tree = site.tip(), site.tree(f"treadle/{run_id}")
    result = site.land(run_id)
    assert result.code == 0
    assert result.json == {
        "run_id": run_id,
        "landed": site.tip("main"),
        "branch": "main",
        "merged": False,
        "by_hand": False,
        "below": [],
    }
    assert git(site.root, "log", "-1", "--format=%P %s%n%b").split("\n")[:2] == [
        f"{base} Make done",
        f"Treadle-Run: {run_id}",
    ]
    assert site.tree() == tree
    assert (site.root / "done.txt").read_text() == "done\n"
    assert git(site.root, "status", "--porcelain") == ""
    shown = site.project.show(run_id)
    assert (shown["landed"], shown["undone"]) == (site.tip(), None)
    assert site.project.event_types(run_id)[-2:] == ["landing", "landed"]


def test_the_workspace_goes_with_the_landing(site):
    run_id = site.passed()
    link = site.project.run_dir(run_id) / "workspace"
    workspace = link.resolve()
    assert workspace.is_dir()
    site.land(run_id)
    assert not workspace.exists()
    assert not link.is_symlink()


def test_a_long_goal_is_cut_and_told_in_full(site):
    goal = "Make " + "done " * 30
    run_id = site.passed(goal=goal)
    site.land(run_id)
    subject, _, body = git(site.root, "log", "-1", "--format=%B").partition("\n\n")
    assert len(subject) == 72
    assert goal.strip() in body


def test_a_task_is_named_in_the_commit(site):
    site.passed()
    site.project.treadle("task", "add", "Do it", "--id", "AUTH-1", "--verify", "AC1=true")
    run_id = site.project.treadle("run", "AUTH-1", "--anyway", "--json").json["run_id"]
    site.land(run_id)
    trailers = git(site.root, "log", "-1", "--format=%(trailers:only)")
    assert trailers == f"Treadle-Run: {run_id}\nTreadle-Task: AUTH-1\nTreadle-Agent: do\n\n"


def test_keep_steps_keeps_the_commits_of_the_run(site):
    site.project.good_agents()
    run_id = site.project.run_json()["run_id"]
    head = site.tip(f"treadle/{run_id}")
    result = site.land(run_id, "--keep-steps")
    assert result.json["landed"] == site.tip() == head


def test_keep_steps_after_the_base_moved_makes_one_commit_per_step(site):
    site.project.agent("do", 'ok(); (repo / "one").write_text("1")', edits=True)
    site.project.agent("act", 'ok(); (repo / "two").write_text("2")', edits=True)
    done = site.project.treadle(
        "run", "--goal", "Both", "--verify", "AC1=test -f two", "--json"
    ).json
    site.commit("mine.txt", "mine\n")
    tip = site.tip()
    result = site.land(done["run_id"], "--keep-steps")
    subjects = git(site.root, "log", "--reverse", "--format=%s", f"{tip}..").splitlines()
    assert subjects == ["do 1: Both", "act 1: Both"]
    assert result.json["merged"]
    assert site.undo(done["run_id"]).json["exact"]
    assert site.tree() == site.tree(tip)


def test_a_moved_base_is_merged_and_checked_again(site):
    run_id = site.passed()
    site.commit("mine.txt", "mine\n")
    result = site.land(run_id)
    assert result.json["merged"]
    assert {"mine.txt", "done.txt"} <= set(site.files())
    parents = git(site.root, "log", "-1", "--format=%P").split()
    assert parents == [site.tip("HEAD~1")]
    checks = [e for e in site.project.events(run_id) if e["type"] == "check_observed"]
    assert "merged tree" in checks[-1]["message"]


def test_both_changing_one_file_in_different_places_is_merged(site):
    site.commit("shared.txt", "".join(f"{n}\n" for n in range(20)))
    run_id = site.passed("sed -i s/^0$/run/ shared.txt; echo > done.txt")
    site.commit("shared.txt", (site.root / "shared.txt").read_text().replace("19\n", "mine\n"))
    assert site.land(run_id).code == 0
    lines = (site.root / "shared.txt").read_text().splitlines()
    assert (lines[0], lines[-1]) == ("run", "mine")


def test_a_merge_that_fails_its_check_is_refused(site):
    run_id = site.passed(verify="test -f done.txt && ! test -f mine.txt")
    site.commit("mine.txt", "mine\n")
    error = site.refused(run_id, "checks_failed")
    assert "AC1" in error["message"]
    log = error["fix"][0].removeprefix("cat ")
    assert (site.root / log).is_file()
    assert site.project.event(run_id, "land_refused")["data"]["code"] == "checks_failed"
    workspace = (site.project.run_dir(run_id) / "workspace").resolve()
    assert not (workspace / "mine.txt").exists()


def test_a_merge_is_checked_even_when_the_workspace_was_pruned(site):
    run_id = site.passed()
    site.project.treadle("runs", "prune")
    site.commit("mine.txt", "mine\n")
    assert site.land(run_id).json["merged"]


def test_a_conflict_is_refused_with_the_file(site):
    run_id = site.passed()
    site.commit("shared.txt", "mine\n")
    error = site.refused(run_id, "merge_conflict")
    assert error["files"] == ["shared.txt"]
    assert error["fix"] == [f"treadle rebase {run_id}"]


def test_work_that_is_in_the_branch_already_is_recorded_as_landed(site):
    run_id = site.passed()
    git(site.root, "merge", "-q", "--no-ff", "-m", "By hand", f"treadle/{run_id}")
    tip = site.tip()
    result = site.land(run_id)
    assert (result.code, result.json["landed"], site.tip()) == (0, tip, tip)


def test_a_run_that_changed_nothing_lands_as_nothing(site):
    run_id = site.passed("true", verify="true")
    result = site.land(run_id)
    assert (result.code, result.json["landed"]) == (0, None)


def test_a_run_that_has_not_passed_is_refused(site):
    site.passed()
    args = ("run", "--goal", "x", "--verify", "AC1=false", "--budget", "max_iterations=1")
    run_id = site.project.treadle(*args, "--json").json["run_id"]
    site.refused(run_id, "not_passed")


def test_landing_twice_is_refused_and_says_where(site):
    run_id = site.passed()
    site.land(run_id)
    error = site.refused(run_id, "already_landed")
    assert site.tip()[:12] in error["message"]
    assert "main" in error["message"]


def test_uncommitted_files_elsewhere_do_not_matter(site):
    site.commit("mine.txt", "mine\n")
    site.commit("staged.txt", "mine\n")
    site.commit("stashed.txt", "mine\n")
    run_id = site.passed()
    site.write("stashed.txt", "in the stash\n")
    git(site.root, "stash", "push", "-q")
    site.write("mine.txt", "changed\n")
    site.write("staged.txt", "staged\n")
    git(site.root, "add", "staged.txt")
    site.write("untracked.txt", "untracked\n")
    site.write(".gitignore", (site.root / ".gitignore").read_text() + ".env\n")
    site.write(".env", "secret\n")
    assert site.land(run_id).code == 0
    assert (site.root / "done.txt").exists()
    assert site.undo(run_id).code == 0


def test_an_uncommitted_file_that_overlaps_is_refused(site):
    site.commit("shared.txt", "base\n")
    run_id = site.passed()
    site.write("shared.txt", "mine\n")
    error = site.refused(run_id, "uncommitted_files")
    assert error["files"] == ["shared.txt"]
    assert "git stash push -- shared.txt" in error["fix"]


def test_staged_work_that_overlaps_is_refused(site):
    site.commit("shared.txt", "base\n")
    run_id = site.passed()
    site.write("shared.txt", "mine\n")
    git(site.root, "add", "shared.txt")
    site.write("shared.txt", "base\n")
    assert site.refused(run_id, "staged_files")["files"] == ["shared.txt"]


def test_a_staged_deletion_that_overlaps_is_refused(site):
    site.commit("shared.txt", "base\n")
    run_id = site.passed()
    git(site.root, "rm", "-q", "--cached", "shared.txt")
    assert site.refused(run_id, "staged_files")["files"] == ["shared.txt"]


def test_an_untracked_file_in_the_way_is_refused(site):
    run_id = site.passed()
    site.write("done.txt", "mine\n")
    assert site.refused(run_id, "file_in_the_way")["files"] == ["done.txt"]


@pytest.mark.parametrize(
    ("work", "mine", "in_the_way"),
    [
        ("echo s > .env", ".env", ".env"),
        ("mkdir build; echo s > build/x", "build", "build/x"),
        ("echo s > build", "build/x", "build"),
    ],
    ids=["file", "file-for-folder", "folder-for-file"],
)
def test_an_ignored_file_in_the_way_is_refused(site, work, mine, in_the_way):
    run_id = site.passed(f"{work}; echo > done.txt")
    exclude = site.root / ".git" / "info" / "exclude"
    exclude.write_text(".env\nbuild\n")
    site.write(mine, "secret\n")
    assert site.refused(run_id, "file_in_the_way")["files"] == [in_the_way]


def test_a_run_from_a_detached_head_needs_onto(site):
    git(site.root, "switch", "-q", "--detach")
    run_id = site.passed()
    site.refused(run_id, "no_branch")
    git(site.root, "branch", "other")
    assert site.land(run_id, "--onto", "other").json["branch"] == "other"
    assert "done.txt" in site.files("other")
    assert not (site.root / "done.txt").exists()


def test_a_branch_that_is_not_checked_out_moves_alone(site):
    git(site.root, "branch", "other")
    run_id = site.passed()
    head = site.tip()
    assert site.land(run_id, "--onto", "other").code == 0
    assert site.tip() == head
    assert "done.txt" in site.files("other")
    log = git(site.root, "reflog", "-1", "other")
    assert f"treadle: land {run_id}" in log


@pytest.mark.real
def test_landing_while_another_branch_is_checked_out(site):
    run_id = site.passed()
    git(site.root, "switch", "-q", "-c", "other")
    assert site.land(run_id).json["branch"] == "main"
    assert not (site.root / "done.txt").exists()
    assert "done.txt" in site.files("main")


@pytest.mark.real
def test_a_branch_checked_out_in_another_work_tree_is_refused(site, tmp_path):
    git(site.root, "worktree", "add", "-q", "-b", "other", str(tmp_path / "else where"))
    run_id = site.passed()
    error = site.refused(run_id, "checked_out_elsewhere", "--onto", "other")
    assert str(tmp_path / "else where") in error["message"]
    assert git(tmp_path / "else where", "status", "--porcelain") == ""


@pytest.mark.real
def test_a_project_in_a_linked_work_tree_lands_there(site, tmp_path):
    git(site.root, "worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    site.project.root = site.root = tmp_path / "linked"
    site.project.treadle("trust")
    run_id = site.passed()
    assert site.land(run_id).json["branch"] == "other"
    assert (site.root / "done.txt").exists()


def _begin_merge(site):
    git(site.root, "merge", "side", check=False)


def _begin_rebase(site):
    git(site.root, "rebase", "side", check=False)


def _begin_pick(site):
    git(site.root, "cherry-pick", "side", check=False)


def _begin_bisect(site):
    git(site.root, "bisect", "start")


@pytest.mark.real
@pytest.mark.parametrize("begin", [_begin_merge, _begin_rebase, _begin_pick, _begin_bisect])
def test_an_operation_in_progress_is_refused(site, begin):
    run_id = site.passed()
    git(site.root, "switch", "-q", "-c", "side", "HEAD~1")
    site.commit("x.txt", "side\n")
    git(site.root, "switch", "-q", "main")
    site.commit("x.txt", "main\n")
    begin(site)
    site.refused(run_id, "operation_in_progress")


@pytest.mark.real
def test_a_deleted_base_branch_is_refused(site):
    git(site.root, "switch", "-q", "-c", "feature")
    run_id = site.passed()
    git(site.root, "switch", "-q", "main")
    git(site.root, "branch", "-q", "-D", "feature")
    error = site.refused(run_id, "branch_missing")
    assert "feature" in error["message"]
    assert site.land(run_id, "--onto", "main").code == 0


@pytest.mark.real
def test_a_base_that_was_force_moved_takes_only_the_change(site):
    site.commit("dropped.txt", "dropped\n")
    run_id = site.passed()
    git(site.root, "reset", "-q", "--hard", "HEAD~2")
    site.commit("other.txt", "other\n")
    assert site.land(run_id).code == 0
    assert "done.txt" in site.files()
    assert "dropped.txt" not in site.files()


@pytest.mark.real
def test_a_runs_own_branch_is_nothing_to_land_on(site):
    run_id = site.passed()
    site.refused(run_id, "own_branch", "--onto", f"treadle/{run_id}")


@pytest.mark.real
def test_a_branch_named_treadle_can_be_landed_on_when_runs_are_called_otherwise(site):
    git(site.root, "branch", "treadle")
    run_id = site.passed(extra='[workspace]\nbranch = "runs/{run_id}"\n')
    assert site.land(run_id, "--onto", "treadle").code == 0
    assert "done.txt" in site.files("treadle")


@pytest.mark.real
def test_a_branch_named_treadle_stands_in_the_way_of_a_runs_own(site):
    git(site.root, "branch", "treadle")
    site.project.settings('[agents.do]\ntype = "builtin"\nrun = ["true"]\n')
    with lived_in(site.root), untouched(site.root):
        result = site.project.treadle(
            "run", "--goal", "x", "--verify", "AC1=true", "--anyway", "--json"
        )
    error = result.json["error"]
    assert (result.code, error["code"]) == (1, "branch_in_the_way")
    assert error["fix"] == ["git branch -m treadle treadle-old"]
    run = site.project.show(site.project.only_run()["run_id"])
    assert (run["status"], run["reason_code"]) == ("failed", "branch_in_the_way")


@pytest.mark.real
@pytest.mark.parametrize(
    "name",
    [
        "index",
        *(pytest.param(name, marks=pytest.mark.real) for name in ("HEAD", "refs/heads/main")),
    ],
)
def test_a_lock_of_another_git_is_respected(site, name):
    run_id = site.passed()
    lock = site.root / ".git" / f"{name}.lock"
    lock.write_text("")
    before = site.state()
    result = site.land(run_id)
    assert (result.code, result.json["error"]["code"]) == (3, "git_locked")
    assert site.state() == before
    assert lock.exists()
    lock.unlink()
    assert site.land(run_id).code == 0


@pytest.mark.real
def test_hooks_do_not_run(site, tmp_path):
    run_id = site.passed()
    for name in ("post-merge", "pre-commit", "reference-transaction", "post-checkout"):
        hook = site.root / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        hook.chmod(0o755)
    assert site.land(run_id).code == 0
    assert not (tmp_path / "ran").exists()


@pytest.mark.real
def test_settings_that_would_squash_stash_or_refuse_fast_forward_do_not_matter(site):
    run_id = site.passed()
    site.commit("mine.txt", "1\n")
    site.write("mine.txt", "2\n")
    for key, value in {
        "merge.autoStash": "true",
        "merge.ff": "false",
        "branch.main.mergeOptions": "--squash",
    }.items():
        git(site.root, "config", key, value)
    assert site.land(run_id).code == 0
    assert site.tip() == site.project.show(run_id)["landed"]


@pytest.mark.real
def test_signing_is_honoured(site, tmp_path):
    run_id = site.passed()
    signer = tmp_path / "signer"
    signer.write_text(
        "#!/bin/sh\ncat > /dev/null\necho '[GNUPG:] SIG_CREATED D' >&2\n"
        "printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nx\\n-----END PGP SIGNATURE-----\\n'\n"
    )
    signer.chmod(0o755)
    git(site.root, "config", "gpg.program", str(signer))
    git(site.root, "config", "commit.gpgSign", "true")
    assert site.land(run_id).code == 0
    assert "gpgsig -----BEGIN" in git(site.root, "cat-file", "-p", "HEAD")
    assert site.undo(run_id).code == 0
    assert "gpgsig -----BEGIN" in git(site.root, "cat-file", "-p", "HEAD")


@pytest.mark.real
def test_a_signer_that_fails_changes_nothing(site):
    run_id = site.passed()
    git(site.root, "config", "gpg.program", "false")
    git(site.root, "config", "commit.gpgSign", "true")
    before = site.state()
    result = site.land(run_id)
    assert (result.code, result.json["error"]["code"]) == (1, "git_failed")
    assert site.state() == before


@pytest.mark.real
def test_without_an_identity_treadle_signs_with_its_own_name(site, private_home):
    run_id = site.passed()
    (private_home / ".gitconfig").write_text("[init]\n\tdefaultBranch = main\n")
    assert site.land(run_id).code == 0
    assert git(site.root, "log", "-1", "--format=%an <%ae>") == "treadle <treadle@localhost>\n"


@pytest.mark.real
def test_a_whole_run_without_an_identity(site, private_home):
    (private_home / ".gitconfig").write_text("[init]\n\tdefaultBranch = main\n")
    setting = '[agents.do]\ntype = "builtin"\nrun = ["touch", "done.txt"]\n'
    site.project.settings(setting)
    done = site.project.treadle("run", "--goal", "x", "--verify", "AC1=test -f done.txt", "--json")
    name = git(site.root, "log", "-1", "--format=%an <%ae>", done.json["branch"])
    assert name == "treadle <treadle@localhost>\n"


@pytest.mark.real
def test_odd_names_land_and_are_refused_by_name(site):
    names = ["with space.txt", "ünïcode.txt", "quo'te.txt"]
    work = "; ".join(f"echo x > {shlex.quote(name)}" for name in names)
    run_id = site.passed(f"{work}; echo > done.txt")
    site.write("with space.txt", "mine\n")
    error = site.refused(run_id, "file_in_the_way")
    assert error["files"] == ["with space.txt"]
    assert error["fix"] == ["mv 'with space.txt' 'with space.txt'.mine"]
    (site.root / "with space.txt").unlink()
    assert site.land(run_id).code == 0
    assert all((site.root / name).exists() for name in names)
    assert site.undo(run_id).json["exact"]


@pytest.mark.real
def test_a_name_that_is_no_text_is_refused_like_any_other(site):
    name = os.fsdecode(b"b\xffd.txt")
    site.write(name, "base\n")
    git(site.root, "add", ".")
    git(site.root, "commit", "-q", "-m", "Odd name")
    run_id = site.passed("for f in b*.txt; do echo run > $f; done; echo > done.txt")
    site.write(name, "mine\n")
    before = site.state()
    result = site.project.treadle("land", run_id, "--json")
    assert result.json["error"]["files"] == [name]
    assert site.state() == before
    assert (site.root / name).read_text() == "mine\n"
    assert "b\\udcffd.txt" in site.project.event(run_id, "land_refused")["message"]


@pytest.mark.real
def test_a_file_of_the_user_with_a_line_break_in_its_name(site):
    name = "line\nbreak.txt"
    site.commit(name, "base\n")
    run_id = site.passed()
    git(site.root, "rm", "-q", name)
    git(site.root, "commit", "-q", "-m", "Remove it")
    assert site.land(run_id).code == 0
    assert name not in git(site.root, "ls-files", "-z").split("\0")


@pytest.mark.real
def test_a_new_name_with_a_line_break_fails_its_step(site):
    setting = '[agents.do]\ntype = "builtin"\nrun = ["touch", "a\\nb", "done.txt"]\n'
    site.project.settings(setting)
    with untouched(site.root):
        done = site.project.treadle(
            "run", "--goal", "x", "--verify", "AC1=true", "--anyway", "--json"
        )
    assert (done.code, done.json["reason_code"]) == (1, "patch_refused")
    assert "name_control: a\\nb" in done.json["reason"]


@pytest.mark.real
def test_a_project_whose_path_has_a_line_break(site, tmp_path):
    moved = tmp_path / "line\nbreak"
    site.root.rename(moved)
    site.project.root = site.root = moved
    site.project.treadle("trust")
    run_id = site.passed()
    site.commit("mine.txt", "mine\n")
    assert site.land(run_id).json["merged"]
    assert site.undo(run_id).json["exact"]


@pytest.mark.real
def test_a_project_with_spaces_and_other_letters_in_its_path(site, tmp_path):
    run_id = site.passed()
    moved = tmp_path / "mövéd pröject"
    site.root.rename(moved)
    site.project.root = site.root = moved
    site.project.treadle("trust")
    site.commit("mine.txt", "mine\n")
    assert site.land(run_id).json["merged"]
    assert (moved / "done.txt").exists()


@pytest.mark.real
def test_line_endings_of_the_checkout_follow_the_users_settings(site):
    git(site.root, "config", "core.autocrlf", "true")
    site.commit("text.txt", "one\r\ntwo\r\n")
    run_id = site.passed("printf 'a\\r\\nb\\r\\n' > done.txt")
    site.write("text.txt", "one\r\nmine\r\n")
    assert site.land(run_id).code == 0
    assert (site.root / "done.txt").read_bytes() == b"a\r\nb\r\n"
    assert git(site.root, "cat-file", "-p", "HEAD:done.txt") == "a\nb\n"


@pytest.mark.real
def test_a_shallow_clone(site, tmp_path):
    site.commit("one.txt", "1\n")
    site.commit("two.txt", "2\n")
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{site.root}", str(shallow))
    site.project.root = site.root = shallow
    site.project.treadle("trust")
    run_id = site.passed()
    site.commit("mine.txt", "mine\n")
    assert site.land(run_id).json["merged"]
    assert site.undo(run_id).json["exact"]


@pytest.mark.real
def test_a_repository_with_a_submodule(site, tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    git(inner, "commit", "-q", "--allow-empty", "-m", "Inner")
    allow = ("-c", "protocol.file.allow=always")
    git(site.root, *allow, "submodule", "--quiet", "add", str(inner), "mod")
    git(site.root, "commit", "-q", "-m", "Submodule")
    run_id = site.passed()
    git(site.root / "mod", "commit", "-q", "--allow-empty", "-m", "Mine")
    mine = site.tip("HEAD:mod"), git(site.root / "mod", "rev-parse", "HEAD")
    assert site.land(run_id).code == 0
    assert (site.tip("HEAD:mod"), git(site.root / "mod", "rev-parse", "HEAD")) == mine


@pytest.mark.real
def test_a_content_filter_of_the_user_is_used_in_the_checkout(site):
    site.commit(".gitattributes", "*.big filter=pointer\n")
    run_id = site.passed("echo BIG > x.big; echo > done.txt")
    git(site.root, "config", "filter.pointer.clean", "sed s/SMUDGED/BIG/")
    git(site.root, "config", "filter.pointer.smudge", "sed s/BIG/SMUDGED/")
    assert site.land(run_id).code == 0
    assert (site.root / "x.big").read_text() == "SMUDGED\n"


@pytest.mark.real
def test_large_files_without_the_program_for_them_stay_pointers(site):
    site.commit(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    site.commit("old.bin", "version https://git-lfs.github.com/spec/v1\nsize 1\n")
    run_id = site.passed("echo raw > new.bin; echo > done.txt")
    site.write("old.bin", "mine\n")
    assert site.land(run_id).code == 0
    assert (site.root / "new.bin").read_text() == "raw\n"
    assert site.undo(run_id).json["exact"]


@pytest.mark.real
def test_a_file_outside_a_sparse_checkout_that_the_user_made_is_refused(site):
    site.commit("far/away.txt", "1\n")
    run_id = site.passed("echo 2 > far/new.txt; echo > done.txt")
    git(site.root, "sparse-checkout", "set", "src", ".treadle")
    site.write("far/new.txt", "mine\n")
    assert site.refused(run_id, "file_in_the_way")["files"] == ["far/new.txt"]


@pytest.mark.real
def test_a_sparse_checkout_stays_sparse(site):
    site.commit("far/away.txt", "1\n")
    run_id = site.passed("echo 2 > far/away.txt; echo > done.txt")
    git(site.root, "sparse-checkout", "set", "src", ".treadle")
    assert site.land(run_id).code == 0
    assert not (site.root / "far").exists()
    assert git(site.root, "show", "HEAD:far/away.txt") == "2\n"


@pytest.mark.real
def test_a_bare_repository_is_told_apart(site, tmp_path):
    git(tmp_path, "clone", "-q", "--bare", str(site.root), str(tmp_path / "bare.git"))
    for command in (
        ("land", "x"),
        ("undo", "x"),
        ("run", "--goal", "x"),
        ("runs", "list"),
        ("init",),
    ):
        result = site.project.treadle(*command, "--json", cwd=tmp_path / "bare.git")
        assert (result.code, result.json["error"]["code"]) == (1, "bare_repository")
        assert result.json["error"]["fix"][0].startswith("git clone ")


@pytest.mark.real
def test_a_bare_repository_with_work_trees_can_be_landed_on(site, tmp_path):
    bare, linked = tmp_path / "bare.git", tmp_path / "linked"
    git(tmp_path, "clone", "-q", "--bare", str(site.root), str(bare))
    git(bare, "worktree", "add", "-q", "-b", "other", str(linked))
    site.project.root = site.root = linked
    site.project.treadle("trust")
    run_id = site.passed()
    result = site.project.treadle("land", run_id, "--onto", "main", "--json")
    assert result.code == 0, result
    assert "done.txt" in git(bare, "ls-tree", "--name-only", "main").split()


@pytest.mark.real
def test_an_agent_cannot_land(site):
    run_id = site.passed()
    env = {"TREADLE_RUN": run_id}
    result = site.project.treadle("land", run_id, "--json", env=env)
    assert result.json["error"]["code"] == "inside_run"


@pytest.mark.real
def test_a_commit_between_check_and_move_is_noticed(site):
    """A branch that moved under the landing is not fast-forwarded over."""
    run_id = site.passed(verify="test -f done.txt", extra='[sandbox]\nmode = "off"\n')
    site.commit("mine.txt", "1\n")
    # The check on the merged tree is the last moment before the move.
    slow = f"cd {site.root} && git commit -q --allow-empty -m Meanwhile"
    order = site.project.run_dir(run_id) / "run.json"
    order.write_text(order.read_text().replace("test -f done.txt", slow))
    result = site.project.treadle("land", run_id, "--json")
    assert result.code == 3, result
    assert git(site.root, "log", "-1", "--format=%s") == "Meanwhile\n"
    assert site.project.show(run_id)["landed"] is None


@pytest.mark.real
def test_what_was_landed_survives_a_lost_store(site):
    run_id = site.passed()
    site.land(run_id)
    for path in (site.root / ".treadle").glob("treadle.db*"):
        path.unlink()
    shutil.rmtree(site.root / ".treadle" / "locks")
    assert site.project.treadle("doctor", "--repair").code in (0, 1)
    assert site.project.show(run_id)["landed"] == site.tip()
    site.refused(run_id, "already_landed")


@pytest.mark.real
def test_a_project_that_was_moved_since(site):
    run_id = site.passed()
    new = site.root.with_name("moved")
    site.root.rename(new)
    site.root = site.project.root = new
    refused = site.project.treadle("land", run_id, "--json")
    assert (refused.code, refused.json["error"]["code"]) == (3, "untrusted")
    assert site.project.treadle("trust").code == 0
    assert site.land(run_id).code == 0
    assert (new / "done.txt").read_text() == "done\n"
    assert site.undo(run_id).code == 0
    assert not (new / "done.txt").exists()
