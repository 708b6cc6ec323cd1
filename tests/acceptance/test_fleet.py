"""Runs that workers drive: queued by one command, done by another, on one machine."""

import json
import sqlite3
import stat

import pytest

from treadle.errors import install_extra

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
    (repository,) = waiting["repositories"]
    assert repository.pop("oldest") > 0
    assert repository == {"repository": "local", "queued": 1, "running": 0, "problem": None}
    assert fleet.treadle("runs", "prune", "--history").code == 0
    assert "2 runs at a time, of this project alone" in work(fleet, "--once").out
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


def test_a_run_that_waits_is_called_queued_and_its_criteria_are_there(fleet):
    task = fleet.treadle("task", "add", "Goal", "--ac", "It is fine", "--json").json["task_id"]
    run_id = fleet.treadle("run", task, "--fleet", "--json").json["run_id"]
    assert f"run {run_id} queued" in fleet.treadle("task", "show", task).out
    assert f"Run `{run_id}` queued: 0/1 criteria" in fleet.treadle("report", run_id).out
    assert "0/1 criteria" in fleet.treadle("why", run_id).out
    assert "AC1" in fleet.treadle("runs", "show", run_id).out
    assert "it is queued" in fleet.treadle("land", run_id).err


def test_a_run_that_waits_says_what_its_worker_must_have(fleet):
    with (fleet.root / ".treadle" / "config.toml").open("a") as config:
        config.write('\n[fleet]\nneeds = ["gpu", "linux"]\n')
    run_id = fleet.run_json("--fleet")["run_id"]
    assert "because: waits for a worker that has gpu, linux" in fleet.treadle("why", run_id).out


def test_a_project_that_was_removed_is_back_when_a_run_is_queued_again(fleet):
    queued = fleet.run_json("--fleet")
    assert fleet.treadle("stop", queued["run_id"]).code == 0
    assert fleet.treadle("fleet", "remove", "local").code == 0
    assert fleet.treadle("fleet", "status", "--json").json["repositories"] == []
    assert fleet.treadle("run", "--fleet", "--resume", queued["run_id"]).code == 0
    (repository,) = fleet.treadle("fleet", "status", "--json").json["repositories"]
    assert (repository["repository"], repository["queued"]) == ("local", 1)


MEANS_NOTHING = (
    *(
        ("TREADLE_ARTIFACTS", it, "artifacts_failed")
        for it in ("file:///proc/nowhere", "file://runs", "runs", "s4://x", "http://[::1]:9/x")
    ),
    ("TREADLE_FLEET_REMOTE", "orgin", "config_invalid"),
    ("TREADLE_STORE", "http://x/y", "config_invalid"),
    ("TREADLE_STORE", "postgresql://[::1]:9/x?nonsense=1", "store_failed"),
)


@pytest.mark.real
def test_an_address_that_means_nothing_or_takes_nothing_refuses_the_run_at_once(fleet):
    before = sorted(fleet.root.iterdir())
    for name, address, code in MEANS_NOTHING:
        done = fleet.run("--fleet", "--json", env={name: address})
        assert (done.code, done.json["error"]["code"]) == (1, code), (address, done.json)
    assert fleet.treadle("runs", "list", "--json").json["runs"] == []
    assert sorted(fleet.root.iterdir()) == before


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
    (tmp_path / "obstore.py").write_text("raise ModuleNotFoundError(name='obstore')")
    for words in (("worker", "--json"), ("run", "--goal", "g", "--fleet", "--json")):
        done = fleet.treadle(*words, env={"PYTHONPATH": str(tmp_path)})
        assert (done.code, done.json["error"]["code"]) == (1, "extra_missing")
        assert done.json["error"]["fix"] == [install_extra("fleet")]


def test_ordinary_commands_load_no_engine(fleet, tmp_path):
    trap = "raise SystemExit('loaded')"
    for name in ("psycopg", "obstore"):
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


def test_a_worker_that_cannot_begin_does_not_say_what_it_takes(fleet):
    assert fleet.treadle("fleet", "key").code == 0
    for words, env in (("--metrics", "x"), {}), ((), {"TREADLE_STORE": "postgresql:///x?host=/no"}):
        done = fleet.treadle("worker", *words, env=env)
        assert done.code
        assert done.out == ""


def test_a_database_that_is_away_is_no_reason_to_repeat_the_look_that_found_it(fleet):
    env = {"TREADLE_STORE": "postgresql:///x?host=/no"}
    for look, other in (("doctor",), ("runs", "list")), (("fleet", "check"), ("fleet", "status")):
        words = " ".join(["treadle", *look])
        assert fleet.treadle(*other, "--json", env=env).json["error"]["fix"] == [words]
        checks = fleet.treadle(*look, "--json", env=env).json["checks"]
        assert any("cannot be reached" in it["detail"] for it in checks)
        assert words not in [command for it in checks for command in it["fix"]]


@pytest.mark.real
def test_wrong_credentials_are_never_printed(fleet):
    assert fleet.treadle("fleet", "key").code == 0
    env = {"TREADLE_STORE": "postgresql://me:hunter2@127.0.0.1:9/none"}
    for words in (("worker", "--json"), ("fleet", "status", "--json")):
        done = fleet.treadle(*words, env=env)
        assert (done.code, done.json["error"]["code"]) == (1, "store_unreachable")
        assert "hunter2" not in done.out + done.err


