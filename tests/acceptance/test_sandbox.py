"""The sandbox through the real command: who may write where, and what is said about it."""

import json
import os
import pwd
import shutil
import sys
from pathlib import Path

import pytest

from tests.builder import make_home, wait_for
from treadle import layout
from treadle.sandbox import jails

TIERS = [tier for tier in ("A", "B") if jails.probe(tier).tier == tier]
# One of them for every day, the other for the real tests.
DAILY = [pytest.param(tier, marks=() if tier == "B" else pytest.mark.real) for tier in TIERS]

# Try to write to each place and say what came of it.
TRY = """
def tried(path):
    try:
        with open(path, "a") as file:
            file.write("x")
    except OSError as error:
        return type(error).__name__
    return "written"
"""


def settings(tier):
    return f'[sandbox]\ntier = "{tier}"\n'


def observed(project, run_id):
    """Return what the last check saw."""
    found = sorted(project.run_dir(run_id).glob("steps/*-check/files/checks/observed.json"))
    return json.loads(found[-1].read_text())[0]


@pytest.mark.parametrize("tier", DAILY)
def test_a_login_in_settings_of_git_is_hidden(project, tier):
    """A checkout in CI, or an address with a password, leaves one there."""
    project.settings(settings(tier))
    project.good_agents()
    own = str(project.root / ".git/config")
    header = "AUTHORIZATION: basic eC1hY2Nlc3MtdG9rZW46Z2hzX2FiY2RlZmdoaWprbG1ub3A="
    project.git("config", "http.https://example.org/.extraheader", header)
    read = f"""
try:
    found = open({own!r}).read()
except OSError as error:
    found = type(error).__name__
"""
    project.agent("plan", f'{read}\nwrite("found.txt", found[::-1]); ok()')
    result = project.run_json("--verify", f"AC1=! grep extraheader {own}", "--anyway")
    assert result["status"] == "passed", result
    found = project.step_dir(result["run_id"], "001-plan") / "found.txt"
    assert found.read_text()[::-1] in ("", "PermissionError")


@pytest.mark.parametrize("tier", DAILY)
@pytest.mark.parametrize("is_asked", [pytest.param(True, marks=pytest.mark.real), False])
def test_a_login_in_the_users_settings_of_git_is_hidden(project, tmp_path, tier, is_asked):
    """An address with a password stands there, and the rest of the settings goes on to hold."""
    home = make_home(tmp_path / "somebody")["HOME"]
    own, more = f"{home}/.gitconfig", f"{home}/company"
    with open(own, "a") as file:
        file.write("[core]\n\texcludesFile = ~/ignored\n[include]\n\tpath = company\n")
    token = "glpat-abcdefghij0123456789"
    Path(more).write_text(f'[url "https://oauth2:{token}@a.example/"]\n\tinsteadOf = https://a/\n')
    Path(home, "ignored").write_text("*.log\n")
    project.settings(settings(tier) + (f'read = ["{more}"]\n' if is_asked else ""))
    project.good_agents()
    project.agent(
        "do",
        "os.chdir(repo); import subprocess as s; pathlib.Path('a.log').touch()\n"
        "pathlib.Path('done.txt').touch(); s.run(['git', 'add', '.'], check=True)\n"
        "s.run(['git', 'commit', '-qm', 'x'], check=True)\n"
        "said = ['git', 'show', '--format=%ae', '--name-only']\n"
        "write('said.txt', s.run(said, capture_output=True, text=True).stdout)\n"
        + READ.format(paths=[own, more]),
        edits=True,
    )
    check = f"! grep -q oauth2 {more}" if not is_asked else f"grep -q oauth2 {more}"
    result = project.run_json("--verify", f"AC1=test -e done.txt && {check}", env={"HOME": home})
    assert result["status"] == "passed", result
    step = project.step_dir(result["run_id"], "002-do")
    assert (token[::-1] in (step / "found.txt").read_text()) == is_asked
    assert (step / "said.txt").read_text().split() == ["test@example.invalid", "done.txt"]


