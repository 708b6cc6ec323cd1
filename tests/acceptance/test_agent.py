"""Agents that are tools: found by init, shown, tried, and asked again when they stumble."""

import json
import os
import re
from pathlib import Path

import pytest

from tests.acceptance import messages
from tests.agents import fake
from tests.builder import Project, git, wait_for
from treadle.sandbox import jails

TIERS = [tier for tier in "AB" if jails.probe(tier).tier == tier]
GOOD = '{"version": 1, "status": "ok", "summary": "I am here"}'


def codex(project, script):
    """Let a few lines of shell be codex, for every role."""
    path = fake.program(project.folder, "codex", script)
    for role in ("plan", "do", "check", "act"):
        project.config[role] = 'type = "codex"\nretry_wait = 0.05\npatience = 0.5'
    project.save()
    return {"PATH": path}


def events(text, ok=True):
    item = {"type": "item.completed", "item": {"type": "agent_message", "text": text}}
    last = {"type": "turn.completed", "usage": {"input_tokens": 10, "output_tokens": 5}}
    found = [{"type": "thread.started", "thread_id": "t-1"}, item, last]
    lines = [json.dumps(event) for event in (found if ok else found[:1])]
    return "\n".join(f"cat <<'EOF'\n{line}\nEOF" for line in lines)


@pytest.fixture
def bare(repo, tmp_path):
    (tmp_path / "agents").mkdir()
    return Project(repo, tmp_path / "agents")


def test_init_gives_roles_to_the_tools_it_finds(bare):
    for name in ("gemini", "codex", "opencode"):
        fake.program(bare.folder, name)
    path = fake.program(bare.folder, "claude")
    own = Path(os.environ["HOME"]) / ".codex" / "config.toml"
    own.parent.mkdir()
    own.write_text('model = "mine"\n')
    env = {"PATH": path, "GOOGLE_API_KEY": "k" * 20, "ANTHROPIC_AUTH_TOKEN": "t" * 20}
    told = bare.treadle("init", "--dry-run", env=env).out
    assert "codex is installed, but no login was found: log in with codex login" in told
    assert "opencode is installed, but no login was found" in told
    assert 'codex: your ~/.codex/config.toml is not read (settings = "isolated")' in told
    done = bare.treadle("init", "--json", env=env).json
    assert done["roles"] == {"plan": "claude", "do": "claude", "check": "gemini", "act": "claude"}
    shown = bare.treadle("config", "show", "--json").json
    assert shown["roles"]["check"] == {"agent": "gemini", "type": "gemini"}
    again = bare.treadle("init", "--json", env=env).json
    assert again["roles"] == {}


def test_init_without_tools_writes_no_agents(project):
    assert "\n[agents" not in (project.root / ".treadle" / "config.toml").read_text()


def test_the_exact_command_is_shown(project):
    env = codex(project, "echo codex-cli 1.2.3")
    shown = project.treadle("agent", "show", "check", "--json", env=env).json
    assert (shown["role"], shown["version"]) == ("check", "codex-cli 1.2.3")
    assert shown["argv"][:2] == ["codex", "exec"]
    assert shown["login"] is None
    keyed = project.treadle("agent", "show", "do", env=env | {"CODEX_API_KEY": "k" * 20})
    assert "key in CODEX_API_KEY" in keyed.out
    assert "k" * 20 not in keyed.out


def test_keys_in_the_command_of_an_agent_are_not_shown(project):
    project.config["do"] = 'type = "opencode"'
    project.save()
    path = fake.program(project.folder, "opencode", "echo 1.18.33")
    inline = json.dumps({"provider": {"t": {"options": {"apiKey": "sk-mine-" + "0" * 20}}}})
    env = {"PATH": path, "OPENCODE_CONFIG_CONTENT": inline}
    for words in (("agent", "show", "do"), ("agent", "show", "do", "--json"), ("doctor",)):
        told = project.treadle(*words, env=env).out
        assert "OPENCODE_CONFIG_CONTENT" in told
        assert "sk-mine" not in told