def rewrite(project, run_id, key, change):
    """Change what the project's database says of a run."""
    with sqlite3.connect(project.root / ".treadle" / "treadle.db") as database:
        words = (run_id, key)
        (old,) = database.execute(
            "SELECT value_json FROM kv_run WHERE run_id = ? AND key = ?", words
        ).fetchone()
        new = json.dumps(change(json.loads(old)))
        database.execute(
            "UPDATE kv_run SET value_json = ? WHERE run_id = ? AND key = ?", (new, *words)
        )


@pytest.mark.real
def test_an_order_that_nobody_with_the_key_wrote_is_refused_and_others_go_on(fleet, tmp_path):
    forged, unsigned, honest = (fleet.run_json("--fleet")["run_id"] for _ in range(3))
    setup = ["touch", str(tmp_path / "pwned")]
    change = {"setup": setup, "branch": "treadle/{run_id}", "root": None, "keep": 5}
    rewrite(fleet, forged, "order", lambda order: {**order, "workspace": change})
    rewrite(fleet, unsigned, "signature", lambda _: None)
    work(fleet, "--slots", "1", "--idle-exit", "3")
    found = {run_id: fleet.show(run_id) for run_id in (forged, unsigned, honest)}
    assert found[honest]["status"] == "passed"
    reasons = [found[run_id]["reason_code"] for run_id in (forged, unsigned)]
    assert reasons == ["order_forged", "order_unsigned"]
    assert not (tmp_path / "pwned").exists()
    assert fleet.event_types(forged).count("order_refused") == 1
    asked = [item["run_id"] for item in fleet.treadle("desk", "--json").json["items"]]
    assert sorted(asked) == sorted([forged, unsigned])
    again = fleet.treadle(
        "run", "--fleet", "--resume", forged, "--budget", "max_minutes=9", "--json"
    )
    assert (again.code, again.json["error"]["code"]) == (1, "order_forged")
    told = fleet.treadle("why", forged)
    assert "was changed after it was queued" in told.out


def test_the_key_is_made_rotated_and_named_without_being_shown(fleet, private_home):
    first = fleet.treadle("fleet", "key", "--json").json
    path = private_home / "state" / "treadle" / "fleet.key"
    assert (first["path"], first["keys"]) == (str(path), 1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert fleet.treadle("fleet", "status", "--json").json["key"]["name"] == first["name"]
    second = fleet.treadle("fleet", "key", "--rotate")
    assert (path.read_text().split()[0] in second.out, "key" in second.out) == (False, True)
    assert len(path.read_text().split()) == 2
    path.chmod(0o644)
    done = fleet.run("--fleet", "--json")
    assert (done.code, done.json["error"]["code"]) == (1, "fleet_key_unfit")
    assert done.json["error"]["fix"] == [f"chmod 600 {path}"]
    problem = fleet.treadle("fleet", "status", "--json").json["key"]["problem"]
    assert "can be read or changed by others" in problem


def test_doctor_looks_for_the_key_where_archives_are_named(fleet, tmp_path):
    env = {"TREADLE_ARTIFACTS": f"file://{tmp_path}/archives"}
    lines = {
        item["name"]: item for item in fleet.treadle("doctor", "--json", env=env).json["checks"]
    }
    assert (lines["fleet key"]["ok"], lines["fleet key"]["fix"]) == (False, ["treadle fleet key"])
    assert fleet.treadle("fleet", "key").code == 0
    lines = {
        item["name"]: item for item in fleet.treadle("doctor", "--json", env=env).json["checks"]
    }
    assert lines["fleet key"]["ok"] is True


def test_a_worker_does_not_start_in_a_project_that_nobody_trusts(fleet):
    assert fleet.treadle("trust", "--revoke").code == 0
    done = fleet.treadle("worker", "--once", "--json", env=QUICK)
    assert (done.code, done.json["error"]["code"]) == (3, "untrusted")


@pytest.mark.real
def test_a_task_is_queued_once_what_it_depends_on_has_landed(fleet):
    fleet.treadle("task", "add", "Make done.txt", "--id", "A", "--ac", "done.txt is there")
    fleet.treadle("task", "add", "Look at it", "--id", "B", "--depends-on", "A")
    both = fleet.treadle("run", "A", "B", "--fleet", "--json").json["error"]
    assert (both["code"], both["fix"]) == ("task_waiting", ["treadle run A"])
    queued = fleet.treadle("run", "A", "--fleet", "--json").json["run_id"]
    told = fleet.treadle("run", "--fleet").out
    assert f"A run {queued} waits for a worker\n  next: treadle log -f {queued}\n" in told
    assert f"B waits for A (in_progress)\n  next: treadle log -f {queued}\n" in told
    assert fleet.treadle("stop", queued).code == 0
    passed = fleet.treadle("run", "A", "--json").json["run_id"]
    refused = fleet.treadle("run", "B", "--fleet", "--json").json["error"]
    assert (refused["code"], refused["fix"]) == ("task_waiting", [f"treadle land {passed}"])
    none = fleet.treadle("run", "--fleet", "--json")
    (_, waits) = none.json["waiting"]
    assert (none.code, none.json["runs"]) == (3, [])
    assert (waits["task_id"], waits["command"]) == ("B", f"treadle land {passed}")
    assert fleet.treadle("land", passed).code == 0
    queued = fleet.treadle("run", "--fleet", "--json").json
    assert (queued["task_id"], queued["reason_code"]) == ("B", "queued")
