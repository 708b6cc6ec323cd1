"""Which files agents may change: what the project allows, asks for and denies."""

import pytest

from tests.acceptance.test_approval import desk, literal, on_branch, resume

WORKFLOW = ".github/workflows/ci.yml"
MAKE = (
    "def make(name, text='x', mode=0o644):\n"
    "    path = repo / name\n"
    "    path.parent.mkdir(parents=True, exist_ok=True)\n"
    "    path.write_text(text); path.chmod(mode)\n"
)


def work(project, code, policy="", *words):
    project.settings(policy)
    project.agent("do", f"{MAKE}{code}\nok()", edits=True)
    return project.run_json("--verify", "AC1=test -f done.txt", *words)


def test_an_executable_file_stops_no_night(project):
    run = work(project, "make('done.txt'); make('scripts/go', '#!/bin/sh\\n', 0o755)")
    assert run["status"] == "passed", run
    assert project.git("ls-tree", run["branch"], "scripts/go").startswith("100755")
    assert desk(project) == []


def test_what_the_policy_allows_waits_for_nobody(project):
    run = work(project, "make('done.txt'); make('setup.py')", '[policy]\nallow = ["setup.py"]\n')
    assert run["status"] == "passed", run


def test_what_the_policy_asks_for_waits(project):
    policy = '[policy]\nallow = ["src/**"]\nask = ["src/db/**"]\n'
    run = work(project, "make('done.txt'); make('src/db/one.sql'); make('src/a.py')", policy)
    assert (run["code"], run["reason_code"]) == (4, "budget_exceeded")
    (item,) = desk(project)
    assert "src/db/one.sql (policy)" in item["summary"]
    assert "src/a.py" not in item["summary"]
    assert resume(project, run["run_id"], "--approve", "change").json["status"] == "passed"
    assert on_branch(project, run, "src/db/one.sql") == "x"


@pytest.mark.real
def test_what_the_policy_denies_is_refused(project):
    run = work(
        project, "make('done.txt'); make('deploy/prod.yml')", '[policy]\ndeny = ["deploy/**"]\n'
    )
    assert (run["status"], run["reason_code"]) == ("failed", "patch_refused")
    assert "deploy/prod.yml" in run["reason"]
    assert "policy.deny" in run["reason"]
    assert on_branch(project, run, "done.txt") == ""


@pytest.mark.real
@pytest.mark.parametrize(
    ("policy", "status"),
    [
        ('[policy]\nask = ["db/**"]\n[policy.do]\nallow = ["db/**"]\n', "passed"),
        ('[policy]\nallow = ["db/**"]\n[policy.do]\nask = ["db/**"]\n', "stopped"),
        ('[policy]\nallow = ["db/**"]\n[policy.act]\nask = ["db/**"]\n', "passed"),
        ('[policy]\ndeny = ["db/**"]\n[policy.do]\nallow = ["db/**"]\n', "failed"),
    ],
)
def test_a_role_has_rules_of_its_own(project, policy, status):
    assert work(project, "make('done.txt'); make('db/x')", policy)["status"] == status


INSTALL = '{"name": "x", "scripts": {"postinstall": "node evil.js"}}'
PLAIN = '{"name": "x", "scripts": {"test": "node test.js"}}'


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "text", "status"),
    [
        ("package.json", INSTALL, "stopped"),
        ("web/package.json", INSTALL, "stopped"),
        ("package.json", PLAIN, "passed"),
        ("package.json", "{", "stopped"),
        ("pyproject.toml", '[build-system]\nrequires = ["hatchling"]\n', "passed"),
        ("pyproject.toml", '[build-system]\nbackend-path = ["."]\n', "stopped"),
        (".cargo/config.toml", "x", "stopped"),
    ],
)
def test_what_an_installation_runs_is_asked_for(project, name, text, status):
    run = work(project, f"make('done.txt'); make('{name}', {text!r})")
    assert run["status"] == status, run


