"""A project in a folder of its repository: it works there, and changes nothing outside it."""

import json
import os
import pty
import subprocess
import sys

import pytest

from tests.acceptance.mission import Mission
from tests.acceptance.test_fleet import QUICK
from tests.builder import ADD_DONE, Project, git

WEB = "packages/web"
FILES = {"README.md": "# Whole\n", f"{WEB}/app.txt": "app\n", "packages/api/api.txt": "api\n"}


def worker(line: str) -> str:
    """Return settings with a do agent of one line of shell, which really edits."""
    return f'[agents.do]\ntype = "builtin"\nrun = {json.dumps(["sh", "-c", line])}\n'


def make(repo, folder, name, line="pwd > where.txt; cp app.txt done.txt"):
    """Set up a project in a folder through the real command."""
    (folder / "agents").mkdir(exist_ok=True)
    made = Project(repo / name, folder / "agents")
    made.root.mkdir(parents=True, exist_ok=True)
    done = made.treadle("init", "--here", "--commit", "--json")
    assert (done.code, done.json["root"]) == (0, str(made.root)), done
    made.settings(worker(line))
    made.git("commit", "-qam", "Settings")
    return made


@pytest.fixture
def whole(repo):
    for name, text in FILES.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text)
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "Packages")
    return repo


@pytest.fixture
def web(whole, tmp_path):
    return make(whole, tmp_path, WEB)


def run(project, *words, verify="test -f done.txt && test -f app.txt", code=0):
    asked = ("run", "--goal", "Make done.txt", "--ac", "done", "--verify", f"AC1={verify}")
    done = project.treadle(*asked, *words, "--json")
    assert done.code == code or code is None, done
    return done.json


def test_a_prompt_names_what_the_setup_made_from_the_project(web):
    answer = '{"version": 1, "status": "ok", "summary": "done"}'
    cmd = json.dumps(["sh", "-c", f"cat > /dev/null; touch done.txt; echo '{answer}'"])
    setup = '[workspace]\nsetup = ["touch", "made.txt"]\n'
    web.settings(f'[agents.do]\ntype = "command"\ncmd = {cmd}\n{setup}')
    run_id = run(web)["run_id"]
    told = (web.step_dir(run_id, "002-do") / "logs" / "prompt.md").read_text()
    assert "nor is what you put there: made.txt." in told


def test_init_in_a_folder_wants_to_know_which_project_is_meant(whole):
    project = Project(whole / WEB, whole)
    refused = project.treadle("init", "--json")
    error = refused.json["error"]
    assert (refused.code, error["code"]) == (3, "which_project")
    assert error["fix"] == ["treadle init --here", f"cd {whole} && treadle init"]
    assert not list(whole.rglob(".treadle"))
    line = error["fix"][1].replace("treadle init", f"{sys.executable} -m treadle init")
    subprocess.run(["sh", "-c", line], cwd=project.root, check=True, capture_output=True)
    assert (whole / ".treadle" / "config.toml").is_file()
    assert project.treadle("init", "--json").json["root"] == str(whole)


@pytest.mark.parametrize(("answer", "where"), [("h", WEB), ("w", ".")])
def test_init_asks_on_a_terminal(whole, answer, where):
    project = Project(whole / WEB, whole)
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "treadle", "init"]
    with subprocess.Popen(words, cwd=project.root, stdin=theirs, stderr=theirs) as process:
        os.write(ours, f"{answer}\n".encode())
        assert process.wait(60) == 0
    assert (whole / where / ".treadle" / "config.toml").is_file()


@pytest.mark.real
def test_the_wheel_turns_in_the_folder_and_lands(web, whole):
    web.settings(worker("pwd > where.txt; cp app.txt done.txt") + "[workspace]\nsetup = ['pwd']\n")
    web.git("commit", "-qam", "Setup")
    run_id = run(web)["run_id"]
    assert (whole / WEB / ".treadle" / "runs" / run_id).is_dir()
    setup = (web.run_dir(run_id) / "setup" / "stdout.txt").read_text()
    assert setup.rstrip().endswith(f"/{run_id}/{WEB}")
    landed = web.treadle("land", run_id, "--json", cwd=web.root)
    assert landed.code == 0, landed
    assert (web.root / "where.txt").read_text().rstrip().endswith(f"/{run_id}/{WEB}")
    changed = git(whole, "diff", "--name-only", "HEAD~1", "HEAD").split()
    assert changed == [f"{WEB}/done.txt", f"{WEB}/where.txt"]
    assert web.treadle("undo", run_id).code == 0
    assert not (web.root / "done.txt").exists()
    assert web.git("status", "--porcelain", "--untracked-files=no") == ""


