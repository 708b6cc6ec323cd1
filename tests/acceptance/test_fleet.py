"""Runs that workers drive: queued by one command, done by another, on one machine."""

import json

import pytest

QUICK = {
    "TREADLE_FLEET_POLLING": "0.05",
    "TREADLE_FLEET_BEAT": "0.3",
    "TREADLE_FLEET_DEAD_AFTER": "2",
}


@pytest.fixture
def fleet(project):
    project.good_agents()
    return project


def work(project, *args, env=None):
    done = project.treadle("worker", "--idle-exit", "20", *args, env={**QUICK, **(env or {})})
    assert done.code == 0, done.err
    return done


def test_a_worker_drives_a_queued_run_that_then_lands(fleet):
    queued = fleet.run_json("--fleet")
    assert (queued["status"], queued["reason_code"]) == ("stopped", "queued")
    waiting = fleet.treadle("fleet", "status", "--json").json
    assert waiting["repositories"] == [{"repository": "local", "queued": 1, "running": 0}]
    assert fleet.treadle("runs", "prune", "--history").code == 0
    work(fleet, "--once")
    shown = fleet.show(queued["run_id"])
    assert (shown["status"], shown["verdict"], len(shown["steps"])) == ("passed", "PASS", 7)
    assert shown["criteria"][0]["claimed"] is True
    assert all(step["archive_sha256"] for step in shown["steps"])
    assert fleet.git("rev-parse", queued["branch"]).strip() == shown["head_commit"]
    assert fleet.treadle("land", queued["run_id"]).code == 0
    assert (fleet.root / "done.txt").exists()


@pytest.mark.real
def test_a_queued_run_can_be_called_off(fleet):
    queued = fleet.run_json("--fleet")
    assert fleet.treadle("stop", queued["run_id"]).code == 0
    shown = fleet.show(queued["run_id"])
    assert (shown["status"], shown["reason_code"]) == ("stopped", "interrupted")
    again = fleet.treadle("run", "--fleet", "--resume", queued["run_id"], "--json").json
    assert again["reason_code"] == "queued"


def test_an_address_that_takes_no_archives_refuses_the_run_at_once(fleet):
    done = fleet.run("--fleet", "--json", env={"TREADLE_ARTIFACTS": "file:///proc/nowhere"})
    assert (done.code, done.json["error"]["code"]) == (1, "artifacts_failed")
    assert fleet.treadle("runs", "list", "--json").json["runs"] == []


def test_a_remote_that_takes_no_branch_refuses_the_run_at_once(fleet, tmp_path):
    fleet.git("init", "-q", "--bare", str(tmp_path / "origin.git"))
    hook = tmp_path / "origin.git" / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho no branches today; exit 1\n")
    hook.chmod(0o755)
    fleet.git("remote", "add", "origin", str(tmp_path / "origin.git"))
    done = fleet.run("--fleet", "--json")
    assert (done.code, done.json["error"]["code"]) == (1, "push_refused")
    assert fleet.treadle("runs", "list", "--json").json["runs"] == []


def test_without_the_extra_the_commands_say_what_to_install(fleet, tmp_path):
    (tmp_path / "dbos.py").write_text("raise ModuleNotFoundError(name='dbos')")
    for words in (("worker", "--json"), ("run", "--goal", "g", "--fleet", "--json")):
        done = fleet.treadle(*words, env={"PYTHONPATH": str(tmp_path)})
        assert (done.code, done.json["error"]["code"]) == (1, "extra_missing")
        assert done.json["error"]["fix"] == ["pip install 'treadle[fleet]'"]


def test_ordinary_commands_load_no_engine(fleet, tmp_path):
    trap = "raise SystemExit('loaded')"
    for name in ("dbos", "sqlalchemy", "psycopg", "obstore"):
        (tmp_path / f"{name}.py").write_text(trap)
    env = {"PYTHONPATH": str(tmp_path)}
    assert fleet.run_json(env=env)["status"] == "passed"
    for words in (("runs", "list", "--json"), ("task", "list", "--json"), ("fleet", "status")):
        assert fleet.treadle(*words, env=env).code == 0
    assert json.loads(fleet.treadle("next", "--json", env=env).out)


def test_a_worker_needs_a_project_or_a_store(fleet, tmp_path):
    (tmp_path / "empty").mkdir()
    done = fleet.treadle("worker", "--json", cwd=tmp_path / "empty")
    assert (done.code, done.json["error"]["code"]) == (1, "no_project")


@pytest.mark.real
def test_wrong_credentials_are_never_printed(fleet):
    env = {"TREADLE_STORE": "postgresql://me:hunter2@127.0.0.1:9/none"}
    for words in (("worker", "--json"), ("fleet", "status", "--json")):
        done = fleet.treadle(*words, env=env)
        assert (done.code, done.json["error"]["code"]) == (1, "store_unreachable")
        assert "hunter2" not in done.out + done.err