@pytest.mark.real
def test_what_treadle_carries_out_cannot_be_allowed(project):
    policy = '[policy]\nallow = ["**", "specs/**", ".treadle/**"]\n'
    names = (
        "specs/a.spec.md",
        "missions/m/spec.md",
        ".treadle/routines/x.sh",
        ".treadle/cron/n.md",
    )
    code = "\n".join(f"make({name!r})" for name in ("done.txt", *names, WORKFLOW))
    run = work(project, code, policy)
    assert (run["code"], run["reason_code"]) == (4, "budget_exceeded")
    (item,) = desk(project)
    assert all(name in item["summary"] for name in names)
    assert WORKFLOW not in item["summary"], "that one the project has allowed"


@pytest.mark.real
def test_programs_of_hooks_the_router_and_notices_wait(project):
    names = ("bin/hook", "bin/route", "bin/tell")
    for name in names:
        path = project.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    project.git("add", "bin")
    project.git("commit", "-q", "-m", "Programs")
    config = (
        '[hooks]\nbeforeAll = ["sh", "./bin/../bin/hook"]\n[commands]\nrouter = "./bin/route x"\n'
        f'[notify]\ncommand = ["{project.root}/bin/tell"]\n'
    )
    run = work(project, "\n".join(f"make({name!r})" for name in ("done.txt", *names)), config)
    assert (run["code"], run["reason_code"]) == (4, "budget_exceeded")
    (item,) = desk(project)
    assert all(f"{name} (protected)" in item["summary"] for name in names)


@pytest.mark.real
@pytest.mark.parametrize("is_committed", [True, False])
def test_work_for_a_project_in_a_folder_waits_too(project, is_committed):
    (project.root / "sub").mkdir()
    assert project.treadle("init", "--here", cwd=project.root / "sub").code == 0
    if is_committed:
        project.git("add", "-f", "sub")
        project.git("commit", "-q", "-m", "One more project")
    names = ("done.txt", "src/specs/a.spec.md", "src/sub/specs/b.md", "sub/Specs/c.spec.md")
    run = work(project, "\n".join(f"make({name!r})" for name in names))
    assert (run["code"], run["reason_code"]) == (4, "budget_exceeded")
    (item,) = desk(project)
    assert "sub/Specs/c.spec.md (work)" in item["summary"]
    assert "src/" not in item["summary"]


@pytest.mark.real
def test_an_agent_cannot_write_itself_a_policy(project):
    code = "make('.treadle/config.toml', '[policy]\\nallow = [\"**\"]\\n'); make('done.txt')"
    run = work(project, code)
    assert (run["code"], run["reason_code"]) == (4, "budget_exceeded")
    assert ".treadle/config.toml (treadle_config)" in desk(project)[0]["summary"]


@pytest.mark.real
def test_trust_shows_what_a_policy_allows(project):
    project.settings('[policy]\nallow = ["setup.py"]\n[policy.act]\nallow = ["x"]\n')
    shown = project.treadle("trust", "--show", "--json").json["commands"]
    found = {item["key"]: item["command"] for item in shown}
    assert found["policy.allow"] == 'policy.allow = ["setup.py"]'
    assert found["policy.act.allow"] == 'policy.act.allow = ["x"]'


@pytest.mark.real
def test_globs_that_fit_nothing_are_named_by_doctor(project):
    project.settings('[policy]\nask = ["nowhere/**", "README.md"]\n[policy.act]\ndeny = ["gone"]\n')
    (check,) = [
        item
        for item in project.treadle("doctor", "--json").json["checks"]
        if item["name"] == "policy"
    ]
    assert check["ok"]
    assert "policy.ask: nowhere/**" in check["detail"]
    assert "policy.act.deny: gone" in check["detail"]
    assert "README.md" not in check["detail"]
    assert work(project, "make('done.txt')", project.extra)["status"] == "passed"


