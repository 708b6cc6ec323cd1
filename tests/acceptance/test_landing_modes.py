"""Where passed work goes: `land.run`, protected branches, subjects, trailers and hooks."""

import pytest

from tests.acceptance.messages import routine, spec
from tests.acceptance.site import Site
from tests.builder import git
from tests.crash.landing import landings

WORKER = 'name = request["goal"].split()[-1]; (repo / name).write_text(name); ok()'


@pytest.fixture
def site(project):
    found = Site(project)
    project.agent("do", WORKER, edits=True)
    return found


def settle(site, text):
    site.project.settings(text)
    git(site.root, "add", ".treadle/config.toml")
    git(site.root, "commit", "-q", "-m", "Settings", "--", ".treadle/config.toml")


def run(site, goal="Add one", **kwargs):
    verify = f"AC1=test -f {goal.split()[-1]}"
    done = site.project.treadle("run", "--goal", goal, "--verify", verify, "--json", **kwargs)
    assert done.code in (0, -9), done
    return done.json if done.code == 0 else None


def subjects(site, name):
    return git(site.root, "log", "--format=%s", f"main..{name}").splitlines()


def test_branch_puts_one_commit_on_a_branch_named_after_the_goal(site):
    settle(site, '[land]\nrun = "branch"\n')
    tip = site.tip()
    first, second = run(site, "Añadir: one"), run(site, "Añadir: one")
    assert site.tip("main") == tip
    assert first["landed"] == site.tip("treadle/anadir-one")
    assert second["landed"] == site.tip("treadle/anadir-one-2")
    assert subjects(site, "treadle/anadir-one") == ["Añadir: one"]
    error = site.refused(first["run_id"], "already_landed", "--branch")
    assert "treadle/anadir-one" in error["message"]
    assert site.undo(first["run_id"]).json["exact"]
    assert subjects(site, "treadle/anadir-one") == ["Undo: Añadir: one", "Añadir: one"]
    assert site.land(second["run_id"]).json["branch"] == "main"
    site.refused(second["run_id"], "already_landed")


def test_a_spec_can_go_to_a_branch_of_its_own_with_its_line_in_the_list(site):
    routine(site.project, "make", "#!/bin/sh\n# Make a file\necho made > made\n")
    spec(site.project, "01-a.spec.md", "# Make it\n")
    git(site.root, "add", ".")
    settle(site, 'default_routine = "make"\n[land]\nprocess = "branch"\n')
    git(site.root, "commit", "-qam", "Specs")
    tip = site.tip()
    done = site.project.treadle("process", "--json")
    assert done.json["processed"] == ["01-a.spec.md"], done
    assert site.tip() == tip
    assert git(site.root, "show", "treadle/make-it:specs/processed-spec.md") == "01-a.spec.md\n"
    settle(site, '[land]\nprotected = ["main"]\n')
    (told,) = site.project.treadle("spec", "list", "--json").json["specs"]
    error = site.refused(told["run_id"], "protected_branch")
    assert error["fix"] == [told["next"]] == [f"treadle pr {told['run_id']}"]
    assert site.project.treadle("process", "--json").json["processed"] == []


def test_a_single_spec_can_ask_for_a_branch(site):
    routine(site.project, "make", "#!/bin/sh\n# Make a file\necho made > made\n")
    spec(site.project, "01-a.spec.md", "---\nland: branch\n---\n# Make it\n")
    git(site.root, "add", ".")
    settle(site, 'default_routine = "make"\n')
    git(site.root, "commit", "-qam", "Specs")
    tip = site.tip()
    assert site.project.treadle("process", "--json").json["processed"] == ["01-a.spec.md"]
    assert (site.tip(), site.tip("treadle/make-it~1")) == (tip, tip)


@pytest.mark.real
def test_what_depends_on_a_branch_builds_on_it(site):
    settle(site, '[land]\nrun = "branch"\n')
    for name, options in (("A", ()), ("B", ("--depends-on", "A"))):
        verify = ("--verify", f"AC1=test -f {name}")
        site.project.treadle("task", "add", name, "--id", name, *verify, *options)
    done = site.project.treadle("run", "A", "B", "--json")
    assert done.code == 0, done
    assert subjects(site, "treadle/b") == ["B", "A"]
    assert {"A", "B"} <= set(site.files("treadle/b"))


@pytest.mark.real
@pytest.mark.parametrize("glob", ["main", "ma*"])
def test_auto_becomes_branch_where_the_branch_is_protected(site, glob):
    settle(site, f'[land]\nrun = "auto"\nprotected = ["release/*", "{glob}"]\n')
    tip = site.tip()
    done = run(site)
    assert (done["landed"], site.tip("main")) == (site.tip("treadle/add-one"), tip)


