"""What becomes of files that agents, setups and check commands leave in the workspace."""

import shutil

import pytest

from tests.acceptance.untouched import untouched
from tests.builder import wait_for

IGNORED = "*.o\n__pycache__/\ndeps/\n"


@pytest.fixture
def site(project, monkeypatch):
    monkeypatch.setenv("TREADLE_SANDBOX", "off")  # what a sandbox would not even let happen
    (project.root / ".gitignore").write_text(IGNORED)
    project.git("add", ".gitignore")
    project.git("commit", "-q", "-m", "Ignore")
    return project


def run(site, *options):
    args = ("run", "--goal", "Make done.txt", "--verify", "AC1=test -f done.txt", *options)
    with untouched(site.root):
        return site.treadle(*args, "--json").json


def ignored(site, run_id):
    events = [e for e in site.events(run_id) if e["type"] == "ignored_not_harvested"]
    return [(event["data"]["count"], event["data"]["files"]) for event in events]


def touch(*names):
    return f"[((repo / n).parent.mkdir(exist_ok=True), (repo / n).touch()) for n in {names!r}]; "


def test_new_ignored_files_are_named_once_and_not_committed(site):
    site.agent("do", touch("a.o", "__pycache__/a.pyc") + "ok()", edits=True)
    site.agent("act", touch("a.o", "b.o", "done.txt") + "ok()", edits=True)
    result = run(site)
    assert ignored(site, result["run_id"]) == [(2, ["__pycache__/", "a.o"]), (1, ["b.o"])]
    files = site.git("diff", "--name-only", result["base_commit"], result["branch"]).split()
    assert files == ["done.txt"]


def test_many_ignored_files_are_counted_and_some_named(site):
    names = [f"{n:02d}.o" for n in range(30)]
    site.agent("do", touch(*names, "done.txt") + "ok()", edits=True)
    assert ignored(site, run(site)["run_id"]) == [(30, names[:20])]


def test_an_agent_that_may_not_edit_is_told_about_too(site):
    site.good_agents()
    site.agent("do", touch("a.o") + "ok()")
    assert ignored(site, run(site)["run_id"]) == [(1, ["a.o"])]


def test_files_of_setup_checks_and_plan_are_not_the_workers(site):
    setup = '[workspace]\nsetup = ["sh", "-c", "mkdir deps; touch deps/x s.o"]\n'
    site.settings(f'{setup}[checks]\nplace = "workspace"\n')
    site.agent("plan", touch("p.o") + "ok()")
    site.agent("do", touch("done.txt", "deps/y", "s.o", "p.o", "c.o") + "ok()", edits=True)
    verify = ("--verify", "AC1=touch c.o; test -f done.txt")
    result = site.treadle("run", "--goal", "Make", *verify, "--json").json
    assert (result["status"], ignored(site, result["run_id"])) == ("passed", [])


def test_ignored_files_stay_from_step_to_step(site):
    site.agent("do", touch("a.o") + "ok()", edits=True)
    code = 'assert (repo / "a.o").exists(); (repo / "done.txt").touch(); ok()'
    site.agent("act", code, edits=True)
    assert run(site)["status"] == "passed"


def test_what_an_agent_commits_itself_is_taken_as_file_contents(site):
    code = (
        'import subprocess; (repo / "done.txt").write_text("by hand\\n")\n'
        "for args in (['add', '.'], ['commit', '-qm', 'mine'], ['tag', 'mine']):\n"
        "    subprocess.run(['git', *args], cwd=repo, check=True)\nok()"
    )
    site.agent("do", code, edits=True)
    result = run(site)
    assert site.git("show", f"{result['branch']}:done.txt") == "by hand\n"
    subjects = site.git("log", "--format=%s", f"{result['base_commit']}..{result['branch']}")
    assert subjects == "do 1: Make done.txt\n"
    assert site.git("tag") == ""
    diff = site.step_dir(result["run_id"], "002-do") / "files" / "workspace.diff"
    assert "+by hand" in diff.read_text()