def test_doctor_tells_version_login_and_command(project):
    fake.program(project.folder, "codex-acp", "echo codex-acp 2.6.0")
    project.config["server"] = 'type = "acp"\npreset = "codex"'
    project.config["own"] = 'type = "acp"\ncmd = ["codex-acp"]'
    env = codex(project, "echo codex-cli 1.2.3")
    found = project.treadle("doctor", "--json", env=env)
    checks = found.json["checks"]
    told = {check["name"]: check["detail"] for check in checks}
    (login,) = (check for check in checks if check["name"] == "agent do login")
    assert (found.code, login["ok"], login["fix"][0]) == (1, False, "codex login")
    detail = told["agent do login"]
    assert detail.startswith("codex-cli 1.2.3 is installed, 0.166.0 was tested; NO LOGIN SEEN:")
    assert "log in with codex login;" in detail
    assert "codex exec" in detail
    server = told["agent server login"]
    assert server.startswith("2.6.0 is installed, as tested; NO LOGIN SEEN")
    assert "agent own login" not in told


def test_an_unknown_agent_is_named(project):
    done = project.treadle("agent", "show", "nobody", "--json")
    assert (done.code, done.json["error"]["code"]) == (1, "not_found")


def test_a_try_shows_what_came_back(project):
    env = codex(project, f"cat > /dev/null\n{events(GOOD)}")
    tried = project.treadle("agent", "try", "do", "--json", env=env)
    assert tried.code == 0
    assert tried.json["message"] == "I am here"
    assert tried.json["usage"]["output_tokens"] == 5
    logs = Path(tried.json["logs"])
    assert "I am here" in (logs / "stdout.txt").read_text()
    assert "test of the connection" in (logs / "prompt.md").read_text()
    assert "logs       .treadle/tries/do" in project.treadle("agent", "try", "do", env=env).out


def test_a_tool_that_is_missing_or_has_no_service_is_refused_before_a_run(project):
    project.good_agents()
    project.config["act"] = 'type = "opencode"'
    project.save()
    missing = project.treadle("run", "--goal", "g", "--ac", "AC1: x", "--json")
    assert (missing.code, missing.json["error"]["code"]) == (3, "agent_unready")
    assert "opencode is not installed" in missing.json["error"]["message"]
    path = fake.program(project.folder, "opencode", "exit 1")
    env = {"PATH": f"{path}:{os.environ['PATH']}"}
    refused = project.treadle("run", "--goal", "g", "--ac", "AC1: x", "--json", env=env)
    assert "no provider is configured" in refused.json["error"]["message"]
    assert not list(project.root.glob(".treadle/runs/*"))


def test_variables_of_an_agent_reach_it_and_are_kept_nowhere(project):
    secret = "s3cr3t-" + "v" * 20
    env = codex(project, f'echo "$MY_BASE $MY_TOKEN" >&2\n{events(GOOD)}')
    for role in ("plan", "do"):
        given = f'[agents.{role}.env]\nMY_BASE = "http://x"\nMY_TOKEN = "{secret}"'
        project.config[role] += f"\n{given}"
    project.config["check"] = 'type = "builtin"'
    project.save()
    run = project.run_json("--verify", "AC1=true", "--anyway", env=env)
    step = project.step_dir(run["run_id"], "002-do")
    assert (step / "logs" / "stderr.txt").read_text() == "http://x [masked]\n"
    kept = [p for p in project.root.glob(".treadle/runs/**/*") if p.is_file()]
    assert not [p for p in kept if secret.encode() in p.read_bytes()]
    shown = project.treadle("config", "show").out
    assert "agents.do.env.MY_BASE" in shown
    assert secret not in shown


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PATH", "TREADLE_RUN", "no-name"])
def test_system_variables_are_refused(project, name):
    project.config["do"] = f'type = "codex"\n[agents.do.env]\n"{name}" = "x"'
    project.save()
    done = project.treadle("config", "show", "--json")
    assert (done.code, name in done.json["error"]["message"]) == (1, True)


def test_a_try_that_fails_says_why(project):
    env = codex(project, "echo 'not logged in' >&2; exit 1")
    tried = project.treadle("agent", "try", "do", "--json", env=env)
    assert (tried.code, tried.json["error_code"]) == (1, "auth_failed")