@pytest.mark.real
@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[policy]\nallow = "x"\n', "policy.allow"),
        ("[policy]\nalow = []\n", "policy.alow"),
        ('[policy.plan]\nask = ["x"]\n', "policy.plan"),
        ('[policy.do]\nask = [""]\n', "policy.do.ask"),
    ],
)
def test_a_wrong_policy_is_named(project, text, key):
    project.settings(text)
    told = project.treadle("run", "--goal", "x")
    assert told.code == 1
    assert key in told.err


# A second turn's ways to bring in what the first turn was not asked about.
WAYS = {
    "another file": f"make('{WORKFLOW}', 'evil')",
    "the same file with other words": "make('.envrc', 'evil')",
    "a rename": "make('x.yml', 'evil'); make('.github/workflows/y'); "
    "os.rename(repo / 'x.yml', repo / '.github/workflows/ci.yml')",
    "a moved folder": "make('tmp/workflows/ci.yml', 'evil'); "
    "os.rename(repo / 'tmp', repo / 'sub/.circleci') if (repo / 'sub').mkdir() is None else 0",
    "another case": "make('.GitHub/Workflows/CI.yml', 'evil')",
    "a name in upper case": "make('JENKINSFILE', 'evil')",
    "a name with a dot behind it": "make('sub/.npmrc', 'evil')",
    "a mode alone": "(repo / 'hooks/pre-commit').chmod(0o755)",
    "a hook": "make('tools/hooks/pre-push', 'evil', 0o755)",
    "a submodule": "make('.gitmodules', '[submodule \"x\"]\\npath = x\\nurl = ../evil\\n')",
    "a link": "os.symlink('/etc/passwd', repo / '.circleci')",
    "attributes": "make('src/.gitattributes', '* filter=evil')",
    "a deleted guard": "(repo / '.github/CODEOWNERS').unlink()",
    "agent settings": "make('.claude/settings.json', 'evil')",
    "an install script": f"make('package.json', {INSTALL!r})",
    "a spec": "make('specs/99-evil.spec.md', 'evil')",
    "a routine": "make('.treadle/routines/evil.sh', 'evil', 0o755)",
    "what the policy asks for, in another case": "make('Infra/main.tf', 'evil')",
}
QUICK = ("another file", "a rename", "another case", "a mode alone", "a submodule")


@pytest.mark.real
@pytest.mark.parametrize(
    "way", [way if way in QUICK else pytest.param(way, marks=pytest.mark.real) for way in WAYS]
)
def test_a_second_turn_brings_nothing_in_that_nobody_saw(project, way):
    for name in ("hooks/pre-commit", ".github/CODEOWNERS"):
        path = project.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    project.git("add", "-A", "--", "hooks", ".github")
    project.git("commit", "-qm", "More")
    project.settings('[policy]\nask = ["infra/**"]\n[land]\nrun = "auto"\n')
    project.agent("do", f"{MAKE}make('.envrc', 'seen'); ok()", edits=True)
    project.agent("act", f"{MAKE}{WAYS[way]}\nmake('done.txt'); ok()", edits=True)
    run = project.run_json("--verify", "AC1=test -f done.txt")
    assert run["reason_code"] == "budget_exceeded"
    (item,) = desk(project)
    approve = next(action["command"] for action in item["actions"] if action["action"] == "approve")
    assert literal(project, approve).code != 0
    found = project.show(run["run_id"])
    assert found["status"] in ("stopped", "failed"), found
    assert found["reason_code"] in ("budget_exceeded", "patch_refused"), found
    changed = project.git("diff", "--name-only", run["base_commit"], run["branch"]).split()
    assert changed == [".envrc"], "the one thing that was looked at"
    assert on_branch(project, run, ".envrc") == "seen"
    assert project.git("rev-parse", "main").strip() == run["base_commit"], "nothing has landed"
