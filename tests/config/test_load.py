"""What a configuration says, which source wins, and what a bad one is told."""

import re
from pathlib import Path

import pytest

from treadle import layout as user_paths
from treadle.config.load import Origin, load, parse_budgets
from treadle.config.schema import Config
from treadle.errors import ConfigError, UsageError

BAD = re.findall(
    r"^== (.+)\n([^=](?:.|\n)*?)\n-> (.+)$",
    (Path(__file__).parent / "bad.txt").read_text(),
    re.MULTILINE,
)


@pytest.mark.parametrize(
    ("text", "complaint"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD]
)
def test_bad_file_is_told_file_and_key(write, text, complaint):
    with pytest.raises(ConfigError) as caught:
        load(write(text + "\n"), {})
    assert caught.value.message.startswith(f".treadle/config.toml: {complaint}"), caught.value


def test_depth_bomb_is_refused(write):
    with pytest.raises(ConfigError, match="nested too deeply"):
        load(write(f"a = {'[' * 5000}"), {})


def test_empty_file_gives_the_defaults(write):
    loaded = load(write(""), {})
    assert loaded.config == Config()
    assert set(loaded.origins.values()) == {Origin("default", "default")}


def test_json_is_read_like_toml(layout):
    (layout.home / "config.json").write_text(
        '{"agents": {"plan": {"type": "exec", "cmd": ["./bin/plan"], "path": null}},'
        ' "budgets": {"max_iterations": 7, "max_patch_kb": 200}}'
    )
    config = load(layout, {}).config
    assert config.agents["plan"].cmd == ("./bin/plan",)
    assert (config.budgets.max_iterations, config.budgets.max_patch_kb) == (7, 200)


def test_json_with_a_duplicate_key_is_refused(layout):
    (layout.home / "config.json").write_text('{"sandbox": "off", "sandbox": "auto"}')
    with pytest.raises(ConfigError, match=r"^\.treadle/config\.json: duplicate key 'sandbox'"):
        load(layout, {})


def test_two_files_are_one_too_many(write, layout):
    (layout.home / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"config\.toml and \.treadle/config\.json") as caught:
        load(write(""), {})
    assert caught.value.fix == ("rm .treadle/config.json",)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [(b"\xff", "not UTF-8 at byte 0"), (b"#" * (2 << 20), "larger than 1 MiB")],
    ids=["latin", "huge"],
)
def test_bytes_that_are_no_text_are_refused(layout, data, complaint):
    layout.config_toml.write_bytes(data)
    with pytest.raises(ConfigError, match=complaint):
        load(layout, {})


def test_byte_order_mark_and_crlf_are_fine(layout):
    layout.config_toml.write_bytes(b'\xef\xbb\xbfsandbox = "off"\r\n')
    assert load(layout, {}).config.sandbox.mode == "off"


def test_flags_beat_environment_beats_project_beats_user(write, private_home):
    env = {"HOME": str(private_home), "TREADLE_BUDGETS_MAX_TOKENS": "30"}
    user = user_paths.user_config(env)
    user.parent.mkdir(parents=True)
    user.write_text(
        "[budgets]\nmax_minutes = 1\nmax_iterations = 1\nmax_tokens = 1\nmax_patch_kb = 1\n"
    )
    layout = write("[budgets]\nmax_iterations = 2\nmax_tokens = 2\nmax_patch_kb = 2\n")
    loaded = load(layout, env, {"budgets": {"max_patch_kb": 40}})
    found = loaded.config.budgets
    assert (found.max_minutes, found.max_iterations, found.max_tokens, found.max_patch_kb) == (
        1, 2, 30, 40,
    )  # fmt: skip
    assert [loaded.origins[f"budgets.{key}"] for key in (
        "max_minutes", "max_iterations", "max_tokens", "max_patch_kb", "max_cost_usd",
    )] == [
        Origin("user", str(user)),
        Origin("project", ".treadle/config.toml"),
        Origin("environment", "TREADLE_BUDGETS_MAX_TOKENS"),
        Origin("flag", "command line"),
        Origin("default", "default"),
    ]  # fmt: skip


def test_project_agent_replaces_the_users_as_a_whole(write, private_home):
    env = {"HOME": str(private_home)}
    user = user_paths.user_config(env)
    user.parent.mkdir(parents=True)
    user.write_text('[agents.plan]\ntype = "exec"\ncmd = ["x"]\n[agents.do]\ntype = "builtin"\n')
    config = load(write('[agents.plan]\ntype = "builtin"\n'), env).config
    assert config.agents["plan"].cmd is None
    assert "do" in config.agents


def test_environment_sets_keys_of_configured_agents(write):
    layout = write('[agents.check]\ntype = "builtin"\n')
    env = {"TREADLE_AGENTS_CHECK_TIMEOUT": "12.5", "TREADLE_CHECKS_BEFORE": "false"}
    config = load(layout, env).config
    assert config.agents["check"].timeout == 12.5
    assert config.checks.before is False


def test_bad_variable_is_named(write):
    with pytest.raises(
        ConfigError, match=r"^TREADLE_CHECKS_TIMEOUT: checks\.timeout must be a num"
    ):
        load(write(""), {"TREADLE_CHECKS_TIMEOUT": "soon"})


def test_empty_and_foreign_variables_are_left_alone(write):
    env = {"TREADLE_SANDBOX": "", "TREADLE_RUN": "r", "TREADLE_VERIFY_NAME": "x"}
    assert load(write(""), env).config == Config()


def test_budgets_are_read_by_name():
    items = ["max_iterations=3", "max_cost_usd=0.5", "max_risky_files=0"]
    assert parse_budgets(items) == {
        "max_iterations": 3,
        "max_cost_usd": 0.5,
        "max_risky_files": 0,
    }


@pytest.mark.parametrize(
    ("item", "complaint"),
    [
        ("max_iteration=3", "--budget max_iteration: no such budget; did you mean max_iterations?"),
        ("zzz=3", "--budget zzz: no such budget; known: max_iterations, "),
        ("max_tokens", "--budget max_tokens: write it as --budget max_tokens=NUMBER"),
        ("max_tokens=many", "--budget max_tokens must be a whole number above 0, not 'many'"),
        ("max_tokens=null", "--budget max_tokens must be a whole number above 0, not 'null'"),
        ("max_minutes=0", "--budget max_minutes must be a number above 0, not '0'"),
        ("max_minutes=-1", "--budget max_minutes must be a number above 0, not '-1'"),
        ("max_minutes=nan", "--budget max_minutes must be a number above 0, not 'nan'"),
        ("max_iterations=true", "--budget max_iterations must be a whole number from 1"),
    ],
)
def test_bad_budget_is_told_what_is_wrong(item, complaint):
    with pytest.raises(UsageError) as caught:
        parse_budgets([item])
    assert caught.value.message.startswith(complaint)


def test_budget_given_twice_is_refused():
    with pytest.raises(UsageError, match="--budget max_tokens is given twice"):
        parse_budgets(["max_tokens=1", "max_tokens=2"])


def test_reading_again_looks_at_no_type(write, monkeypatch):
    """The page reads the settings at every request; what keys there are never changes."""
    layout = write("[budgets]\nmax_iterations = 3\n")
    first = load(layout, {})

    def fields(struct):
        pytest.fail(f"asked for the fields of {struct.__name__} again")

    monkeypatch.setattr("msgspec.structs.fields", fields)
    assert load(layout, {}) == first