def test_a_try_that_may_pass_is_made_again_from_a_reset_workspace(project):
    count = project.folder / "count"
    script = f"""cat > /dev/null
dir=$(pwd); n=$(cat {count} 2>/dev/null || echo 0); n=$((n + 1)); echo $n > {count}
if [ $n -lt 3 ]; then echo trash > README.md; echo 'ECONNRESET' >&2; {events("", ok=False)}
exit 1; fi
{events(GOOD)}
"""
    env = codex(project, script)
    project.config["plan"] = 'type = "builtin"'
    project.config["check"] = 'type = "builtin"'
    project.settings('sandbox = "off"\n')
    run = project.run_json("--verify", "AC1=true", "--anyway", env=env)
    assert run["status"] == "passed"
    types = project.event_types(run["run_id"])
    assert types.count("attempt_failed") == 2
    step = project.step_dir(run["run_id"], "002-do")
    assert "ECONNRESET" in (step / "attempts" / "1" / "stderr.txt").read_text()
    assert "trash" in (step / "attempts" / "2" / "workspace.diff").read_text()
    assert git(project.root, "show", f"{run['branch']}:README.md") == "# Project\n"


def stumbling(project, after, first=":"):
    """Return the variables for a codex that fails once, and does something else after that."""
    once = project.folder / "once"
    failure = events("", ok=False)
    script = f"""cat > /dev/null
if mkdir {once} 2> /dev/null; then {first}; echo ECONNRESET >&2; {failure}
exit 1; fi
{after}
"""
    env = codex(project, script)
    project.config["plan"] = project.config["check"] = 'type = "builtin"'
    project.settings('sandbox = "off"\n')
    return env


@pytest.mark.real
def test_a_second_try_gets_what_the_first_has_left_of_the_time(project):
    env = stumbling(project, "sleep 60", first="sleep 1")
    run = project.run_json(
        "--verify", "AC1=true", "--anyway", "--budget", "max_minutes=0.1", env=env
    )
    words = re.search(r"ran longer than ([0-9.]+) s", json.dumps(project.events(run["run_id"])))
    assert float(words[1]) < 5.0  # of six seconds the first try took one


def test_a_second_try_has_an_outbox_too(project):
    found = project.folder / "found"
    env = stumbling(project, f'[ -d "$TREADLE_OUTBOX" ] && touch {found}\n{events(GOOD)}')
    messages.spec(
        project,
        "01-a.spec.md",
        "# Do it\n\n## Acceptance Criteria\n\n- It is done: `$ test -f done.txt`\n",
    )
    project.treadle("process", env=env)
    assert found.exists()


def test_a_usage_limit_stops_the_run_and_says_until_when(project):
    failed = {"type": "turn.failed", "error": {"message": "usage limit; try again in 2 hours"}}
    script = f"cat > /dev/null; echo '{json.dumps(failed)}'; exit 1"
    env = codex(project, script)
    run = project.run_json(env=env)
    shown = project.show(run["run_id"])
    assert (run["status"], run["code"]) == ("stopped", 4)
    assert (shown["reason_code"], bool(shown["resume_at"])) == ("usage_limit", True)
    assert "goes on" in project.treadle("runs", "show", run["run_id"]).out


def test_serve_goes_on_by_itself_when_the_limit_is_over(project):
    failed = {"type": "turn.failed", "error": {"message": "usage limit; try again in 1 seconds"}}
    mark = project.folder / "limited"
    once = f"[ -e {mark} ] || {{ touch {mark}; echo '{json.dumps(failed)}'; exit 1; }}"
    env = codex(project, f"cat > /dev/null\n{once}\n{events(GOOD)}")
    project.config["check"] = 'type = "builtin"'
    project.settings('sandbox = "off"\n')
    run = project.run_json("--verify", "AC1=true", "--anyway", env=env)
    assert run["status"] == "stopped"
    server = project.start("serve", "--no-web", env=env)
    wait_for(lambda: project.only_run()["status"] == "passed")
    server.terminate()
    server.communicate(timeout=120)
    assert "run_resumed" in project.event_types(run["run_id"])