@pytest.mark.real
def test_landing_on_a_protected_branch_is_refused_and_the_proposal_works(site):
    settle(site, '[land]\nprotected = ["main"]\n')
    run_id = run(site)["run_id"]
    (fix,) = site.refused(run_id, "protected_branch")["fix"]
    assert fix == f"treadle land {run_id} --branch"
    git(site.root, "branch", "other")
    assert site.land(run_id, "--onto", "other").json["branch"] == "other"
    assert site.undo(run_id).code == 0
    assert site.project.treadle(*fix.split()[1:]).code == 0
    assert subjects(site, "treadle/add-one")[0] == "Add one"


@pytest.mark.real
def test_a_protected_branch_without_a_remote_leads_to_a_merge(site):
    settle(site, '[land]\nrun = "auto"\nprotected = ["main"]\n')
    run_id = run(site)["run_id"]
    merge = "git merge treadle/add-one"
    error = site.project.treadle("pr", run_id, "--json").json["error"]
    assert (error["code"], error["fix"]) == ("no_remote", ["git remote -v", merge])
    git(site.root, *merge.split()[1:])
    assert site.tip() == site.tip("treadle/add-one")


@pytest.mark.real
def test_undoing_on_a_protected_branch_goes_to_a_branch_too(site):
    run_id = run(site)["run_id"]
    site.land(run_id)
    settle(site, '[land]\nprotected = ["main"]\n')
    tip = site.tip()
    assert site.undo(run_id).json["branch"] == "treadle/undo-add-one"
    assert site.tip("main") == tip == site.tip("treadle/undo-add-one~1")


@pytest.mark.real
@pytest.mark.parametrize(
    "point",
    [
        "after_intent",
        "after_move",
        *(pytest.param(at, marks=pytest.mark.real) for at in ("before_landed", "after_landed")),
    ],
)
def test_a_killed_landing_on_a_new_branch_is_made_once(site, point):
    run_id = run(site)["run_id"]
    killed = site.project.treadle("land", run_id, "--branch", env={"TREADLE_DIE_AT": point})
    assert killed.code == -9, killed
    assert site.project.treadle("land", run_id, "--branch").code in (0, 3)
    assert landings(site, run_id, "treadle/add-one") == ["Add one"]
    names = git(site.root, "branch", "--format=%(refname:short)", "--list", "treadle/add*")
    assert names == "treadle/add-one\n"


@pytest.mark.real
@pytest.mark.parametrize(
    ("settings", "goal", "subject"),
    [
        ('subject = "[{task}] {goal}"', "Add one", "Add one"),
        ('subject = "{goal} ({run})"', "Add one", "Add one (RUN)"),
        ("conventional = true", "Add one", "feat: Add one"),
        ("conventional = true", "Fix the crash of one", "fix: Fix the crash of one"),
        ("conventional = true", "docs: say one", "docs: say one"),
    ],
)
def test_subjects_follow_the_settings(site, settings, goal, subject):
    settle(site, f"[land]\n{settings}\n")
    run_id = run(site, goal)["run_id"]
    site.land(run_id)
    told = git(site.root, "log", "-1", "--format=%s").strip()
    assert told == subject.replace("RUN", run_id)


@pytest.mark.real
def test_a_task_is_in_the_subject_and_the_trailers_name_run_task_and_agent(site):
    settle(site, '[land]\nsubject = "[{task}] {goal}"\nconventional = true\n')
    site.project.treadle("task", "add", "Add A", "--id", "X-1", "--verify", "AC1=test -f A")
    run_id = site.project.treadle("run", "X-1", "--json").json["run_id"]
    site.land(run_id)
    subject, trailers = git(site.root, "log", "-1", "--format=%s%n%(trailers:only)").split("\n", 1)
    assert subject == "feat: [X-1] Add A"
    assert trailers.split("\n")[:3] == [
        f"Treadle-Run: {run_id}",
        "Treadle-Task: X-1",
        "Treadle-Agent: do",
    ]
    site.undo(run_id)
    assert git(site.root, "log", "-1", "--format=%s").strip() == "revert: [X-1] Add A"


@pytest.mark.real
@pytest.mark.parametrize("text", ['subject = "{gaol}"', 'subject = "fixed"', 'run = "pull"'])
def test_a_setting_that_means_nothing_names_its_key(site, text):
    site.project.settings(f"[land]\n{text}\n")
    result = site.project.treadle("run", "--goal", "x", "--json")
    assert (result.code, result.json["error"]["code"]) == (1, "config_invalid")
    assert f"land.{text.split()[0]}" in result.json["error"]["message"]


