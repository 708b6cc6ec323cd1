"""Children know what tools need, and nothing else of the user's environment."""

import pytest

from treadle.proc.environment import OF_WORKERS, allowed


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


@pytest.mark.parametrize("name", ["TREADLE_STORE", "TREADLE_ARTIFACTS", "TREADLE_FLEET_KEY_FILE"])
def test_where_treadles_own_things_are_never_passes(name):
    assert allowed({name: "v"}, [name, "TREADLE_*", "T*"]) == {}


@pytest.mark.parametrize(
    "name",
    [
        *("PGPASSWORD", "PGPASSFILE", "PGSERVICEFILE", "PGSERVICE", "PGSSLKEY"),
        *("AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS", "AZURE_KEY"),
    ],
)
def test_what_a_worker_reaches_its_database_and_archives_by_never_passes(name):
    assert allowed({name: "v"}, [name, f"{name[:2]}*"], OF_WORKERS) == {}
    assert allowed({name: "v"}, [name]) == {name: "v"}
