"""Commands judge the commit in a checkout of its own: nothing an agent left is there."""

import json
from pathlib import Path

import pytest

BUILTIN = "ok()"


def edits(project, code):
    """Let `do` edit the workspace with a few lines of Python."""
    project.agent("do", f'import subprocess\nos.chdir(repo)\n{code}\nok("edited")', edits=True)


def run(project, command, *more):
    return project.run_json("--verify", f"AC1={command}", "--budget", "max_iterations=1", *more)


def log(project, run_id, step="003-check"):
    return (project.step_dir(run_id, step) / "files/checks/AC1.txt").read_text()


def seen(project, run_id, step="003-check"):
    path = project.step_dir(run_id, step) / "files/checks/observed.json"
    return json.loads(path.read_text())[0]


def ignore(project, *names):
    (project.root / ".gitignore").write_text("".join(f"{name}\n" for name in names))
    project.git("add", ".gitignore")
    project.git("commit", "-q", "-m", "Ignore")


LEFT = 'pathlib.Path("left.txt").write_text("left"); pathlib.Path("new.txt").write_text("n")'


def test_an_ignored_file_that_the_agent_left_is_not_there(project):
    ignore(project, "left.txt")
    edits(project, LEFT)
    assert run(project, "test -f new.txt")["status"] == "passed"
    assert run(project, "test -f left.txt")["verdict"] == "FAIL"


def test_the_workspace_is_the_named_way_back(project):
    ignore(project, "left.txt")
    project.settings('[checks]\nplace = "workspace"\n')
    edits(project, LEFT)
    assert run(project, "test -f left.txt")["status"] == "passed"


@pytest.mark.parametrize("tier", ["A", "B"])
def test_nothing_an_agent_left_elsewhere_can_be_read(project, tier):
    project.settings(f'[sandbox]\ntier = "{tier}"\n')
    ignore(project, "left.txt")
    edits(
        project,
        f"{LEFT}\n"
        '(step / "left.txt").write_text("left")\n'
        'pathlib.Path("where.txt").write_text(f"{repo}/left.txt {step.parent}/002-do/left.txt")',
    )
    found = run(project, "test -s where.txt && cat $(cat where.txt)")
    assert found["verdict"] == "FAIL"
    assert log(project, found["run_id"]).count("cat:") == 2


def test_every_command_finds_the_commit_and_its_own_temporary_folder(project):
    ignore(project, "*.tmp")
    edits(project, 'pathlib.Path("new.txt").write_text("n")')
    leave = "touch a.tmp b.txt $TMPDIR/c; mkdir empty; rm README.md; touch .git/hooks"
    clean = "test -f README.md -a ! -e a.tmp -a ! -e b.txt -a ! -e empty -a ! -e $TMPDIR/c"
    words = ("--ac", "it leaves nothing", "--verify", f"AC2={clean}")
    assert run(project, f"{leave}; test -f new.txt", *words)["status"] == "passed"


def setup(project, script, *more):
    (project.root / "setup.sh").write_text(script)
    project.git("add", ".")
    project.git("commit", "-q", "-m", "Setup")
    argv = json.dumps(["sh", "setup.sh", *more])
    project.settings(f"[workspace]\nsetup = {argv}\n")


COUNT = "mkdir -p dep empty; echo made >> dep/made; date +%N > dep/once\n"


def test_the_setup_runs_in_the_clean_checkout_and_its_files_stay(project):
    ignore(project, "dep/")
    setup(project, COUNT)
    edits(
        project,
        'pathlib.Path("dep/planted").write_text("p"); pathlib.Path("dep/made").write_text("p")\n'
        'pathlib.Path("new.txt").write_text("n")',
    )
    found = run(project, "cat dep/once; ls dep; test -d empty -a -f new.txt -a ! -e dep/planted")
    assert found["status"] == "passed"
    before = project.step_dir(found["run_id"], "001-plan") / "files/checks/before/AC1.txt"
    # What it made before the work still serves: the very same file.
    assert before.read_text() == log(project, found["run_id"])


def test_what_a_command_does_to_files_of_the_setup_makes_it_run_again(project):
    ignore(project, "dep/")
    setup(project, COUNT)
    edits(project, 'pathlib.Path("new.txt").write_text("n")')
    spoil = "cat dep/made; echo spoilt > dep/made; touch -d @0 dep/made; touch dep/more"
    found = run(project, f"test ! -e dep/more && {spoil}; test -f new.txt")
    assert found["status"] == "passed"
    assert log(project, found["run_id"]) == "made\n"


