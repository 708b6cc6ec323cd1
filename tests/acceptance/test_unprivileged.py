"""As a user without rights, by an installation that only a variable names: nothing gets through."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.acceptance.test_link import BROWSER, SPY, key
from tests.acceptance.test_logins import ANSWER
from tests.acceptance.test_shadows import FILES, GO, plant
from tests.agents.test_login import AFTER, BEFORE, codex
from tests.builder import GIT_IDENTITY, wait_for
from tests.sandbox.test_hostile import NOBODY, as_nobody

TIERS = ("A", "B")


class Nobody:
    """A user with a home, a project and a treadle that PYTHONPATH names."""

    def __init__(self, place):
        *self.drop, self.python, _ = as_nobody(place)
        self.place, self.root, self.home = place, place / "project", place / "home"
        places = [path for path in sys.path if path.endswith(("site-packages", "src"))]
        self.env = {
            "PATH": f"{place}/bin:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "PYTHONPATH": ":".join(places),
            "DESK": str(place),
        }
        for folder in (self.root, self.home, place / "bin"):
            folder.mkdir()
        (self.home / ".gitconfig").write_text(GIT_IDENTITY)
        self.own()
        self.call("git", "init", "-q")
        self.call("git", "commit", "-q", "--allow-empty", "-m", "Begin")
        self.treadle("init", "--commit")

    def own(self):
        """Give everything to this user."""
        for path in (self.place, *self.place.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)

    def program(self, name, text):
        path = self.place / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}")
        path.chmod(0o755)

    def settings(self, text):
        (self.root / ".treadle" / "config.toml").write_text(text)
        self.own()
        self.call("git", "commit", "-qam", "Settings")

    def call(self, *words, code=0):
        done = subprocess.run(
            [*self.drop, *words], cwd=self.root, env=self.env, capture_output=True, text=True
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout

    def treadle(self, *words, code=0):
        return self.call(self.python, "-P", "-m", "treadle", *words, code=code)

    def start(self, *words):
        return subprocess.Popen(
            [*self.drop, self.python, "-P", "-m", "treadle", *words],
            cwd=self.root,
            env=self.env,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, do, tier, kind="builtin", verify="true", code=0):
        """Run once with a do agent of a few lines of shell; skip where the tier cannot be had."""
        agent = f'type = "{kind}"\n'
        if kind == "builtin":
            agent += f"run = {json.dumps(['sh', '-c', do])}\n"
        self.settings(f'[sandbox]\ntier = "{tier}"\n[agents.do]\n{agent}')
        ask = f"from treadle.sandbox import jails; print(jails.probe({tier!r}).tier)"
        if self.call(self.python, "-P", "-c", ask).strip() != tier:
            pytest.skip(f"TIER {tier} CANNOT RUN HERE AS ANOTHER USER")
        words = (
            "run",
            "--goal",
            "Go",
            "--ac",
            "x",
            "--verify",
            f"AC1={verify}",
            "--anyway",
            "--json",
        )
        return json.loads(self.treadle(*words, code=code))


@pytest.fixture
def nobody():
    if os.getuid():
        pytest.skip("NOT ROOT HERE: all other tests run as a user without rights")
    if not shutil.which("setpriv"):
        pytest.skip("NO setpriv: not tried as another user")
    with tempfile.TemporaryDirectory(prefix="nobody-", ignore_cleanup_errors=True) as folder:
        yield Nobody(Path(folder))


def stop(process):
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)


def test_a_round_imports_nothing_of_the_repository(nobody):
    plant(nobody.root, nobody.place / "canary")
    nobody.settings('[agents.do]\ntype = "builtin"\nrun = ["touch", "done"]\n')
    nobody.call("git", "add", "-f", *FILES)
    nobody.call("git", "commit", "-qm", "Shadows")
    process = nobody.start("serve", "--no-web", "--json")
    nobody.treadle("send", GO)
    said = json.loads(process.stdout.readline())
    stop(process)
    assert said["messages"][0]["status"] == "done"
    assert not (nobody.place / "canary").exists()


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(("new", "comes_back"), [(AFTER["codex"], True), (codex("eve", 2), False)])
def test_only_a_refreshed_token_comes_back(nobody, tier, new, comes_back):
    login = nobody.home / ".codex" / "auth.json"
    login.parent.mkdir()
    login.write_text(json.dumps(BEFORE["codex"]))
    (nobody.place / "new.json").write_text(json.dumps(new))
    copy = f"cat > /dev/null; cat {nobody.place}/new.json > $CODEX_HOME/auth.json\n"
    nobody.program("codex", copy + ANSWER)
    found = nobody.run("", tier, "codex")
    assert found["status"] == "passed", found
    assert json.loads(login.read_text()) == (new if comes_back else BEFORE["codex"])
    assert os.listdir(nobody.home / ".local/state/treadle/agents") == ["lock"]


@pytest.mark.real
@pytest.mark.parametrize("tier", TIERS)
def test_a_neighbour_finds_the_link_nowhere(nobody, tier):
    nobody.program("xdg-open", BROWSER)
    os.mkfifo(nobody.place / "stay")
    nobody.own()
    process = nobody.start("serve", "--no-work", "--port", "0", "--open", "--json")
    said = json.loads(process.stdout.readline())
    wait_for((nobody.place / "args").exists)
    door = (nobody.place / "args").read_text().splitlines()[0]
    state = nobody.home / ".local" / "state" / "treadle"
    try:
        spy = f"(STATE={state}; DOOR={door}\n{SPY}) > seen.txt 2>&1; true"
        found = nobody.run(spy, tier)
    finally:
        end = os.open(nobody.place / "stay", os.O_RDWR)
        os.write(end, b"\n" * 9)
        stop(process)
        os.close(end)
    assert found["status"] == "passed", found
    seen = nobody.call("git", "show", f"{found['branch']}:seen.txt")
    assert key(said) not in seen
    assert "http-equiv" not in seen
    assert ("xdg-open" in seen) == (tier == "B")


@pytest.mark.real
@pytest.mark.parametrize("locked", ["files/deep", "files/deep/note.txt"])
def test_what_an_agent_locks_in_its_step_folder_is_named_and_kept(nobody, locked):
    answer = '{"version": 1, "status": "ok", "summary": "done"}'
    nobody.program(
        "lock",
        f"""step=$(sed -n 's/.*"step_dir": "\\([^"]*\\)".*/\\1/p')
        mkdir -p "$step/files/deep" && echo kept > "$step/files/deep/note.txt"
        chmod 000 "$step/{locked}"; echo '{answer}'""",
    )
    nobody.settings('[agents.do]\ntype = "exec"\nedits = true\ncmd = ["lock"]\n')
    words = ("run", "--goal", "Go", "--ac", "x", "--verify", "AC1=false", "--json")
    found = json.loads(nobody.treadle(*words, code=1))
    assert (found["status"], found["reason_code"]) == ("failed", "protocol_error")
    step = nobody.root / ".treadle" / "runs" / found["run_id"] / "steps" / "002-do"
    assert (step / "files" / "deep" / "note.txt").read_text() == "kept\n"


@pytest.mark.real
@pytest.mark.parametrize("tier", TIERS)
def test_files_that_an_agent_left_decide_no_check(nobody, tier):
    (nobody.root / ".gitignore").write_text("built/\n")
    nobody.own()
    nobody.call("git", "add", ".gitignore")
    nobody.call("git", "commit", "-qm", "Ignore")
    found = nobody.run("mkdir -p built && touch built/ok", tier, verify="test -f built/ok", code=4)
    assert (found["status"], found["verdict"]) == ("stopped", "FAIL")


@pytest.mark.real
@pytest.mark.parametrize("tier", TIERS)
def test_a_pass_by_a_changed_script_waits_for_a_person(nobody, tier):
    (nobody.root / "verify.sh").write_text("exit 1\n")
    nobody.own()
    nobody.call("git", "add", "verify.sh")
    nobody.call("git", "commit", "-qm", "Verify")
    found = nobody.run("echo exit 0 > verify.sh", tier, verify="sh verify.sh", code=3)
    assert (found["status"], found["verdict"]) == ("stopped", "PASS")
    (item,) = json.loads(nobody.treadle("desk", "--json"))["items"]
    nobody.treadle("run", "--resume", item["run_id"], "--approve", "protected")


@pytest.mark.real
@pytest.mark.parametrize("tier", TIERS)
def test_a_filter_of_the_user_runs_an_agents_file_only_in_the_sandbox(nobody, tier):
    canary = nobody.home / "canary"
    nobody.call("git", "config", "--global", "filter.x.clean", "make -s text")
    (nobody.root / ".gitattributes").write_text("*.txt filter=x\n")
    (nobody.root / "Makefile").write_text("text:\n\t@cat\n")
    nobody.own()
    nobody.call("git", "add", ".gitattributes", "Makefile")
    nobody.call("git", "commit", "-qm", "Filter")
    recipe = f"text:\\n\\t@echo x > {canary}; tr a-z A-Z\\n"
    do = f"printf '{recipe}' > Makefile; echo text > new.txt"
    found = nobody.run(do, tier)
    assert found["status"] == "passed"
    assert nobody.call("git", "show", f"{found['head_commit']}:new.txt") == "TEXT\n"
    assert not canary.exists()


@pytest.mark.real
def test_a_landing_is_merged_by_git_alone(nobody):
    (nobody.home / "attributes").write_text("*.txt merge=own\n")
    nobody.call("git", "config", "--global", "core.attributesFile", f"{nobody.home}/attributes")
    nobody.call("git", "config", "--global", "merge.own.driver", f"touch {nobody.place}/canary")
    edit = "sed -i s/^{}$/{}/ a.txt"
    (nobody.root / "a.txt").write_text("".join(f"{number}\n" for number in range(20)))
    nobody.own()
    nobody.call("git", "add", "a.txt")
    found = nobody.run(edit.format(2, "agent"), "B")
    nobody.call(*edit.format(17, "mine").split())
    nobody.call("git", "commit", "-qam", "Mine")
    assert json.loads(nobody.treadle("land", found["run_id"], "--json"))["merged"]
    assert {"agent", "mine"} <= {*(nobody.root / "a.txt").read_text().split()}
    assert not (nobody.place / "canary").exists()


def test_a_linked_folder_is_no_project(nobody):
    nobody.call("mv", ".treadle", "tracked")
    nobody.call("ln", "-s", "tracked", ".treadle")
    for words in (("run", "--goal", "x"), ("runs", "list"), ("next",), ("process",)):
        error = json.loads(nobody.treadle(*words, "--json", code=3))["error"]
        assert error["code"] == "state_linked", words
