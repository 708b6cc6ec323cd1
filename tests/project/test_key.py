"""The key of a fleet: where it lies, who may read it, what it signs."""

import os
import stat

import pytest

from treadle.errors import ConfigError
from treadle.project import key


@pytest.fixture
def env(tmp_path):
    return {"TREADLE_FLEET_KEY_FILE": str(tmp_path / "secrets" / "key"), "HOME": str(tmp_path)}


def refusal(env, root=None):
    with pytest.raises(ConfigError) as refused:
        key.read(env, root)
    return refused.value.code


def test_it_is_made_once_and_closed_to_others(env):
    made = key.make(env)
    assert key.make(env) == made == key.read(env)
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert [path.name for path in made.path.parent.iterdir()] == ["key"]
    assert made.name not in made.path.read_text()


def test_without_a_variable_it_is_in_the_state_home(tmp_path):
    assert key.make({"HOME": str(tmp_path)}).path == tmp_path / ".local/state/treadle/fleet.key"


def test_a_missing_one_says_which_command_makes_it(env):
    with pytest.raises(ConfigError) as refused:
        key.read(env)
    assert (refused.value.code, refused.value.fix) == ("fleet_key_missing", ("treadle fleet key",))
    assert env["TREADLE_FLEET_KEY_FILE"] in refused.value.message


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o620, 0o660, 0o666, 0o602])
def test_one_that_others_can_read_or_change_is_unfit(env, mode):
    key.make(env).path.chmod(mode)
    assert refusal(env) == "fleet_key_unfit"


def test_one_that_a_group_may_read_is_fit_as_mounted_secrets_are(env):
    key.make(env).path.chmod(0o440)
    assert key.read(env).lines


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_one_of_another_user_is_unfit(env):
    os.chown(key.make(env).path, 12345, 12345)
    assert refusal(env) == "fleet_key_unfit"


@pytest.mark.parametrize("text", ["", "short", f"{'a' * 64}\n{'b' * 64}\n{'c' * 64}", "\n\n"])
def test_one_of_other_content_is_unfit(env, text):
    key.make(env).path.write_text(text)
    assert refusal(env) == "fleet_key_unfit"


def test_one_inside_the_repository_is_unfit_also_through_a_link(env, tmp_path):
    made = key.make(env)
    assert refusal(env, made.path.parent) == "fleet_key_unfit"
    (tmp_path / "link").symlink_to(made.path)
    assert refusal(env | {"TREADLE_FLEET_KEY_FILE": str(tmp_path / "link")}, made.path.parent)
    assert refusal({"TREADLE_FLEET_KEY_FILE": "relative/key"}) == "fleet_key_unfit"


def test_a_pipe_in_its_place_holds_nobody_up(env, tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert refusal({"TREADLE_FLEET_KEY_FILE": str(tmp_path / "pipe")}) == "fleet_key_unfit"


def test_after_a_rotation_both_keys_are_believed_and_the_new_one_signs(env):
    old = key.make(env)
    signed = old.sign("order", "text")
    new = key.rotate(env)
    assert new.lines[1] == old.lines[0] != new.lines[0]
    assert new.knows(signed, "order", "text")
    assert new.knows(new.sign("order", "text"), "order", "text")
    assert not old.knows(new.sign("order", "text"), "order", "text")
    again = key.rotate(env)
    assert not again.knows(signed, "order", "text")
    assert stat.S_IMODE(again.path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("what", "parts"),
    [("archive", ("a", "b")), ("order", ("ab",)), ("order", ("a", "b", "")), ("order", ("b", "a"))],
)
def test_a_signature_is_for_one_kind_and_one_list_of_parts(env, what, parts):
    made = key.make(env)
    signed = made.sign("order", "a", "b")
    assert made.knows(signed, "order", "a", "b")
    assert not made.knows(signed, what, *parts)


@pytest.mark.parametrize("signature", [None, "", 0, "0" * 64, "ü", [], b"x"])
def test_anything_else_is_no_signature(env, signature):
    assert not key.make(env).knows(signature, "order", "a")