READ = """
found = {{}}
for path in {paths!r}:
    try:
        found[path] = open(path).read()
    except OSError as error:
        found[path] = type(error).__name__
write("found.txt", "".join(found.values())[::-1]); ok()
"""


@pytest.mark.parametrize("tier", DAILY)
def test_variables_of_the_checkout_are_hidden_unless_they_are_asked_for(project, tier):
    (project.root / ".git/info/exclude").write_text(".env*\n.venv\nnotes\n.treadle\n")
    names = (".env", ".env.local", ".envrc", "notes")
    for name in names:
        (project.root / name).write_text(f"KEY=of {name}\n")
    (project.root / ".venv").mkdir()
    (project.root / ".venv/cfg").write_text("KEY=of the packages\n")
    paths = [str(project.root / name) for name in (*names, ".venv/cfg")]
    project.good_agents()
    project.agent("plan", READ.format(paths=paths))
    for more, seen in (("", set()), (f'read = ["{paths[1]}"]\n', {".env.local"})):
        project.settings(settings(tier) + more)
        result = project.run_json("--verify", f"AC1=! grep KEY {paths[0]}", "--anyway")
        assert result["status"] == "passed", result
        told = (project.step_dir(result["run_id"], "001-plan") / "found.txt").read_text()[::-1]
        read = {name for name in names if f"KEY=of {name}\n" in told}
        assert (read, "of the packages" in told) == ({"notes", *seen}, True)
    project.settings(settings(tier))
    failed = project.run_json("--verify", f"AC1=grep KEY {paths[0]}", "--anyway")
    assert f'sandbox.read = ["{paths[0]}"]' in project.treadle("why", failed["run_id"]).out


@pytest.mark.parametrize("tier", TIERS)
def test_an_agent_writes_only_in_its_step(project, tier):
    project.settings(settings(tier))
    project.good_agents()
    places = {
        "workspace": '(repo / "README.md")',
        "project": repr(str(project.root / "README.md")),
        "hook": repr(str(project.root / ".git/hooks/post-commit")),
        "store": repr(str(project.root / ".treadle/treadle.db")),
        "home": repr(os.path.expanduser("~/.bashrc")),
        "tmp": 'os.environ["TMPDIR"] + "/x"',
        "step": '(step / "x")',
    }
    tries = ", ".join(f'"{name}": tried({where})' for name, where in places.items())
    project.agent("plan", f'{TRY}\nwrite("tried.json", json.dumps({{{tries}}})); ok()')
    result = project.run_json()
    assert result["status"] == "passed", result
    tried = json.loads((project.step_dir(result["run_id"], "001-plan") / "tried.json").read_text())
    may = {name for name, word in tried.items() if word == "written"}
    assert may == {"tmp", "step"}
    assert {step["sandbox_tier"] for step in project.show(result["run_id"])["steps"]} == {tier}
    assert f" {tier} " in project.treadle("runs", "show", result["run_id"]).out


@pytest.mark.parametrize("tier", TIERS)
def test_an_agent_cannot_lock_what_treadle_locks(project, tier):
    project.settings(settings(tier))
    project.good_agents()
    home = project.root / ".treadle"
    files = [str(home / name) for name in ("locks/run.lock", "treadle.db", "treadle.db-shm")]
    code = """
import fcntl
def locked(path):
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return bool(file.read(1))
    except OSError:
        return False
"""
    project.agent("plan", f'{code}\nwrite("x.json", json.dumps([*map(locked, {files})])); ok()')
    result = project.run_json()
    found = project.step_dir(result["run_id"], "001-plan") / "x.json"
    assert json.loads(found.read_text()) == [False] * 3
    assert result["status"] == "passed", result
    assert "outside_change" not in project.event_types(result["run_id"])


