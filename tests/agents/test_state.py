"""Logins: lent to the tool's own folder, given back when refreshed."""

import os

from treadle.agents import state
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


def test_no_login_is_made_where_the_user_has_none(tmp_path):
    (state.lend(TOOL, env(tmp_path)) / "auth.json").write_text("x")
    state.give_back(TOOL, env(tmp_path))
    assert not (tmp_path / ".codex").exists()