def test_what_a_setup_makes_stays_and_what_it_changes_is_put_back(site):
    script = "echo mine > README.md; mkdir -p odd/deep; touch new.txt deps.o odd/deep/x"
    site.settings(f'[workspace]\nsetup = ["sh", "-c", "{script}"]\n')
    status = "import subprocess; seen = subprocess.getoutput('git status --porcelain')\n"
    there = 'assert (seen, (repo / "new.txt").exists()) == ("", True), seen\n'
    site.agent("do", status + there + touch("odd/y") + "ok()", edits=True)
    site.agent("act", there.replace("seen", '""') + touch("done.txt") + "ok()", edits=True)
    verify = ("--verify", "AC1=test -f odd/deep/x && test -f done.txt")
    result = site.treadle("run", "--goal", "Make", *verify, "--json").json
    assert result["status"] == "passed"
    ready = site.event(result["run_id"], "workspace_ready")["data"]
    assert (ready["undone"], sorted(ready["kept"])) == (["README.md"], ["new.txt", "odd/"])
    kept = (site.run_dir(result["run_id"]) / "setup" / "changes.diff").read_text()
    assert "+mine" in kept
    assert "new.txt" not in kept
    files = site.git("diff", "--name-only", result["base_commit"], result["branch"]).split()
    assert files == ["done.txt"]


def test_what_a_setup_makes_is_there_again_in_a_workspace_that_is_made_anew(site):
    site.settings('[workspace]\nsetup = ["sh", "-c", "mkdir odd; touch odd/x new.txt"]\n')
    site.agent("do", "sys.exit(1)", edits=True)
    run_id = run(site)["run_id"]
    shutil.rmtree(site.run_dir(run_id).joinpath("workspace").resolve())
    there = "assert sorted(os.listdir(repo / 'odd')) == ['x'] and (repo / 'new.txt').exists(); "
    site.agent("do", there + touch("odd/y", "done.txt") + "ok()", edits=True)
    done = site.treadle("run", "--resume", run_id, "--json").json
    assert done["status"] == "passed", done
    files = site.git("diff", "--name-only", done["base_commit"], done["branch"]).split()
    assert files == ["done.txt"]


@pytest.mark.parametrize("role", ["plan", "check"])
def test_new_files_of_a_role_that_only_reads_are_kept_and_removed(site, role):
    site.good_agents()
    text = (site.folder / f"{role}.py").read_text()
    (site.folder / f"{role}.py").write_text(text + '\n(repo / "notes.txt").write_text("mine\\n")')
    result = site.run_json()
    run_id, index = result["run_id"], {"plan": 1, "check": 3}[role]
    kept = site.step_dir(run_id, f"{index:03d}-{role}") / "files" / "workspace-changes.diff"
    assert "+mine" in kept.read_text()
    assert "notes.txt" in site.event(run_id, "workspace_restored")["message"]
    assert "notes.txt" not in site.git("ls-tree", "-r", "--name-only", result["branch"])
    assert not (site.run_dir(run_id) / "workspace" / "notes.txt").exists()


def test_edits_of_a_step_that_is_cut_off_twice_are_kept_twice(site):
    sleepy = '(repo / "README.md").write_text({!r}); (step / "x").touch(); time.sleep(600)'
    first = ("--goal", "x", "--verify", "AC1=test -f done.txt")
    for word in ("first", "second"):
        site.agent("do", sleepy.format(word), edits=True)
        again = word == "second" and ("--resume", site.only_run()["run_id"])
        process = site.start("run", *(again or first))
        begun = wait_for(lambda: list(site.root.glob(".treadle/runs/*/steps/002-do.tmp-*/x")))
        process.kill()
        process.communicate()
        begun[0].unlink()
    site.agent("do", touch("done.txt") + "ok()", edits=True)
    run_id = site.only_run()["run_id"]
    assert site.treadle("run", "--resume", run_id).code == 0
    kept = site.run_dir(run_id) / "interrupted"
    assert "+first" in (kept / "002.diff").read_text()
    assert "+second" in (kept / "002-2.diff").read_text()