RIGHTS = {
    "a hook": (".git/hooks/post-commit", "os.chmod({}, 0o755)"),
    "the branch": (".git/HEAD", "os.chmod({}, 0o666)"),
    "the index": (".git/index", "os.chmod({}, 0o666)"),
    "objects": (".git/objects", "os.chmod({}, 0o777)"),
    "the store": (".treadle/treadle.db", "os.chmod({}, 0o666)"),
    "a lock": (".treadle/locks/run.lock", "os.chmod({}, 0o666)"),
    "the configuration": (".treadle/config.toml", "os.utime({}, (1, 1))"),
    "a source": ("README.md", "os.setxattr({}, 'user.x', b'y')"),
    "a folder": (".", "os.utime({}, (1, 1))"),
    "a file at home": ("~/.bashrc", "os.utime({}, (1, 1))"),
    "a key": ("~/.ssh/id", "os.chmod({}, 0o644)"),
    "a key further down": ("~/.ssh/old/id", "os.chmod({}, 0o644)"),
    "a secret's time": ("~/.aws/credentials", "os.utime({}, (1, 1))"),
}


@pytest.mark.real
@pytest.mark.skipif("B" not in TIERS, reason="TIER B CANNOT RUN HERE")
@pytest.mark.parametrize("what", RIGHTS)
def test_every_change_that_tier_b_promises_to_see_fails_the_step(project, what):
    name, act = RIGHTS[what]
    path = Path(os.path.expanduser(name)) if name.startswith("~") else project.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_text("mine")
    project.settings(settings("B"))
    project.good_agents()
    project.agent("plan", f"{act.format(repr(str(path)))}; ok()")
    result = project.run_json()
    assert result["reason_code"] == "boundary_violation", result
    assert str(path) in result["reason"]


@pytest.mark.parametrize("tier", TIERS)
def test_with_edits_the_workspace_is_writable_too(project, tier):
    project.settings(settings(tier))
    project.good_agents()
    project.agent("do", '(repo / "done.txt").write_text("done"); ok()', edits=True)
    assert project.run_json()["status"] == "passed"


@pytest.mark.skipif("B" not in TIERS, reason="TIER B CANNOT RUN HERE")
def test_rights_changed_outside_fail_the_step(project):
    project.settings(settings("B"))
    project.good_agents()
    victim = project.root / "README.md"
    project.agent("plan", f"os.chmod({str(victim)!r}, 0o600); ok()")
    result = project.run_json()
    assert result["reason_code"] == "boundary_violation"
    assert str(victim) in result["reason"]


@pytest.mark.skipif("B" not in TIERS, reason="TIER B CANNOT RUN HERE")
def test_what_the_user_and_tools_of_other_runs_write_meanwhile_is_no_violation(project):
    project.settings(settings("B"))
    project.good_agents()
    other = layout.agent_states(os.environ) / "claude-1" / "settings.json"
    other.parent.mkdir(parents=True)
    other.touch()
    flag = project.folder / "go"
    wait = f"while not os.path.exists({str(flag)!r}): time.sleep(0.01)\n"
    project.agent("plan", 'write("begun", "x")\n' + wait + "ok()")
    running = project.start("run", "--goal", "Make done.txt", "--ac", "done.txt is there", "--json")
    runs = project.root / ".treadle/runs"
    wait_for(lambda: list(runs.glob("*/steps/*/begun")))
    (project.root / "mine.txt").write_text("mine")
    other.chmod(0o600)
    flag.touch()
    out, _ = running.communicate(timeout=120)
    result = json.loads(out)
    assert result["status"] == "passed"
    event = project.event(result["run_id"], "outside_change")
    assert event["data"]["files"] == [str(project.root / "mine.txt")]


def test_a_missing_sandbox_stops_what_requires_one(project):
    project.settings('sandbox = "required"\n')
    project.good_agents()
    done = project.run("--json")
    assert done.code == (0 if TIERS else 3), done
    if not TIERS:
        assert done.json["error"]["code"] == "no_sandbox"


