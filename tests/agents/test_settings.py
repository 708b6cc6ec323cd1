"""What a tool gets of the user's own: settings if wished, keys, a provider's credentials."""

import json
from pathlib import Path

import pytest

from tests.agents import fake
from tests.agents.test_oneshot import request
from treadle.agents import login, settings, table
from treadle.agents.table import BACKENDS, TOOLS
from treadle.config.schema import AgentConfig
from treadle.contract.events import StepError
from treadle.proc import environment
from treadle.proc.keeper import Keeper

OWN = {
    "codex": ".codex/config.toml",
    "claude": ".claude/settings.json",
    "gemini": ".gemini/settings.json",
    "opencode": ".config/opencode/opencode.json",
    "copilot": ".copilot/settings.json",
}


@pytest.fixture(scope="module")
def keeper():
    with Keeper() as found:
        yield found


def write(home, name, text):
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", OWN)
def test_settings_are_lent_if_wished_and_what_is_dropped_is_said(tmp_path, name):
    tool, env = TOOLS[name], {"HOME": str(tmp_path)}
    text = '{"mine": true}'
    path = write(tmp_path, OWN[name], text)
    for whose, words in (("isolated", "is not read"), ("user", "is read")):
        config = AgentConfig(type=name, settings=whose)
        said = f'{name}: your ~/{OWN[name]} {words} (settings = "{whose}")'
        assert settings.told(tool, config, env) == [said]
        with login.lend(tool, env, config) as lent:
            found = [p for p in lent.folder.rglob("*") if p.is_file() and p.read_text() == text]
            assert bool(found) is (whose == "user")
            for copy in found:
                copy.write_text("changed by an agent")
            assert lent.refreshed() is None
    assert path.read_text() == text, "settings never come back"


def test_codex_reads_its_file_only_if_wished_and_never_trusts_the_workspace(tmp_path, keeper):
    for whose, ignored in (("isolated", True), ("user", False)):
        spec = fake.spec(tmp_path, keeper, "codex", "/usr/bin", settings=whose)
        launch = TOOLS["codex"].launch(fake.ask(spec, TOOLS["codex"]))
        assert ("--ignore-user-config" in launch.argv) is ignored
        assert ("config.toml" in launch.files) is ignored
        assert any("untrusted" in word for word in launch.argv) is not ignored


def test_claude_gets_the_users_own_servers_and_no_others(tmp_path, keeper):
    spec = fake.spec(tmp_path, keeper, "claude", "/usr/bin", settings="user")
    servers = {"mine": {"command": "true"}}
    write(tmp_path / "home", ".claude.json", json.dumps({"mcpServers": servers, "projects": {}}))
    launch = TOOLS["claude"].launch(fake.ask(spec, TOOLS["claude"]))
    assert json.loads(launch.files["mcp.json"]) == {"mcpServers": servers}
    assert {"--strict-mcp-config", "--mcp-config"} <= {*launch.argv}


def test_servers_and_instructions_that_do_not_reach_an_agent_are_said(tmp_path):
    env, own = {"HOME": str(tmp_path)}, tmp_path / "own"
    config = AgentConfig(type="claude")
    write(tmp_path, ".claude.json", '{"projects": {}}')
    assert settings.told(TOOLS["claude"], config, env) == []
    write(tmp_path, "dotfiles/claude.json", '{"mcpServers": {"mine": {}}}')
    (tmp_path / ".claude.json").unlink()
    (tmp_path / ".claude.json").symlink_to(tmp_path / "dotfiles/claude.json")
    write(tmp_path, ".claude/CLAUDE.md", "Use tabs.")
    servers, words = settings.told(TOOLS["claude"], config, env)
    assert servers == 'claude: your ~/.claude.json is not read (settings = "isolated")'
    assert words.startswith("claude: your ~/.claude/CLAUDE.md is never read: ")
    write(own, ".claude.json", '{"mcpServers": {"other": {}}}')
    (found,) = settings.told(TOOLS["claude"], config, env | {"CLAUDE_CONFIG_DIR": str(own)})
    assert found.startswith("claude: your ~/own/.claude.json is not read")


@pytest.mark.parametrize("name", OWN)
def test_every_tool_has_instructions_that_reach_no_agent(tmp_path, name):
    tool, env = TOOLS[name], {"HOME": str(tmp_path)}
    (file,) = tool.unread
    place = file.replace("~config", ".config") if name == "opencode" else Path(tool.home) / file
    write(tmp_path, place, "Use tabs.")
    for whose in ("isolated", "user"):
        config = AgentConfig(type=name, settings=whose)
        (said,) = settings.told(tool, config, env)
        assert "is never read" in said
        with login.lend(tool, env, config) as lent:
            assert not [it for it in lent.folder.rglob("*") if it.name == Path(file).name]


