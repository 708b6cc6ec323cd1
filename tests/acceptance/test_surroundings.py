"""What surrounds a run: the network it must not have, registries, submodules."""

import json

import pytest

from tests.acceptance import messages
from tests.builder import make_repository

CLOSED = {
    "network": 'network = "none"\n',
    "checks.network": '[checks]\nnetwork = "none"\n',
    "agents.do.network": '[agents.do]\ntype = "builtin"\nrun = ["true"]\nnetwork = "none"\n',
}


@pytest.fixture
def bare(project, monkeypatch):
    """A project on a machine without a sandbox."""
    monkeypatch.setenv("TREADLE_SANDBOX", "off")
    (project.root / "specs").mkdir(exist_ok=True)
    return project


def refused(result, key):
    error = result.json["error"]
    assert (result.code, error["code"]) == (3, "network_open"), result
    assert f'{key} = "none"' in error["message"]
    assert "treadle doctor" in error["fix"]


@pytest.mark.parametrize("key", CLOSED)
def test_a_network_that_nothing_can_close_is_refused(bare, key):
    bare.settings(CLOSED[key])
    refused(bare.treadle("run", "--goal", "x", "--verify", "AC1=false", "--json"), key)
    assert bare.treadle("runs", "list", "--json").json["runs"] == []
    found = bare.treadle("doctor")
    assert found.code == 1
    assert f'{key} is "none"' in found.out


@pytest.mark.real
@pytest.mark.parametrize("key", ["network", "checks.network"])
def test_routines_hooks_and_routers_are_refused_it_too(bare, key):
    messages.routine(bare, "log", messages.LOG)
    bare.settings(f'default_routine = "log"\n{CLOSED[key]}')
    bare.treadle("send", "hello")
    refused(bare.treadle("process", "--json"), key)
    bare.settings(f'{CLOSED[key]}\n[commands]\nrouter = ["cat"]\n')
    refused(bare.treadle("route", "hello", "--json"), key)


@pytest.mark.real
def test_an_agent_that_is_swapped_in_is_looked_at_as_well(bare):
    agent = '[agents.other]\ntype = "builtin"\nrun = ["true"]\nnetwork = "none"\n'
    bare.settings(agent)
    words = ("run", "--goal", "x", "--verify", "AC1=false", "--agent", "do=other", "--json")
    refused(bare.treadle(*words), "agents.other.network")


@pytest.mark.real
def test_a_run_is_neither_resumed_nor_landed_with_an_open_network(project):
    project.agent("do", '(repo / "done.txt").write_text("x"); ok()', edits=True)
    found = project.run_json("--verify", "AC1=test -f done.txt")
    off = {"TREADLE_SANDBOX": "off", "TREADLE_NETWORK": "none"}
    (project.root / "other.txt").write_text("x")
    project.git("add", "other.txt")
    project.git("commit", "-qm", "meanwhile")
    run_json = project.run_dir(found["run_id"]) / "run.json"
    data = json.loads(run_json.read_text())
    data["order"]["sandbox"]["mode"] = "off"
    run_json.write_text(json.dumps(data))
    refused(project.treadle("land", found["run_id"], "--json", env=off), "network")
    assert project.treadle("land", found["run_id"]).code == 0


@pytest.mark.real
@pytest.mark.parametrize("key", CLOSED)
def test_a_run_is_resumed_only_where_its_network_can_be_closed(project, key):
    project.settings(CLOSED[key])
    if key != "agents.do.network":
        project.agent("do", "ok()", edits=True)
    found = project.run_json("--verify", "AC1=test -f done.txt", "--budget", "max_iterations=1")
    assert found["status"] == "stopped", found
    run_id, before = found["run_id"], project.show(found["run_id"])
    words = ("run", "--resume", run_id, "--budget", "max_iterations=2", "--json")
    refused(project.treadle(*words, env={"TREADLE_SANDBOX": "off"}), key)
    after = project.show(run_id)
    assert (after["status"], after["steps"]) == (before["status"], before["steps"])
    assert len(project.treadle("desk", "--json").json["items"]) == 1
    project.treadle(*words)
    assert len(project.show(run_id)["steps"]) > len(before["steps"])