HOGS = {
    "memory_limit": ("memory_mb = 100", "a = []\nwhile True: a.append(bytearray(1 << 20))"),
    "process_limit": (
        "processes = 50",
        "import subprocess\nwhile True: subprocess.Popen(['sleep', '600'])",
    ),
    "disk_limit": (
        "disk_mb = 20",
        "big = (repo / 'big').open('wb')\nwhile True: big.write(bytes(1 << 20))",
    ),
}


@pytest.mark.real
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("code", HOGS)
def test_an_agent_that_takes_too_much_fails_with_the_key_that_allows_more(project, code, tier):
    key, script = HOGS[code]
    project.settings(settings(tier) + f"{key}\n")
    project.good_agents()
    project.agent("do", script, edits=True)
    result = project.run_json()
    assert (result["status"], result["reason_code"]) == ("failed", code)
    assert f"raise sandbox.{key.split()[0]}" in result["reason"]


@pytest.mark.skipif(not TIERS, reason="NO SANDBOX CAN RUN HERE")
def test_a_check_that_takes_too_much_says_so(project):
    project.settings("[sandbox]\nmemory_mb = 100\n")
    project.good_agents()
    hog = f"{sys.executable} -S -c 'a = bytearray(300 << 20); input()' < /dev/zero"
    result = project.run_json("--verify", f"AC1={hog}")
    assert "took more than 100 MiB of memory" in observed(project, result["run_id"])["note"]


@pytest.mark.skipif(not TIERS, reason="NO SANDBOX CAN RUN HERE")
def test_a_check_says_which_denial_it_met(project):
    project.good_agents()
    cache = project.folder / "cache"
    cache.mkdir()
    verify = f"AC1=echo x > {cache}/x && test -f done.txt"
    result = project.run_json("--verify", verify)
    assert result["status"] != "passed"
    seen = observed(project, result["run_id"])
    assert f'checks.writable = ["{cache}"]' in seen["note"]
    project.settings(f'[checks]\nwritable = ["{cache}"]\n')
    assert project.run_json("--verify", verify)["status"] == "passed"


@pytest.mark.real
@pytest.mark.parametrize("tier", DAILY)
@pytest.mark.parametrize("who", ["agent", "setup", "check"])
def test_what_may_not_be_read_is_named_with_its_key(project, who, tier):
    needed = Path("~/company/rules.txt").expanduser()
    needed.parent.mkdir()
    needed.write_text("rules")
    project.good_agents()
    key = 'sandbox.read = ["~/company/rules.txt"]'
    extra, tail = (), ""
    if who == "agent":
        project.agent("plan", f'write("plan.md", open("{needed}").read()); ok(files=["plan.md"])')
    elif who == "setup":
        tail = f'[workspace]\nsetup = ["cat", "{needed}"]\n'
    else:
        extra = ("--verify", f"AC1=cat {needed} && test -f done.txt")
    project.settings(settings(tier) + tail)
    result = project.run_json(*extra)
    assert result["status"] != "passed"
    told = project.treadle("why", result["run_id"]).out
    blocked = "the sandbox blocked reading ~/company/rules.txt"
    assert f"{blocked}; {key} would allow it from the next run on" in told
    project.settings(settings(tier) + 'read = ["~/company/rules.txt"]\n' + tail)
    assert project.run_json(*extra)["status"] == "passed"


@pytest.mark.real
@pytest.mark.skipif(not TIERS, reason="NO SANDBOX CAN RUN HERE")
@pytest.mark.parametrize(
    ("code", "key"),
    [
        ("import socket; socket.socket(socket.AF_UNIX)", "unix_sockets = true"),
        ("import socket; socket.socket()", 'network = "full"'),
    ],
)
def test_sockets_of_checks_open_by_a_key(project, code, key):
    project.good_agents()
    verify = f"AC1={sys.executable} -S -c '{code}' && test -f done.txt"
    project.settings('network = "none"\n' if "network" in key else "")
    result = project.run_json("--verify", verify)
    assert f"checks.{key}" in observed(project, result["run_id"])["note"]
    project.settings(f"{project.extra}[checks]\n{key}\n")
    assert project.run_json("--verify", verify)["status"] == "passed"


