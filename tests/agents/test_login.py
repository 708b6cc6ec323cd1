"""Logins: lent for one turn, and back goes nothing but a refreshed token."""

import base64
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.agents import fake
from tests.agents.test_oneshot import DONE, GOOD, START, printed, request, said
from treadle.agents import login
from treadle.agents.table import BACKENDS, TOOLS
from treadle.config.schema import AgentConfig
from treadle.proc.keeper import Keeper

NOW = int(time.time() * 1000)
OVER, LATER = NOW - 60_000, NOW + 8 * 3600_000


def jwt(**claims):
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJub25lIn0.{body}.c2ln"


def openai(account, **claims):
    return {"https://api.openai.com/auth": {"chatgpt_account_id": account}, **claims}


def codex(who="ada", n=1, account="acc-1"):
    return {
        "OPENAI_API_KEY": None,
        "tokens": {
            "id_token": jwt(iss="https://auth", sub=who, email=f"{who}@example.org", iat=n),
            "access_token": jwt(iss="https://auth", sub=who, exp=n, **openai(account)),
            "refresh_token": f"rt-{who}-{n}",
            "account_id": account,
        },
        "last_refresh": f"2026-01-0{n}T00:00:00Z",
    }


def claude(n=1, ends=OVER, **extra):
    tokens = {"accessToken": f"sk-ant-oat01-{n}", "refreshToken": f"sk-ant-ort01-{n}"}
    return {"claudeAiOauth": {**tokens, "expiresAt": ends, "scopes": ["user:inference"], **extra}}


def gemini(who="ada", n=1, ends=OVER):
    return {
        "access_token": f"ya29.{n}",
        "scope": "openid https://www.googleapis.com/auth/cloud-platform",
        "token_type": "Bearer",
        "id_token": jwt(
            iss="https://accounts.google.com", sub=who, email=f"{who}@example.org", n=n
        ),
        "expiry_date": ends,
        "refresh_token": "1//same",
    }


def opencode(n=1, ends=OVER, key="sk-1"):
    oauth = {"type": "oauth", "refresh": f"r-{n}", "access": f"a-{n}", "expires": ends}
    return {"anthropic": oauth, "openai": {"type": "api", "key": key}}


BEFORE = {"codex": codex(), "claude": claude(), "gemini": gemini(), "opencode": opencode()}
AFTER = {
    "codex": codex(n=2),
    "claude": claude(2, LATER),
    "gemini": gemini(n=2, ends=LATER),
    "opencode": opencode(2, LATER),
}


class User:
    """A user with a login of one tool."""

    def __init__(self, home, tool):
        self.tool, self.env = TOOLS[tool], {"HOME": str(home)}
        self.path = home / self.tool.home / self.tool.logins[0]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(BEFORE[tool]))
        self.before = self.path.read_bytes()

    def turn(self, change):
        """Let a tool change its folder in a good turn; return whether a login came back."""
        with login.lend(self.tool, self.env) as lent:
            change(lent.folder, lent.folder / self.tool.logins[0])
            found = lent.refreshed()
        return found is not None and login.give_back(found, self.env)


@pytest.fixture
def user(tmp_path):
    return lambda tool="codex": User(tmp_path, tool)


@pytest.mark.parametrize("tool", BEFORE)
def test_a_refreshed_login_goes_back(user, tool):
    ada = user(tool)
    assert ada.turn(lambda _, copy: copy.write_text(json.dumps(AFTER[tool])))
    assert json.loads(ada.path.read_text()) == AFTER[tool]
    assert ada.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("tool", BEFORE)
def test_a_login_that_was_only_read_stays(user, tool):
    ada = user(tool)
    assert not ada.turn(lambda _, copy: json.loads(copy.read_text()))
    assert ada.path.read_bytes() == ada.before


def texts(value):
    return lambda folder, copy: copy.write_text(
        value if isinstance(value, str) else json.dumps(value)
    )


def changed(base, *path, value):
    found = json.loads(json.dumps(base))
    inner = found
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return texts(found)


def linked(folder, copy):
    target = folder / "planted.json"
    target.write_text(json.dumps(AFTER["codex"]))
    copy.unlink()
    copy.symlink_to(target)