@pytest.mark.real
@pytest.mark.parametrize(
    ("change", "again"),
    [
        ('pathlib.Path("requirements.txt").write_text("a")', True),
        ('pathlib.Path("sub").mkdir(); pathlib.Path("sub/uv.lock").write_text("a")', True),
        ('pathlib.Path("setup.sh").write_text(pathlib.Path("setup.sh").read_text() + "#")', True),
        ('pathlib.Path("helper.txt").write_text("other")', True),
        ('pathlib.Path("README.md").write_text("other")', False),
    ],
    ids=["requirements", "lock", "script", "named by the script", "other"],
)
def test_the_setup_runs_again_when_what_it_depends_on_changed(project, change, again):
    ignore(project, "dep/")
    (project.root / "helper.txt").write_text("helper")
    setup(project, f"{COUNT}cat helper.txt > dep/helper\n")
    edits(project, change)
    found = run(project, "cat dep/once; false")
    before = project.step_dir(found["run_id"], "001-plan") / "files/checks/before/AC1.txt"
    assert (before.read_text() != log(project, found["run_id"])) is again


def test_a_setup_that_fails_on_the_commit_fails_the_criterion(project):
    ignore(project, "dep/")
    setup(project, "test ! -e uv.lock || { echo broken lock; exit 9; }\n")
    edits(project, 'pathlib.Path("uv.lock").write_text("bad")')
    found = run(project, "test -f uv.lock")
    assert found["verdict"] == "FAIL"
    assert log(project, found["run_id"]) == "broken lock\n"
    assert seen(project, found["run_id"])["note"].startswith("not run: workspace.setup exited")


@pytest.mark.real
def test_files_of_worktreeinclude_are_there(project):
    ignore(project, ".env")
    (project.root / ".env").write_text("PORT=1\n")
    (project.root / ".worktreeinclude").write_text(".env\n")
    edits(project, 'pathlib.Path(".env").write_text("PORT=2"); pathlib.Path("n").write_text("n")')
    assert run(project, "grep -q PORT=1 .env && test -f n")["status"] == "passed"


@pytest.mark.real
def test_the_second_checkout_goes_with_the_workspace(project):
    edits(project, 'pathlib.Path("new.txt").write_text("n")')
    found = run(project, "test -f new.txt")
    folder = Path((project.run_dir(found["run_id"]) / "workspace").readlink()).parent
    assert (folder / f"{found['run_id']}.clean").is_dir()
    assert project.treadle("land", found["run_id"]).code == 0
    assert [path.name for path in folder.iterdir()] == []
    left = [path.name for path in project.run_dir(found["run_id"]).iterdir()]
    assert [name for name in left if "clean" in name] == []


@pytest.mark.real
def test_a_submodule_is_what_the_setup_made_of_it(project):
    (project.root / ".gitmodules").write_text('[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n')
    setup(project, "mkdir -p sub; echo made > sub/made\n")
    head = project.git("rev-parse", "HEAD").strip()
    project.git("update-index", "--add", "--cacheinfo", f"160000,{head},sub")
    project.git("commit", "-q", "-m", "A submodule")
    edits(project, 'pathlib.Path("new.txt").write_text("n")')
    spoil = "cat sub/made; echo spoilt > sub/made; echo more > sub/more"
    found = run(project, f"test ! -e sub/more && {spoil}; test -f new.txt")
    assert found["status"] == "passed"
    assert log(project, found["run_id"]) == "made\n"


@pytest.mark.real
def test_a_checkout_that_a_command_locks_is_made_anew(project):
    edits(project, 'pathlib.Path("new.txt").write_text("n")')
    lock = "mkdir -p deep/er; touch deep/er/x; chmod 0 deep; chmod 500 ."
    found = run(project, f"test ! -e deep && {lock}; test -f new.txt")
    assert found["status"] == "passed"
    assert log(project, found["run_id"]) == ""


@pytest.mark.real
def test_from_commit_to_commit_only_what_differs_is_written(project):
    edits(project, 'pathlib.Path("new.txt").write_text("n")')
    found = run(project, "stat -c '%i %Z' README.md; test -f new.txt")
    assert found["status"] == "passed"
    before = project.step_dir(found["run_id"], "001-plan") / "files/checks/before/AC1.txt"
    assert before.read_text() == log(project, found["run_id"])