def test_secrets_stay_out_of_logs_events_and_store(project):
    secret = "canary-4711-of-the-user"
    project.settings('[checks]\nenv_allow = ["MY_API_TOKEN"]\n')
    project.good_agents()
    project.agent(
        "plan",
        "import base64; s = os.environ['MY_API_TOKEN']; e = sys.stderr\n"
        "print(s[:9], end='', file=e, flush=True); print(s[9:], file=e)\n"
        "print(base64.b64encode(s.encode()).decode(), file=e)\n"
        "write('notes.md', s); ok('found ' + s, files=['notes.md'], extra={'k': s})",
        env_allow=["MY_API_TOKEN"],
    )
    verify = ("--verify", "AC1=printenv MY_API_TOKEN; test -f done.txt")
    result = project.run("--json", *verify, env={"MY_API_TOKEN": secret})
    assert result.json["status"] == "passed"
    assert secret not in result.out + result.err
    files = [path for path in (project.root / ".treadle").rglob("*") if path.is_file()]
    assert [path for path in files if secret.encode() in path.read_bytes()] == []
    step = project.step_dir(result.json["run_id"], "001-plan")
    masked = [path for path in files if b"[masked]" in path.read_bytes()]
    assert {step / "notes.md", step / "output.json", step / "logs/stderr.txt"} <= set(masked)
    assert project.event(result.json["run_id"], "step_committed")["message"] == "found [masked]"
    assert any(path.parent.name == "checks" for path in masked)


@pytest.mark.real
def test_folders_made_to_resist_are_removed(project):
    project.good_agents()
    odd = "os.mkdir(b'odd \\n\\xff\\x1b[2J')"
    deep = "for n in range(2000): os.mkdir('deep'); os.chdir('deep')"
    project.agent("plan", f"os.chdir(step); {odd}\n{deep}\nok()")
    result = project.run_json()
    assert result["reason_code"] == "protocol_error", result
    assert not list(project.root.glob(".treadle/runs/*/steps/*.tmp-*"))
    assert not list(project.step_dir(result["run_id"], "001-plan").glob("deep"))


HONEST = {
    "pytest": f"{sys.executable} -m coverage run --include=t.py -m pytest -q t.py"
    f" && {sys.executable} -m coverage report --fail-under=100",
    "git": "git add -A && git -c user.name=x -c user.email=x@x commit -qm x --allow-empty",
    "node": "node t.js",
    "cargo": "cargo --version",
}
# The tests' own home is empty; the user's toolchain is where it was.
USER = pwd.getpwuid(os.getuid()).pw_dir
RUST = {"RUSTUP_HOME": f"{USER}/.rustup", "CARGO_HOME": f"{USER}/.cargo"}


@pytest.mark.real
@pytest.mark.parametrize("tier", DAILY)
@pytest.mark.parametrize("tool", HONEST)
def test_honest_tools_work_inside(project, tool, tier):
    program = HONEST[tool].split()[0]
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    project.settings(settings(tier) + '[checks]\nbefore = false\nenv_allow = ["PYTHONPATH"]\n')
    project.good_agents()
    (project.root / "t.py").write_text("def test_it(tmp_path):\n    (tmp_path / 'x').touch()\n")
    (project.root / "t.js").write_text(
        "const t = require('child_process').spawnSync('node', ['-e', '0'], {stdio: 'pipe'});\n"
        "process.exit(t.status === 0 ? 0 : 1);\n"
    )
    (project.root / "done.txt").touch()
    project.git("add", "t.py", "t.js", "done.txt")
    project.git("commit", "-q", "-m", "Tests")
    result = project.run_json("--verify", f"AC1={HONEST[tool]}", env=RUST, timeout=180)
    assert result["status"] == "passed", observed(project, result["run_id"])