REGISTRIES = """
    PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST PIP_CERT UV_DEFAULT_INDEX UV_INDEX
    UV_INDEX_URL npm_config_registry NPM_CONFIG_REGISTRY npm_config_https_proxy
    YARN_NPM_REGISTRY_SERVER YARN_REGISTRY CARGO_HTTP_PROXY CARGO_REGISTRIES_OURS_INDEX
    CARGO_SOURCE_CRATES_IO_REPLACE_WITH
    RUSTUP_DIST_SERVER GOPROXY GONOSUMDB GOPRIVATE MAVEN_OPTS HTTPS_PROXY https_proxy no_proxy
    SSL_CERT_FILE REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS
"""
LOGINS = "UV_INDEX_OURS_PASSWORD CARGO_REGISTRIES_OURS_TOKEN NPM_TOKEN PIP_SECRET MY_VARIABLE"


def names(text):
    return {line.partition("=")[0] for line in text.splitlines()}


@pytest.mark.real
def test_setup_and_checks_know_the_registries_and_agents_do_not(project):
    env = dict.fromkeys([*REGISTRIES.split(), *LOGINS.split()], "value")
    project.settings('[workspace]\nsetup = ["env"]\n')
    project.agent(
        "do",
        'write("files/env.txt", "\\n".join(os.environ)); (repo / "done.txt").write_text("x"); ok()',
        edits=True,
    )
    run = project.run_json("--verify", "AC1=env; test -f done.txt", env=env)["run_id"]
    setup = names((project.run_dir(run) / "setup/stdout.txt").read_text())
    checks = names((project.step_dir(run, "003-check") / "files/checks/AC1.txt").read_text())
    agent = names((project.step_dir(run, "002-do") / "files/env.txt").read_text())
    for seen in (setup, checks):
        assert set(REGISTRIES.split()) <= seen
        assert seen.isdisjoint(LOGINS.split())
    assert {"PIP_INDEX_URL", "GOPROXY", *LOGINS.split()}.isdisjoint(agent)


@pytest.mark.real
def test_a_password_in_a_registrys_address_is_masked_wherever_it_is_printed(project):
    env = {"PIP_INDEX_URL": "https://ada:s3cret-pass-word@pypi.example/simple"}
    command = "echo $PIP_INDEX_URL; echo it is s3cret-pass-word; false"
    project.agent("do", "ok()", edits=True)
    found = project.run("--verify", f"AC1={command}", "--budget", "max_iterations=1", env=env)
    assert "[masked]" in found.out
    assert "s3cret" not in found.out.replace(command, "")
    log = project.step_dir(project.only_run()["run_id"], "003-check") / "files/checks/AC1.txt"
    assert "s3cret" not in log.read_text()
    assert "pypi.example/simple" in log.read_text()


@pytest.mark.real
def test_edits_inside_a_submodule_are_named(project, tmp_path):
    sub = make_repository(tmp_path / "sub", {"lib.txt": "old\n", "gone.txt": "x\n"})
    allow = ("-c", "protocol.file.allow=always")
    project.git(*allow, "submodule", "--quiet", "add", str(sub), "vendor/sub")
    project.git("commit", "-qm", "a submodule")
    fill = f"cp -r {sub}/lib.txt {sub}/gone.txt vendor/sub/"
    project.settings(f'[workspace]\nsetup = ["sh", "-c", "{fill}"]\n[sandbox]\nread = ["{sub}"]\n')
    project.agent("plan", "ok()")
    project.agent(
        "do",
        '(repo / "vendor/sub/lib.txt").write_text("new")\n'
        '(repo / "done.txt").write_text("x"); ok()',
        edits=True,
    )
    found = project.run("--verify", "AC1=test -f done.txt")
    assert found.code == 0
    run = project.only_run()["run_id"]
    event = project.event(run, "submodule_not_harvested")
    assert event["data"] == {"count": 1, "files": ["vendor/sub/lib.txt"]}
    assert "edits inside a submodule are not part of the work: vendor/sub/lib.txt" in found.err
    assert "vendor/sub/lib.txt" in project.treadle("why", run).out
    assert project.git("diff", "--name-only", f"HEAD..treadle/{run}") == "done.txt\n"


@pytest.mark.real
def test_a_submodule_that_nobody_touched_is_not_mentioned(project, tmp_path):
    sub = make_repository(tmp_path / "sub", {"lib.txt": "old\n"})
    project.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(sub), "sub")
    project.git("commit", "-qm", "a submodule")
    project.agent("do", '(repo / "done.txt").write_text("x"); ok()', edits=True)
    run = project.run_json("--verify", "AC1=test -f done.txt")["run_id"]
    assert "submodule_not_harvested" not in project.event_types(run)
