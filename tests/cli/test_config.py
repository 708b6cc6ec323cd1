"""config show: every value and where it comes from."""


def test_values_are_shown_with_their_origin(call, monkeypatch):
    call("init")
    monkeypatch.setenv("TREADLE_CHECKS_TIMEOUT", "60")
    lines = call("config", "show").out.splitlines()
    shown = {line.split()[0]: line.split()[1:] for line in lines}
    assert shown["KEY"] == ["FROM", "VALUE"]  # the widest last, so that the others stay in view
    assert shown["budgets.max_iterations"] == [".treadle/config.toml", "5"]
    assert shown["checks.timeout"] == ["TREADLE_CHECKS_TIMEOUT", "60"]
    assert shown["sandbox"] == ["default", '"auto"']


def test_document_has_values_origins_and_roles(call, repo):
    call("init")
    (repo / ".treadle" / "config.toml").write_text(
        '[agents.act]\nuse = "fixer"\n[agents.fixer]\ntype = "builtin"\nrun = ["make"]\n'
        '[verify]\n"all tests" = "pytest"\n[fleet.limits]\ncodex = 2\n'
    )
    found = call("config", "show", "--json").document
    assert found["config"]["agents"]["fixer"]["run"] == ["make"]
    assert found["origins"]["agents.act.use"]["kind"] == "project"
    assert found["origins"]['verify."all tests"']["source"] == ".treadle/config.toml"
    assert found["origins"]["fleet.limits.codex"]["kind"] == "project"
    assert found["origins"]["agents.fixer.timeout"]["kind"] == "default"
    assert found["roles"]["act"] == {"agent": "fixer", "type": "builtin"}
    assert found["roles"]["plan"] == {"agent": "builtin", "type": "builtin"}


def test_bad_config_is_an_error_document(call, repo):
    call("init")
    (repo / ".treadle" / "config.toml").write_text("[checks]\ntimeuot = 1\n")
    said = call("config", "show", "--json")
    assert said.code == 1
    assert said.document["error"]["code"] == "config_invalid"
    assert said.document["error"]["key"] == "checks.timeuot"
    assert "did you mean timeout?" in said.document["error"]["message"]
