"""Children know what tools need, and nothing else of the user's environment."""

import pytest

from treadle.proc.environment import allowed


@pytest.mark.parametrize(
    "name",
    ["PATH", "HOME", "LC_ALL", "https_proxy", "HTTPS_PROXY", "SSL_CERT_FILE", "CARGO_HOME", "TZ"],
)
def test_what_tools_need_passes(name):
    assert allowed({name: "v"}) == {name: "v"}


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "SSH_AUTH_SOCK",
        "GIT_DIR",
        "PATHS",
        "LD_PRELOAD",
        "path",
    ],
)
def test_everything_else_stays_out(name):
    assert allowed({name: "v"}) == {}


def test_declared_names_and_prefixes_pass():
    env = {"OPENAI_API_KEY": "1", "AWS_REGION": "2", "AWS": "3", "OTHER": "4"}
    found = allowed(env, ["OPENAI_API_KEY", "AWS_*", "ABSENT"])
    assert found == {"OPENAI_API_KEY": "1", "AWS_REGION": "2"}


def test_a_generator_of_names_is_read_once():
    assert allowed({"A": "1", "B_X": "2"}, (name for name in ("A", "B_*"))) == {
        "A": "1",
        "B_X": "2",
    }