def linked_above(folder, copy):
    other = folder / "other"
    other.mkdir()
    (other / copy.name).write_text(json.dumps(AFTER["gemini"]))
    copy.unlink()
    for name in copy.parent.iterdir():
        name.unlink()
    copy.parent.rmdir()
    copy.parent.symlink_to(other)


def fifo(folder, copy):
    copy.unlink()
    os.mkfifo(copy)


def folder_instead(folder, copy):
    copy.unlink()
    copy.mkdir()


def gone(folder, copy):
    copy.unlink()


def closed(folder, copy):
    copy.write_text(json.dumps(AFTER["codex"]))
    copy.rename(folder / "other")


TOKEN = ("tokens", "access_token")
ATTACKS = {
    "another account": ("codex", texts(codex("eve", 2))),
    "another account by name only": (
        "codex",
        changed(AFTER["codex"], "tokens", "account_id", value="acc-2"),
    ),
    "another account in the token": (
        "codex",
        texts(
            codex("ada", 2, "acc-2")
            | {"tokens": codex("ada", 2, "acc-2")["tokens"] | {"account_id": "acc-1"}}
        ),
    ),
    "another subject": (
        "codex",
        changed(
            codex(),
            "tokens",
            "id_token",
            value=jwt(iss="https://auth", sub="eve", email="ada@example.org"),
        ),
    ),
    "another issuer": (
        "codex",
        changed(
            codex(), *TOKEN, value=jwt(iss="https://evil", sub="ada", exp=2, **openai("acc-1"))
        ),
    ),
    "no longer a signed token": ("codex", changed(codex(), *TOKEN, value="opaque")),
    "an API key": ("codex", changed(AFTER["codex"], "OPENAI_API_KEY", value="sk-evil")),
    "an extra key": ("codex", changed(AFTER["codex"], "base_url", value="http://evil.example")),
    "an extra key inside": ("codex", changed(AFTER["codex"], "tokens", "hook", value="sh")),
    "a missing key": ("codex", texts({"tokens": codex(n=2)["tokens"]})),
    "a list for a token": ("codex", changed(codex(), *TOKEN, value=["x"])),
    "an object for a token": ("codex", changed(codex(), *TOKEN, value={"a": "b"})),
    "null for a token": ("codex", changed(codex(), "tokens", "refresh_token", value=None)),
    "a number for a token": ("codex", changed(codex(), "tokens", "refresh_token", value=7)),
    "an empty token": ("codex", changed(codex(), "tokens", "refresh_token", value="")),
    "a line break in a token": ("codex", changed(codex(), "tokens", "refresh_token", value="a\nb")),
    "an escape in a token": ("codex", changed(codex(), "tokens", "refresh_token", value="\x1b]0;")),
    "a bidi sign in a token": (
        "codex",
        changed(codex(), "tokens", "refresh_token", value="a\u202e"),
    ),
    "a huge token": ("codex", changed(codex(), "tokens", "refresh_token", value="a" * 20_000)),
    "a huge file": ("codex", texts(json.dumps(AFTER["codex"]) + " " * (2 << 20))),
    "no JSON": ("codex", texts("token 2")),
    "a key twice": ("codex", texts('{"tokens": 1, ' + json.dumps(AFTER["codex"])[1:])),
    "nested without end": ("codex", texts("[" * 100_000)),
    "a list": ("codex", texts([AFTER["codex"]])),
    "a link": ("codex", linked),
    "a pipe": ("codex", fifo),
    "a folder": ("codex", folder_instead),
    "nothing": ("codex", gone),
    "under another name": ("codex", closed),
    "a linked folder": ("gemini", linked_above),
    "an end far away": ("gemini", changed(AFTER["gemini"], "expiry_date", value=LATER * 100)),
    "another Google account": ("gemini", texts(gemini("eve", 2, LATER))),
    "more rights": ("gemini", changed(AFTER["gemini"], "scope", value="everything")),
    "new tokens that end as the old ones": ("claude", texts(claude(2))),
    "more scopes": ("claude", changed(AFTER["claude"], "claudeAiOauth", "scopes", value=["all"])),
    "an end in the past": ("claude", texts(claude(2, OVER - 1))),
    "a truth for an end": (
        "claude",
        changed(AFTER["claude"], "claudeAiOauth", "expiresAt", value=True),
    ),
    "a key of another provider": ("opencode", texts(opencode(2, LATER, "sk-evil"))),
    "another kind of login": (
        "opencode",
        changed(AFTER["opencode"], "anthropic", "type", value="api"),
    ),
    "a second provider": ("opencode", texts(AFTER["opencode"] | {"evil": opencode()["anthropic"]})),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_else_goes_back(user, attack):
    tool, change = ATTACKS[attack]
    ada = user(tool)
    assert not ada.turn(change)
    assert ada.path.read_bytes() == ada.before


def test_a_token_that_is_still_good_is_not_replaced(user):
    ada = user("claude")
    ada.path.write_text(json.dumps(claude(1, LATER)))
    assert not ada.turn(texts(claude(2, LATER + 3600_000)))
    assert json.loads(ada.path.read_text()) == claude(1, LATER)


def test_what_the_settings_of_a_tool_become_stays_behind(tmp_path):
    tool = TOOLS["copilot"]
    own = tmp_path / ".copilot" / "config.json"
    own.parent.mkdir()
    own.write_text('{"copilot_tokens": {"u": "gho_1"}, "trusted_folders": []}')
    before = own.read_bytes()
    with login.lend(tool, {"HOME": str(tmp_path)}) as lent:
        (lent.folder / "config.json").write_text(
            '{"copilot_tokens": {"u": "gho_2"}, "trusted_folders": ["/"]}'
        )
        assert lent.refreshed() is None
    assert own.read_bytes() == before


def test_a_login_that_the_user_changed_meanwhile_stays(user):
    ada = user()

    def both(_, copy):
        copy.write_text(json.dumps(AFTER["codex"]))
        ada.path.write_text(json.dumps(codex("ada", 3)))

    assert not ada.turn(both)
    assert json.loads(ada.path.read_text()) == codex("ada", 3)


def test_of_two_turns_at_once_the_first_one_counts_and_none_sees_the_other(user):
    ada = user()
    with login.lend(ada.tool, ada.env) as one, login.lend(ada.tool, ada.env) as two:
        assert one.folder != two.folder
        (one.folder / "auth.json").write_text(json.dumps(codex(n=2)))
        assert json.loads((two.folder / "auth.json").read_text()) == codex()
        (two.folder / "auth.json").write_text(json.dumps(codex(n=3)))
        assert login.give_back(one.refreshed(), ada.env)
        assert not login.give_back(two.refreshed(), ada.env)
    assert json.loads(ada.path.read_text()) == codex(n=2)


def test_the_next_turn_meets_nothing_of_the_one_before(user):
    ada = user()

    def plant(folder, copy):
        (folder / "hooks").mkdir()
        for name in ("settings.json", "config.toml", "hooks/pre.sh", "AGENTS.md", ".mcp.json"):
            (folder / name).write_text("run me")
        (folder / "closed").mkdir(mode=0)

    ada.turn(plant)
    with login.lend(ada.tool, ada.env) as lent:
        assert [path.name for path in lent.folder.iterdir()] == ["auth.json"]
        assert lent.folder.stat().st_mode & 0o777 == 0o700
        assert (lent.folder / "auth.json").stat().st_mode & 0o777 == 0o600
    assert left(ada) == []


def left(ada):
    """Return what lies among the states of tools."""
    place = Path(ada.env["HOME"], ".local/state/treadle/agents")
    return sorted(path.name for path in place.iterdir() if path.name != "lock")


def test_a_killed_process_leaves_its_folder_to_whoever_comes_next(user):
    ada = user()
    script = (
        "import sys; from treadle.agents import login; from treadle.agents.codex import TOOL\n"
        f"with login.lend(TOOL, {ada.env!r}): print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        assert len(left(ada)) == 2
        login.clear_states(ada.env)  # somebody else's, who is alive
        assert len(left(ada)) == 2
        process.send_signal(signal.SIGKILL)
        process.wait()
    login.clear_states(ada.env)
    assert left(ada) == []


def test_with_an_api_key_the_folder_holds_no_login(user):
    ada = user()
    with login.lend(ada.tool, ada.env | {"CODEX_API_KEY": "k"}) as lent:
        assert list(lent.folder.iterdir()) == []
        (lent.folder / "auth.json").write_text(json.dumps(AFTER["codex"]))
        assert lent.refreshed() is None


def test_the_users_own_state_variable_is_where_the_login_is(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "auth.json").write_text("mine")
    env = {"HOME": str(tmp_path), "CODEX_HOME": str(tmp_path / "mine")}
    with login.lend(TOOLS["codex"], env) as lent:
        assert (lent.folder / "auth.json").read_text() == "mine"


def test_a_linked_login_is_refreshed_where_it_lies(user, tmp_path):
    ada = user()
    real = ada.path.rename(tmp_path / "dotfiles.json")
    ada.path.symlink_to(real)
    assert ada.turn(texts(AFTER["codex"]))
    assert ada.path.is_symlink()
    assert json.loads(real.read_text()) == AFTER["codex"]


LOGGED_OUT = {
    "codex": ("auth.json", {"OPENAI_API_KEY": None, "tokens": None}),
    "claude": (".credentials.json", {"claudeAiOauth": {}}),
    "gemini": (".gemini/google_accounts.json", {"active": None, "old": ["ada@example.com"]}),
    "copilot": ("config.json", {"firstLaunchAt": "2026-11-18T17:22:27.322Z"}),
}
LOGGED_IN = {
    "codex": ("auth.json", {"OPENAI_API_KEY": "sk-1"}),
    "claude": (".credentials.json", {"claudeAiOauth": {"accessToken": "t"}}),
    "gemini": (".gemini/oauth_creds.json", {"access_token": "t"}),
    "copilot": ("config.json", {"copilotTokens": {"https://github.com:ada": "gho_1"}}),
}


@pytest.mark.parametrize("tool", LOGGED_IN)
def test_a_file_is_a_login_only_with_a_token_in_it(tmp_path, tool):
    env, known, seen = {"HOME": str(tmp_path)}, TOOLS[tool], []
    for name, content in (LOGGED_OUT[tool], LOGGED_IN[tool]):
        path = tmp_path / known.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
        seen.append(login.seen(known, AgentConfig(type=tool), env))
    assert seen == [None, str(path)]


def test_no_login_is_made_where_the_user_has_none(user):
    ada = user()
    ada.path.unlink()
    assert not ada.turn(texts(AFTER["codex"]))
    assert not ada.path.exists()


@pytest.mark.parametrize("end", ["exit 1", "kill -9 $$", said("no answer").strip()])
def test_a_turn_that_fails_gives_nothing_back(user, tmp_path, end):
    ada = User(tmp_path / "home", "codex")
    new = tmp_path / "new.json"
    new.write_text(json.dumps(AFTER["codex"]))
    script = f'cat > /dev/null; cat {new} > "$CODEX_HOME/auth.json"; {printed(START)}{end}\n'
    with Keeper() as keeper:
        spec = fake.spec(tmp_path, keeper, "codex", fake.program(tmp_path, "codex", script))
        result = BACKENDS["codex"](spec, request(), "please", tmp_path / "step")
    assert result.error
    assert result.login is None
    assert left(ada) == []


def test_a_turn_that_is_asked_again_keeps_its_folder(tmp_path):
    ada = User(tmp_path / "home", "codex")
    new = tmp_path / "new.json"
    new.write_text(json.dumps(AFTER["codex"]))
    first = f"{printed(START)}{said('no answer')}touch $CODEX_HOME/session{chr(10)}{printed(DONE)}"
    again = f"cat {new} > $CODEX_HOME/auth.json; {said(GOOD)}{printed(DONE)}"
    script = f"cat > /dev/null; if [ -e $CODEX_HOME/session ]; then {again} else {first} fi\n"
    with Keeper() as keeper:
        spec = fake.spec(tmp_path, keeper, "codex", fake.program(tmp_path, "codex", script))
        result = BACKENDS["codex"](spec, request(), "please", tmp_path / "step")
    assert result.error is None
    assert result.repaired
    assert login.give_back(result.login, spec.environment)
    assert json.loads(ada.path.read_text()) == AFTER["codex"]