@pytest.mark.real
def test_a_change_outside_is_refused_unless_it_is_allowed(web, whole):
    outside = worker("cp app.txt done.txt; echo mine > ../api/api.txt")
    web.settings(f"[budgets]\nmax_iterations = 1\n{outside}")
    web.git("commit", "-qam", "Outside")
    found = run(web, code=1)
    why = web.treadle("why", found["run_id"]).out
    assert "packages/api/api.txt" in why
    assert 'project.outside = "allow"' in why
    web.settings(f'[project]\noutside = "allow"\n{outside}')
    web.git("commit", "-qam", "Allow")
    run_id = run(web)["run_id"]
    assert web.treadle("land", run_id).code == 0
    assert (whole / "packages/api/api.txt").read_text() == "mine\n"


@pytest.mark.real
def test_a_patch_is_relative_to_the_project(web):
    web.settings("")
    web.good_agents()
    found = web.run_json()
    assert found["status"] == "passed", found
    asked = json.loads((web.step_dir(found["run_id"], "001-plan") / "input.json").read_text())
    assert asked["paths"]["repo_root"].endswith(f"/{found['run_id']}/{WEB}")
    assert f"The project is {WEB}/ of its repository" in asked["context"]["notes"]
    assert web.treadle("land", found["run_id"]).code == 0
    assert (web.root / "done.txt").read_text() == "done\n"


@pytest.mark.real
def test_its_own_state_and_settings_are_guarded_as_ever(web):
    patch = ADD_DONE.replace("done.txt", ".treadle/runs/x")
    web.settings("[budgets]\nmax_iterations = 2\n")
    web.agent("act", f'write("patch.diff", {patch!r}); ok(files=["patch.diff"])')
    found = run(web, code=1)
    assert "own_folder" in web.treadle("why", found["run_id"]).out
    web.config.clear()
    web.settings(worker("cp app.txt done.txt; echo '# mine' >> .treadle/config.toml"))
    assert "treadle_config" in json.dumps(run(web, code=None))


@pytest.mark.real
def test_a_spec_is_processed_and_listed_in_the_folder(web, whole):
    text = "# Make done.txt\n\n## Acceptance Criteria\n\n- [ ] done `$ test -f done.txt`\n"
    (web.root / "specs").mkdir(exist_ok=True)
    (web.root / "specs" / "01-done.spec.md").write_text(text)
    web.git("add", ".")
    web.git("commit", "-qm", "Spec")
    done = web.treadle("process", "--json")
    assert done.code == 0, done
    assert (web.root / "done.txt").is_file()
    tracker = git(whole, "show", f"HEAD:{WEB}/specs/processed-spec.md")
    assert tracker == "01-done.spec.md\n"
    assert git(whole, "status", "--porcelain") == ""


@pytest.mark.real
def test_a_mission_steps_on_in_the_folder(web, whole):
    (whole / "README.md").write_text("somebody else's work\n")  # outside, so it is in nobody's way
    mission = Mission(web).create()
    assert git(whole, "log", "-1", "--format=", "--name-only").startswith(f"{WEB}/missions/auth/")
    mission.with_tasks("")
    assert mission.next()["task_id"] == "auth.WP01"
    assert mission.next("--result", "success")["task_id"] == "auth.WP01"


@pytest.mark.real
def test_two_projects_side_by_side_do_not_know_each_other(whole, tmp_path):
    web = make(whole, tmp_path, WEB)
    api = make(whole, tmp_path, "packages/api", "cp api.txt done.txt")
    held = "while ! test -f ../../../../go; do sleep 0.05; done; cp app.txt done.txt"
    go = tmp_path / "go"
    web.settings(worker(held.replace("../../../../go", str(go))))
    web.git("commit", "-qam", "Wait")
    first = web.start("run", "--goal", "Web", "--ac", "done", "--verify", "AC1=test -f done.txt")
    try:
        second = run(api, verify="test -f done.txt")
        assert first.poll() is None  # both worked at once
        assert api.treadle("land", second["run_id"]).code == 0
    finally:
        go.write_text("")
        said = first.communicate(timeout=120)
    assert first.returncode == 0, said
    (row,) = web.treadle("runs", "list", "--json").json["runs"]
    assert [it["run_id"] for it in api.treadle("runs", "list", "--json").json["runs"]] == [
        second["run_id"]
    ]
    assert web.treadle("land", row["run_id"]).code == 0
    assert (api.root / "done.txt").is_file()
    assert (web.root / "done.txt").is_file()
    api.treadle("task", "add", "T1")
    assert web.treadle("task", "list", "--json").json["tasks"] == []