def test_a_tool_gets_what_its_configuration_and_project_say(project):
    (project.root / "sub").mkdir()
    (project.root / "sub" / "GEMINI.md").write_text("Mind the gap.\n")
    (project.root / ".treadle" / "roles").mkdir()
    (project.root / ".treadle" / "roles" / "do.md").write_text("Own words: {{goal}} {{guidance}}")
    project.git("remote", "add", "origin", "https://example.invalid/x.git")
    project.git("add", "sub")
    login = Path(os.environ["HOME"]) / ".codex" / "auth.json"
    login.parent.mkdir()
    login.write_text('{"tokens": {"access_token": "old-1"}}')
    refresh = "sed -i s/old-1/new-2/ $CODEX_HOME/auth.json"
    look = f"env; pwd; git remote; cat; touch $TMPDIR/mine; {refresh}"
    env = codex(project, f'{{ printf "%s\\n" "$@"; {look}; }} >&2\n{events(GOOD)}')
    project.git("commit", "-q", "-m", "Guide", "sub")
    keys = 'model = "m-1"\nextra_args = ["--odd", "a b"]\nprices = [1e6, 0, 2e6]\npath = "sub"'
    project.config["do"] += f'\n{keys}\nenv_allow = ["MY_VAR"]'
    project.config |= dict.fromkeys(("plan", "check"), 'type = "builtin"')
    project.save()
    env |= {"MY_VAR": "mine", "MY_SECRET": "hidden"}
    run = project.run_json("--verify", "AC1=true", "--anyway", env=env)
    assert run["status"] == "passed"
    heard = (project.step_dir(run["run_id"], "002-do") / "logs" / "stderr.txt").read_text()
    assert "\n-m\nm-1\n--odd\na b\n-\n" in heard
    assert "\nMY_VAR=mine\n" in heard
    assert "MY_SECRET" not in heard
    assert "/sub\nOwn words: " in heard, "it works in its folder and there is no remote"
    assert "Mind the gap." in heard
    assert "# Where to write" in heard
    scratch = Path(heard.partition("\nTMPDIR=")[2].splitlines()[0])
    assert run["run_id"] in scratch.name
    assert not (scratch / "mine").exists(), "temporary files go with the step"
    assert "new-2" in login.read_text(), "a refreshed login is the user's"
    usage = project.show(run["run_id"])["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["cost_usd"]) == (10, 5, 20.0)
    for words in (("why", run["run_id"]), ("runs", "show", run["run_id"])):
        assert "10 tokens in, 5 out" in project.treadle(*words).out


def test_a_follower_hears_what_the_agent_does_while_it_works(project):
    go = project.folder / "go"
    script = f"cat > /dev/null\n{events(GOOD)}\nuntil [ -e {go} ]; do sleep 0.05; done"
    env = codex(project, script)
    worker = project.start("run", "--goal", "g", "--ac", "AC1: x", "--json", env=env)
    wait_for(lambda: list(project.root.glob(".treadle/runs/*/live/events.jsonl")))
    run_id = project.only_run()["run_id"]
    follower = project.start("log", "-f", run_id, "--json")
    lines = iter(follower.stdout.readline, "")
    heard = next(line for line in map(json.loads, lines) if line["type"] == "agent_event")
    assert heard["kind"] == "session"
    go.touch()
    rest = [json.loads(line) for line in lines]
    follower.communicate(timeout=120)
    worker.communicate(timeout=120)
    assert [line["kind"] for line in rest if line["type"] == "agent_event"][:2] == ["text", "done"]


@pytest.mark.parametrize("tier", TIERS)
def test_a_tool_that_updates_itself_stays_what_it_was(project, tier):
    new = "echo new > $0.new && mv $0.new $0; echo new > $0; rm -f $0"
    env = codex(project, f"cat > /dev/null; {new}; touch done.txt\n{events(GOOD)}")
    program = project.folder / "bin" / "codex"
    before = program.read_bytes()
    project.config["plan"] = project.config["check"] = 'type = "builtin"'
    project.settings(f'[sandbox]\ntier = "{tier}"\n')
    done = project.run_json("--verify", "AC1=test -f done.txt", env=env)
    assert done["status"] == "passed"
    assert program.read_bytes() == before
    assert sorted(os.listdir(program.parent)) == ["codex"]
    stderr = project.step_dir(done["run_id"], "002-do") / "logs" / "stderr.txt"
    assert "codex" in stderr.read_text(), "it has tried"
