"""A tool's login through the real command, in both sandboxes: refreshed, attacked, left alone."""

import json
import os
from pathlib import Path

import pytest

from tests.agents import fake
from tests.agents.test_login import AFTER, BEFORE, codex
from tests.agents.test_oneshot import DONE, GOOD, START, printed, said
from treadle.sandbox import jails

TIERS = [tier for tier in "AB" if jails.probe(tier).tier == tier]
ANSWER = f"{printed(START)}{said(GOOD)}{printed(DONE)}"


@pytest.fixture(params=TIERS)
def site(request, project, private_home, tmp_path):
    """A project whose do agent is a codex of a few lines of shell, and a user who is logged in."""
    login = private_home / ".codex" / "auth.json"
    login.parent.mkdir()
    login.write_text(json.dumps(BEFORE["codex"]))

    def play(script):
        path = fake.program(tmp_path, "codex", f"cat > /dev/null\n{script}")
        project.settings(
            f'[sandbox]\ntier = "{request.param}"\n[agents.do]\ntype = "codex"\nretry_wait = 0\n'
            "patience = 0\n"
        )
        env = {"PATH": f"{path}:{os.environ['PATH']}"}
        words = ("--verify", "AC1=true", "--anyway", "--budget", "max_iterations=1")
        return project.run_json(*words, env=env)

    play.project, play.login, play.tmp = project, login, tmp_path
    return play


def put(site, document):
    (site.tmp / "new.json").write_text(json.dumps(document))
    return f"cat {site.tmp}/new.json > $CODEX_HOME/auth.json\n"


def test_a_refreshed_token_comes_back_with_an_event(site):
    found = site(put(site, AFTER["codex"]) + ANSWER)
    assert json.loads(site.login.read_text()) == AFTER["codex"]
    event = site.project.event(found["run_id"], "login_refreshed")
    assert "tokens.refresh_token" in event["message"]
    assert "rt-" not in json.dumps(event)


def test_a_step_that_fails_changes_no_login(site):
    found = site(put(site, AFTER["codex"]) + printed(START) + "exit 1\n")
    assert json.loads(site.login.read_text()) == BEFORE["codex"]
    assert "login_refreshed" not in site.project.event_types(found["run_id"])


def test_a_step_whose_change_is_refused_changes_no_login(site):
    found = site(put(site, AFTER["codex"]) + "echo x > .envrc\n" + ANSWER)
    assert "step_failed" in site.project.event_types(found["run_id"])
    assert json.loads(site.login.read_text()) == BEFORE["codex"]


def test_another_account_stays_outside(site):
    site(put(site, codex("eve", 2)) + ANSWER)
    assert json.loads(site.login.read_text()) == BEFORE["codex"]


def test_what_is_planted_is_not_met_again_and_no_neighbour_is_seen(site):
    look = "(ls -A $CODEX_HOME; ls -A $CODEX_HOME/.. ) > seen.txt 2>/dev/null\n"
    plant = (
        "mkdir $CODEX_HOME/hooks; echo evil > $CODEX_HOME/hooks/x; echo x > $CODEX_HOME/e.toml\n"
    )
    neighbour = Path(os.environ["XDG_STATE_HOME"], "treadle", "agents", "claude-0")
    neighbour.mkdir(parents=True)
    (neighbour / ".credentials.json").write_text("secret")
    steal = f"cat {neighbour}/.credentials.json >> seen.txt 2>/dev/null\n"
    for _ in range(2):
        found = site(look + steal + plant + ANSWER)
        seen = site.project.git("show", f"{found['branch']}:seen.txt")
        assert "auth.json" in seen
        for word in ("hooks", "e.toml", "secret"):
            assert word not in seen
    assert sorted(os.listdir(neighbour.parent)) == ["claude-0", "lock"]


@pytest.mark.real
def test_of_two_runs_that_refresh_one_login_the_second_waits_for_the_first(
    project, private_home, tmp_path
):
    login = private_home / ".codex" / "auth.json"
    login.parent.mkdir()
    login.write_text(json.dumps(BEFORE["codex"]))
    (tmp_path / "new.json").write_text(json.dumps(AFTER["codex"]))
    # A refresh token works once: whoever comes second with the old one is told so.
    script = f"""cat > /dev/null
if mkdir {tmp_path}/refreshed 2> /dev/null; then
  cat {tmp_path}/new.json > $CODEX_HOME/auth.json
  while [ ! -e {tmp_path}/second ]; do sleep 0.05; done
elif ! grep -q {AFTER["codex"]["tokens"]["refresh_token"]} $CODEX_HOME/auth.json; then
  touch {tmp_path}/second
  echo "401 Unauthorized: your refresh token was already used, please log in again" >&2
  exit 1
fi
touch done.txt
{ANSWER}"""
    project.env["PATH"] = fake.program(tmp_path, "codex", script)
    project.config["do"] = 'type = "codex"\nretry_wait = 600\npatience = 3600\n'
    project.settings('sandbox = "off"\n')
    for _ in range(2):
        project.treadle("task", "add", "Make done", "--verify", "AC1=test -f done.txt")
    done = project.treadle("run", "--parallel", "2", "--json", timeout=120)
    assert [it["status"] for it in done.json["runs"]] == ["passed"] * 2
    assert json.loads(login.read_text()) == AFTER["codex"]
    assert project.treadle("desk", "--json").json["items"] == []