def test_gemini_keeps_the_users_settings_below_those_that_hold_it(tmp_path, keeper):
    spec = fake.spec(tmp_path, keeper, "gemini", "/usr/bin", settings="user")
    own = {"mcpServers": {"mine": {}}, "general": {"enableAutoUpdate": True, "vimMode": True}}
    own["security"] = {"auth": {"selectedType": "vertex-ai"}}
    write(tmp_path / "home", ".gemini/settings.json", json.dumps(own))
    launch = TOOLS["gemini"].launch(fake.ask(spec, TOOLS["gemini"]))
    found = json.loads(launch.files[".gemini/settings.json"])
    assert found["mcpServers"] == {"mine": {}}
    assert found["general"] == {"enableAutoUpdate": False, "vimMode": True, "maxAttempts": 1}
    assert found["security"]["auth"]["selectedType"] == "vertex-ai"


def test_codex_exec_does_not_take_the_key_it_would_not_take_by_itself(tmp_path):
    env = {"HOME": str(tmp_path), "OPENAI_API_KEY": "k" * 20}
    write(tmp_path, ".codex/auth.json", '{"tokens": {"access_token": "a"}}')
    with login.lend(TOOLS["codex"], env) as lent:
        assert (lent.folder / "auth.json").is_file(), "the login is what it would use"
    with login.lend(TOOLS["codex"], env | {"CODEX_API_KEY": "c" * 20}) as lent:
        assert not (lent.folder / "auth.json").exists()


def test_a_provider_of_codex_gets_the_variable_that_it_names(tmp_path):
    write(tmp_path, ".codex/config.toml", '[model_providers.x]\nenv_key = "FOUNDRY_KEY"\n')
    env = {"HOME": str(tmp_path)}
    isolated, user = AgentConfig(type="codex"), AgentConfig(type="codex", settings="user")
    assert "FOUNDRY_KEY" in table.variables(user, env)
    assert "FOUNDRY_KEY" not in table.variables(isolated, env)
    given = AgentConfig(type="codex", extra_args=("-c", 'model_providers.y={env_key="OTHER"}'))
    assert "OTHER" in table.variables(given, env)


@pytest.mark.parametrize("name", ["GH_TOKEN", "GITHUB_TOKEN", "COPILOT_GITHUB_TOKEN"])
def test_copilot_takes_every_token_it_knows(tmp_path, name):
    env = {"HOME": str(tmp_path), name: "t" * 20}
    config = AgentConfig(type="copilot")
    assert name in environment.allowed(env, table.variables(config, env))
    assert login.seen(TOOLS["copilot"], config, env) == f"key in {name}"


CLOUDS = [
    ("claude", {"CLAUDE_CODE_USE_BEDROCK": "1"}, {}, "AWS_SHARED_CREDENTIALS_FILE"),
    ("claude", {"CLAUDE_CODE_USE_VERTEX": "1"}, {}, "GOOGLE_APPLICATION_CREDENTIALS"),
    ("claude", {"CLAUDE_CODE_USE_FOUNDRY": "1"}, {}, "AZURE_FEDERATED_TOKEN_FILE"),
    ("gemini", {"GOOGLE_GENAI_USE_VERTEXAI": "true"}, {}, "GOOGLE_APPLICATION_CREDENTIALS"),
    ("opencode", {}, {"model": "amazon-bedrock/x"}, "AWS_SHARED_CREDENTIALS_FILE"),
    ("opencode", {}, {"model": "google-vertex/x"}, "GOOGLE_APPLICATION_CREDENTIALS"),
]


@pytest.mark.parametrize(("name", "switch", "keys", "variable"), CLOUDS)
def test_a_cloud_gets_its_variables_and_files_only_when_it_is_chosen(
    tmp_path, name, switch, keys, variable
):
    tool, config = TOOLS[name], AgentConfig(type=name, **keys)
    path = write(tmp_path, "secret/file", "credentials")
    env = {"HOME": str(tmp_path), variable: str(path)}
    assert variable not in environment.allowed(env, table.variables(AgentConfig(type=name), env))
    env |= switch
    reached = environment.allowed(env, table.variables(config, env))
    assert reached[variable] == str(path)
    assert login.seen(tool, config, reached)
    with login.lend(tool, reached, config) as lent:
        copy = Path(lent.env[variable])
        assert (copy.read_text(), lent.folder in copy.parents) == ("credentials", True)


