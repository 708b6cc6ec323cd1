"""Logins: lent to the tool's own folder, given back when refreshed."""

import os
import shutil

from treadle.agents import gemini, state
from treadle.agents.codex import TOOL


def env(tmp_path, **extra):
    return {"HOME": str(tmp_path), **extra}


def login(tmp_path, text, age=0):
    path = tmp_path / ".codex" / "auth.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))
    return path


def test_a_login_is_copied_for_the_owner_alone(tmp_path):
    login(tmp_path, "token 1")
    copy = state.lend(TOOL, env(tmp_path)) / "auth.json"
    assert copy.read_text() == "token 1"
    assert copy.stat().st_mode & 0o777 == 0o600


def test_a_refreshed_login_goes_back(tmp_path):
    own = login(tmp_path, "token 1")
    (state.lend(TOOL, env(tmp_path)) / "auth.json").write_text("token 2")
    state.give_back(TOOL, env(tmp_path))
    assert own.read_text() == "token 2"


def test_a_newer_login_of_the_user_wins(tmp_path):
    place = state.lend(TOOL, env(tmp_path))
    copy = place / "auth.json"
    copy.write_text("old")
    os.utime(copy, (1_600_000_000, 1_600_000_000))
    own = login(tmp_path, "new")
    state.give_back(TOOL, env(tmp_path))
    assert own.read_text() == "new"
    state.lend(TOOL, env(tmp_path))
    assert copy.read_text() == "new"


def test_with_an_api_key_the_folder_holds_no_login(tmp_path):
    login(tmp_path, "token")
    copy = state.lend(TOOL, env(tmp_path)) / "auth.json"
    assert copy.exists()
    state.lend(TOOL, env(tmp_path, CODEX_API_KEY="k"))
    assert not copy.exists()


def test_the_users_own_state_variable_is_where_the_login_is(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "auth.json").write_text("mine")
    found = env(tmp_path, CODEX_HOME=str(tmp_path / "mine"))
    assert (state.lend(TOOL, found) / "auth.json").read_text() == "mine"


def test_what_a_tool_left_in_its_folder_leads_nowhere(tmp_path):
    victim = tmp_path / "id_rsa"
    victim.write_text("secret")
    own = login(tmp_path, "token 1")
    place = state.lend(TOOL, env(tmp_path))
    (place / "auth.json").unlink()
    (place / "auth.json").symlink_to(victim)
    state.give_back(TOOL, env(tmp_path))
    assert own.read_text() == "token 1"
    state.lend(TOOL, env(tmp_path))
    assert (place / "auth.json").read_text() == "token 1"
    assert victim.read_text() == "secret"


def test_a_linked_folder_in_the_managed_one_is_replaced(tmp_path):
    mine = tmp_path / ".gemini"
    mine.mkdir()
    (mine / "oauth_creds.json").write_text("token")
    place = state.lend(gemini.TOOL, env(tmp_path))
    shutil.rmtree(place / ".gemini")
    (place / ".gemini").symlink_to(mine)
    state.lend(gemini.TOOL, env(tmp_path, GEMINI_API_KEY="k"))
    assert (mine / "oauth_creds.json").read_text() == "token"
    assert not (place / ".gemini").is_symlink()


def test_no_login_is_made_where_the_user_has_none(tmp_path):
    (state.lend(TOOL, env(tmp_path)) / "auth.json").write_text("x")
    state.give_back(TOOL, env(tmp_path))
    assert not (tmp_path / ".codex").exists()