@pytest.mark.real
def test_a_run_from_a_detached_head_can_go_to_a_branch_of_its_own(site):
    git(site.root, "switch", "-q", "--detach")
    run_id = run(site)["run_id"]
    ways = site.project.treadle("why", run_id, "--json").json["next"]
    (fix,) = site.refused(run_id, "no_branch")["fix"]
    assert ways[-1] == fix
    assert site.project.treadle(*fix.split()[1:]).code == 0
    assert "one" in site.files("treadle/add-one")


@pytest.mark.real
def test_a_run_lands_where_it_began_whatever_is_checked_out_and_says_so(site):
    settle(site, '[land]\nrun = "auto"\n')
    git(site.root, "branch", "other")
    code = WORKER.replace("ok()", "time.sleep(1); ok()")
    site.project.agent("do", code, edits=True)
    process = site.project.start("run", "--goal", "Add one", "--verify", "AC1=test -f one")
    while not site.project.treadle("runs", "list", "--json").json["runs"]:
        assert process.poll() is None
    git(site.root, "switch", "-q", "other")
    _, told = process.communicate()
    assert "on main, which is not checked out (other is)" in told
    assert "one" in site.files("main")
    assert "one" not in site.files("other")


def hook(site, name, text, folder=".git/hooks"):
    path = site.write(f"{folder}/{name}", f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.real
def test_hooks_do_not_run_unless_they_are_asked_for(site):
    run_id = run(site)["run_id"]
    hook(site, "pre-commit", "exit 1")
    assert site.land(run_id).code == 0


@pytest.mark.real
@pytest.mark.parametrize("folder", [".git/hooks", "my-hooks"])
def test_hooks_see_what_is_staged_and_write_the_message(site, folder):
    settle(site, "[land]\nhooks = true\n")
    git(site.root, "config", "core.hooksPath", folder)
    hook(site, "pre-commit", 'test "$(git diff --cached --name-only)" = one', folder)
    hook(site, "commit-msg", 'echo "Signed-off-by: me" >> "$1"', folder)
    run_id = run(site)["run_id"]
    assert site.land(run_id).code == 0
    message = git(site.root, "log", "-1", "--format=%B")
    assert message.startswith("Add one\n")
    assert message.rstrip().endswith("Signed-off-by: me")


@pytest.mark.real
def test_a_hook_that_refuses_refuses_the_landing_with_its_last_lines(site):
    settle(site, "[land]\nhooks = true\n")
    hook(site, "pre-commit", "echo line one; echo not like this >&2; exit 7")
    run_id = run(site)["run_id"]
    error = site.refused(run_id, "hook_refused")
    assert "exit code 7" in error["message"]
    assert "not like this" in error["message"]
    log = error["fix"][0].removeprefix("cat ")
    assert "line one" in (site.root / log).read_text()
    variable, _, command = error["fix"][1].partition(" ")
    name, _, value = variable.partition("=")
    assert site.project.treadle(*command.split()[1:], env={name: value}).code == 0


@pytest.mark.real
def test_hooks_cannot_write_outside_of_their_checkout(site):
    settle(site, "[land]\nhooks = true\n")
    target = site.root / "README.md"
    hook(site, "pre-commit", f"echo mine > {target}")
    run_id = run(site)["run_id"]
    before = target.read_text()
    site.refused(run_id, "hook_refused")
    assert target.read_text() == before


@pytest.mark.real
def test_landing_settings_that_somebody_else_brought_have_no_effect(site):
    """Nothing lands by them before you have seen them; then `trust --show` names each."""
    run_id = run(site)["run_id"]
    git(site.root, "switch", "-q", "-c", "theirs")
    settle(site, '[land]\nrun = "auto"\nhooks = true\nprotected = ["x"]\nconventional = true\n')
    theirs = site.tip()
    git(site.root, "switch", "-q", "main")
    git(site.root, "branch", "-qD", "theirs")
    git(site.root, "reflog", "expire", "--expire=now", "--all")
    git(site.root, "merge", "-q", "--ff-only", theirs)
    error = site.refused(run_id, "trust_changed")
    assert "treadle trust" in error["fix"]
    shown = site.project.treadle("trust", "--show", "--json").json["commands"]
    keys = {item["key"] for item in shown}
    assert {"land.run", "land.hooks", "land.protected", "land.conventional"} <= keys