def test_a_cloud_that_is_switched_off_is_off(tmp_path):
    env = {"HOME": str(tmp_path), "CLAUDE_CODE_USE_BEDROCK": "0", "AWS_REGION": "x"}
    assert "AWS_*" not in table.variables(AgentConfig(type="claude"), env)


def test_the_usual_credentials_are_found_without_a_variable(tmp_path):
    write(tmp_path, ".aws/credentials", "[default]")
    env = {"HOME": str(tmp_path), "CLAUDE_CODE_USE_BEDROCK": "1"}
    with login.lend(TOOLS["claude"], env, AgentConfig(type="claude")) as lent:
        assert Path(lent.env["AWS_SHARED_CREDENTIALS_FILE"]).read_text() == "[default]"


PROVIDER = '{"provider": {"t": {"npm": "x"}}}'
# How somebody chooses a service for opencode, and whether its own hosted one may then be used.
CHOSEN = [
    ({}, {"model": "t/m"}, {}, False),
    ({}, {"model": "opencode/free"}, {}, True),
    ({"OPENCODE_CONFIG_CONTENT": PROVIDER}, {}, {}, False),
    ({"OPENCODE_CONFIG_CONTENT": '{"model": "opencode/free"}'}, {}, {}, True),
    ({"ANTHROPIC_API_KEY": "k"}, {}, {}, False),
    ({"OPENCODE_API_KEY": "k"}, {}, {}, True),
    ({}, {}, {".local/share/opencode/auth.json": '{"x": {"type": "api", "key": "k"}}'}, False),
    ({}, {}, {".local/share/opencode/auth.json": '{"opencode": {"type": "api"}}'}, True),
    ({}, {"settings": "user"}, {OWN["opencode"]: f"// mine\n{PROVIDER}"}, False),
]


@pytest.mark.parametrize(("env", "keys", "files", "hosted"), CHOSEN)
def test_opencode_works_with_a_service_that_somebody_chose(
    tmp_path, keeper, env, keys, files, hosted
):
    path = fake.program(tmp_path, "opencode")
    spec = fake.spec(tmp_path, keeper, "opencode", path, **keys)
    for name, text in files.items():
        write(tmp_path / "home", name, text)
    spec.environment.update(env)
    tool = TOOLS["opencode"]
    assert table.unready(spec.root, spec.config, spec.environment) is None
    assert login.seen(tool, spec.config, spec.environment)
    inline = json.loads(tool.launch(fake.ask(spec, tool)).env["OPENCODE_CONFIG_CONTENT"])
    assert ("opencode" in inline.get("disabled_providers", ())) is not hosted


@pytest.mark.parametrize(
    ("env", "files"),
    [
        ({}, {}),
        ({"OPENCODE_CONFIG_CONTENT": '{"provider": {}, "theme": "dark"}'}, {}),
        ({}, {OWN["opencode"]: PROVIDER}),
        ({}, {".local/share/opencode/auth.json": "{}"}),
    ],
)
def test_opencode_is_refused_where_nobody_chose_a_service(tmp_path, keeper, env, files):
    mark = tmp_path / "ran"
    path = fake.program(tmp_path, "opencode", f"touch {mark}")
    spec = fake.spec(tmp_path, keeper, "opencode", path)
    for name, text in files.items():
        write(tmp_path / "home", name, text)
    spec.environment.update(env)
    result = BACKENDS["opencode"](spec, request(), "hello", tmp_path / "step")
    assert (result.error, result.may_retry) == (StepError.AUTH_FAILED, False)
    assert "no provider is configured" in result.message
    assert not mark.exists()
    assert "no provider is configured" in table.unready(spec.root, spec.config, spec.environment)
    assert login.seen(TOOLS["opencode"], spec.config, spec.environment) is None


def test_providers_that_the_user_disabled_stay_disabled(tmp_path, keeper):
    spec = fake.spec(tmp_path, keeper, "opencode", "/usr/bin", model="t/m")
    given = {"disabled_providers": ["xai"], "provider": {"t": {}}}
    spec.environment["OPENCODE_CONFIG_CONTENT"] = json.dumps(given)
    found = TOOLS["opencode"].launch(fake.ask(spec, TOOLS["opencode"]))
    inline = json.loads(found.env["OPENCODE_CONFIG_CONTENT"])
    assert inline["disabled_providers"] == ["opencode", "xai"]


def test_a_tool_that_is_missing_cannot_begin(tmp_path):
    why = table.unready(tmp_path, AgentConfig(type="codex"), {"PATH": str(tmp_path)})
    assert why.startswith("codex is not installed")
    assert table.unready(tmp_path, AgentConfig(type="exec", cmd=("nothing",)), {"PATH": ""}) is None
