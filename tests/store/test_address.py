"""The store is where the environment or the configuration says, and passwords stay unsaid."""

import pytest

from treadle.config import Early, read_early, read_files
from treadle.config.load import load
from treadle.errors import BlockedError, ConfigError, install_extra
from treadle.ids import mask
from treadle.layout import Layout
from treadle.store import address
from treadle.store.sqlite import Sqlite

URL = "postgresql://ada:geheim@db.example/fleet"


@pytest.fixture
def project(tmp_path):
    (tmp_path / ".treadle").mkdir()
    return Layout(tmp_path)


def test_a_project_has_a_file_of_its_own(project):
    found = address.find(project, {})
    assert isinstance(found, Sqlite)
    assert found.path == project.database


@pytest.mark.parametrize(
    "text",
    [
        'store = "{url}"\n',
        "  store='{url}' # ours\n",
        'max_retries = 2\n"store" = "{url}"\nstore_schema = "shop"\n[land]\nrun = "auto"\n',
    ],
)
def test_the_quick_look_sees_what_the_configuration_says(project, tmp_path, text):
    project.config_toml.write_text(text.format(url=URL))
    env = {"HOME": str(tmp_path)}
    config = load(project, env).config
    assert read_early(project, env)[:2] == (config.store, config.store_schema)


def test_json_is_looked_into_as_well(project):
    (project.home / "config.json").write_text('{"store": "sqlite:x.db", "agents": {}}')
    assert address.find(project, {"TREADLE_RUN": "r"}).path == project.root / "x.db"


@pytest.mark.parametrize("more", [{}, {"TREADLE_STORE_SCHEMA": "treadle_fleet"}])
def test_no_project_lives_where_the_fleet_lists_its_workers(tmp_path, more):
    """A folder called fleet would have that schema by its name."""
    fleet = Layout(tmp_path / "fleet")
    with pytest.raises(ConfigError, match="store_schema") as caught:
        address.find(fleet, {"TREADLE_STORE": URL, **more})
    (words,) = caught.value.fix
    name, _, schema = words.removeprefix("export ").partition("=")
    assert address.find(fleet, {"TREADLE_STORE": URL, name: schema}).name.endswith(f"{schema})")


@pytest.mark.parametrize("url", ["sqlite:x.db", URL])
def test_a_store_that_a_clone_names_is_not_opened(project, tmp_path, url):
    project.config_toml.write_text(f'store = "{url}"\n')
    (tmp_path / ".git").mkdir()
    env = {"HOME": str(tmp_path)}
    with pytest.raises(BlockedError, match="is not trusted, and its configuration names") as caught:
        address.find(project, env)
    assert caught.value.code == "untrusted"
    assert "geheim" not in caught.value.message
    assert address.find(project, {**env, "TREADLE_STORE": "sqlite:y.db"}).path.name == "y.db"


def test_a_key_of_the_same_name_in_a_table_is_another_one(project):
    project.config_toml.write_text('[verify]\nstore = "true"\n')
    assert read_early(project, {}) == Early()


def test_a_file_that_is_as_it_was_is_parsed_once(project):
    project.config_toml.write_text('store = "sqlite:a"\n')
    first, again = (next(read_files(project, {}))[2] for _ in range(2))
    project.config_toml.write_text('store = "sqlite:b"\n')
    assert again is first
    assert read_early(project, {}).store == "sqlite:b"


def test_the_environment_beats_the_project_and_that_the_user(project, tmp_path):
    env = {"XDG_CONFIG_HOME": str(tmp_path / "user")}
    user = tmp_path / "user" / "treadle" / "config.toml"
    user.parent.mkdir(parents=True)
    user.write_text('store = "sqlite:user"\nstore_schema = "user"\n')
    project.config_toml.write_text('store = "sqlite:project"\n')
    assert read_early(project, env)[:2] == ("sqlite:project", "user")
    said = read_early(project, {**env, "TREADLE_STORE": "sqlite:env"})
    assert (said.store, said.theirs) == ("sqlite:env", set())


@pytest.mark.parametrize("value", ["5", '""', "[]", "{}"])
def test_a_store_that_is_no_text_is_refused(project, value):
    project.config_toml.write_text(f"store = {value}\n")
    with pytest.raises(ConfigError, match=r"config.toml: store must be a text that is not empty"):
        address.find(project, {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[mail]\nroot = 5\n", "mail.root must be a text that is not empty, not 5"),
        ("[mail]\nextra_intents = 'a'\n", "mail.extra_intents must be a list of strings"),
        ("[task]\nlease = 0\n", "task.lease must be a number of seconds above 0, at most a week"),
        ("[task\n", "not TOML"),
    ],
)
def test_the_quick_look_complains_like_the_whole_one(project, tmp_path, text, words):
    project.config_toml.write_text(text)
    for look in (read_early, load):
        with pytest.raises(ConfigError) as caught:
            look(project, {"HOME": str(tmp_path)})
        assert caught.value.message.startswith(f".treadle/config.toml: {words}")


@pytest.mark.parametrize("schema", ["Shop", "pg_shop", "a-b", "1a", "x" * 64])
def test_a_name_that_is_no_schema_is_refused(project, schema):
    with pytest.raises(ConfigError, match="store_schema must be"):
        address.find(project, {"TREADLE_STORE": URL, "TREADLE_STORE_SCHEMA": schema})


def test_a_project_without_a_schema_gets_one_after_its_folder(tmp_path):
    assert address.default_schema(tmp_path / "My Shop-2") == "treadle_my_shop_2"


def test_the_driver_is_asked_for_by_name_when_it_is_missing(project, monkeypatch):
    def missing(name, *args, **kwargs):
        raise ModuleNotFoundError(name="psycopg")

    monkeypatch.setattr("builtins.__import__", missing)
    with pytest.raises(address.StoreError) as caught:
        address.at(URL, "shop")
    monkeypatch.undo()
    assert caught.value.fix == (install_extra("fleet"),)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        URL,
        "postgresql://ada:ge@he/im@db/fleet",
        "postgresql:///fleet?user=ada&password=geheim&host=db",
        "dbname=x password=geheim host=db",
        'connection to "postgresql://ada:geheim@db" failed',
    ],
)
def test_no_password_is_shown(text):
    assert "im" not in mask(text).replace("db.example", "")
    assert "***" in mask(text)


def test_an_address_of_another_kind_is_refused_with_one_that_would_do():
    with pytest.raises(ConfigError, match="must begin with postgresql://") as caught:
        address.at("mysql://x", "shop")
    assert caught.value.fix[1] == "treadle store copy --to postgresql://user@host/database"


def test_the_configuration_hides_the_password_of_a_bad_address(project, tmp_path):
    project.config_toml.write_text(f'store = "x{URL}"\n')
    with pytest.raises(ConfigError, match="must begin with postgresql://") as caught:
        load(project, {"HOME": str(tmp_path)})
    assert "geheim" not in str(caught.value)
