"""The user's own settings of a tool lead it to its model; a repository's own are not read."""

import json
import os
from pathlib import Path

import pytest

from tests.real.cases import cases
from tests.real.model import KEY
from tests.real.test_connections import at_once
from tests.real.test_hostile import set_traps
from tests.real.tools import PATIENCE, codex, environment, opencode

pytestmark = [pytest.mark.real, pytest.mark.timeout(PATIENCE)]


def codex_settings(url, server):
    provider = codex(url)["model_providers"]["t"] | {"env_key": "MY_OWN_KEY"}
    table = "\n".join(f"{key} = {json.dumps(value)}" for key, value in provider.items())
    text = f'model_provider = "t"\nmodel = "gpt-5.5"\n[model_providers.t]\n{table}\n'
    text += f'[mcp_servers.mine]\ncommand = "sh"\nargs = {json.dumps(server["args"])}\n'
    return {".codex/config.toml": text}, {"MY_OWN_KEY": KEY}


def claude_settings(url, server):
    env = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_MODEL": "scripted"}
    own = {"env": env, "apiKeyHelper": f"echo {KEY}"}
    files = {".claude/settings.json": own, ".claude.json": {"mcpServers": {"mine": server}}}
    return {name: json.dumps(it) for name, it in files.items()}, {}


def gemini_settings(url, server):
    own = {"model": {"name": "scripted"}, "mcpServers": {"mine": server}}
    return {".gemini/settings.json": json.dumps(own)}, environment("gemini", url)


def opencode_settings(url, server):
    servers = {"mine": {"type": "local", "command": ["sh", *server["args"]]}}
    return {".config/opencode/opencode.json": json.dumps(opencode(url) | {"mcp": servers})}, {}


def copilot_settings(url, server):
    servers = {"mcpServers": {"mine": server | {"type": "local", "tools": ["*"]}}}
    return {".copilot/mcp-config.json": json.dumps(servers)}, environment("copilot", url)


SETTINGS = {
    "codex": codex_settings,
    "claude": claude_settings,
    "gemini": gemini_settings,
    "opencode": opencode_settings,
    "copilot": copilot_settings,
}


@pytest.mark.parametrize("tool", cases(*SETTINGS))
def test_the_users_own_settings_are_enough_and_the_repositorys_are_not_read(bench, tool, tmp_path):
    found = bench(tool, at_once)
    (started := tmp_path / "started").mkdir()
    server = {"command": "sh", "args": ["-c", f"touch {started}/mine"]}
    files, env = SETTINGS[tool](found.model.url, server)
    for name, text in files.items():
        path = Path(os.environ["HOME"]) / name
        if name.startswith(".config/") and os.environ.get("XDG_CONFIG_HOME"):
            path = Path(os.environ["XDG_CONFIG_HOME"]) / name.removeprefix(".config/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    set_traps(found.project.root, tmp_path / "canary")
    for role in ("plan", "do", "check", "act"):
        own = f'settings = "user"\nwritable = ["{started}"]'
        found.project.config[role] = f'type = "{tool}"\n{own}'
    found.project.save()
    found.env = env | {"PATH": found.env["PATH"]}
    run = found.run()
    assert run["status"] == "passed", found.project.treadle("why", run["run_id"]).out
    assert found.model.turns
    assert [it.name for it in started.iterdir()] == ["mine"], "the user's own MCP server"
    assert not (tmp_path / "canary").exists()


def test_codex_uses_its_login_as_it_would_by_itself_whatever_other_key_there_is(bench):
    found = bench("codex", at_once)
    login = Path(os.environ["HOME"]) / ".codex" / "auth.json"
    login.parent.mkdir(parents=True, exist_ok=True)
    login.write_text(json.dumps({"OPENAI_API_KEY": KEY}))
    address = f'openai_base_url="{found.model.url}/v1"'
    keys = f'model = "gpt-5.5"\nextra_args = {json.dumps(["-c", address])}'
    for role in ("plan", "do", "check", "act"):
        found.project.config[role] = f'type = "codex"\n{keys}'
    found.project.save()
    found.env = {"PATH": found.env["PATH"], "OPENAI_API_KEY": "sk-other-" + "0" * 20}
    run = found.run()
    assert run["status"] == "passed", found.project.treadle("why", run["run_id"]).out
    assert found.model.keys == {f"Bearer {KEY}"}