@pytest.mark.real
def test_the_nearest_of_two_projects_wins_and_the_outer_is_named(whole, tmp_path):
    outer = Project(whole, tmp_path).set_up()
    inner = Project(whole / WEB, tmp_path)
    said = inner.treadle("init", "--here", "--commit")
    assert f"{whole} is a project as well" in said.out
    assert "may change files in here" in said.out
    deep = inner.root / "src"
    deep.mkdir()
    assert (
        inner.treadle("doctor", "--json", cwd=deep)
        .json["checks"][3]["detail"]
        .startswith(str(inner.root))
    )
    outer.settings(worker(f"echo '# mine' >> {WEB}/.treadle/config.toml; touch done.txt"))
    outer.git("commit", "-qam", "Settings")
    found = run(outer, verify="test -f done.txt", code=None)
    assert f"{WEB}/.treadle/config.toml (treadle_config)" in json.dumps(found)


@pytest.mark.real
def test_trust_doctor_and_uninstall_know_the_folder(web, whole, tmp_path):
    assert web.treadle("doctor").code == 0
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(whole), str(clone))
    theirs = Project(clone / WEB, tmp_path)
    refused = theirs.treadle("run", "--goal", "g", "--ac", "x", "--verify", "AC1=true", "--json")
    assert refused.json["error"]["code"] == "untrusted"
    assert theirs.treadle("trust").code == 0
    assert run(theirs)["status"] == "passed"
    (web.root / ".treadle" / "config.toml").write_text(worker("true") + "# theirs\n")
    web.git("commit", "-qam", "Theirs")
    git(clone, "pull", "-q")
    shown = theirs.treadle("run", "--goal", "g", "--ac", "x", "--verify", "AC1=true", "--json")
    assert shown.json["error"]["code"] == "trust_changed"
    assert f"{WEB}/.treadle/config.toml" in shown.json["error"]["message"]
    gone = web.treadle("uninstall", "--purge", "--json")
    assert gone.code == 0, gone
    assert not (web.root / ".treadle" / "treadle.db").exists()
    assert (whole / "README.md").is_file()


@pytest.mark.real
def test_reports_and_globs_are_relative_to_the_project(web):
    report = "<testsuite tests='1'><testcase/></testsuite>"
    web.settings(
        '[checks]\nexpect = "junit:out/report.xml"\nprotect = ["data/**"]\nprotect_mode = "warn"\n'
        + worker("cp app.txt done.txt; mkdir -p data; echo mine > data/x.txt")
    )
    (web.root / "data").mkdir()
    (web.root / "data" / "x.txt").write_text("theirs\n")
    web.git("add", ".")
    web.git("commit", "-qm", "Data")
    verify = f'mkdir -p out && echo "{report}" > out/report.xml && test -f done.txt'
    found = run(web, verify=verify)
    assert f"{WEB}/data/x.txt" in web.treadle("report", found["run_id"]).out


@pytest.mark.real
def test_a_worker_of_the_fleet_works_in_the_folder(web):
    web.settings("")
    web.good_agents()
    web.git("commit", "-qam", "Agents")
    queued = web.run_json("--fleet")
    assert queued["reason_code"] == "queued", queued
    assert web.treadle("worker", "--idle-exit", "20", "--once", env=QUICK).code == 0
    assert web.show(queued["run_id"])["status"] == "passed"
    assert web.treadle("land", queued["run_id"]).code == 0
    assert (web.root / "done.txt").read_text() == "done\n"


@pytest.mark.real
def test_what_a_neighbour_keeps_is_out_of_reach(web, whole, tmp_path):
    api = make(whole, tmp_path, "packages/api", "cp api.txt done.txt")
    run(api, verify="test -f done.txt")
    kept = f"{api.root}/.treadle"
    web.settings(
        worker(
            f"cp app.txt done.txt; cat {api.root}/api.txt > seen.txt;"
            f" for it in treadle.db locks/run.lock config.toml;"
            f" do cat {kept}/$it && touch leaked; done; true"
        )
    )
    web.git("commit", "-qam", "Curious")
    found = run(web)
    tree = git(whole, "ls-tree", "-r", "--name-only", found["branch"]).split()
    assert f"{WEB}/seen.txt" in tree
    assert f"{WEB}/leaked" not in tree


@pytest.mark.real
def test_commit_hooks_work_at_the_top_as_git_has_them(web, whole):
    hook = whole / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\npwd; test -f README.md && test -d packages\n")
    hook.chmod(0o755)
    web.settings(worker("cp app.txt done.txt") + "[land]\nhooks = true\n")
    web.git("commit", "-q", "--no-verify", "-am", "Hooks")
    landed = web.treadle("land", run(web)["run_id"], "--json")
    assert landed.code == 0, landed
