"""A worker that its store does not suit says so at once and leaves."""

import json

import psycopg
import pytest

from treadle.cli import main
from treadle.ids import FLEET_SCHEMA
from treadle.store import postgres

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


@pytest.fixture
def refused(shared, monkeypatch, capsys, tmp_path):
    """Return a function that starts a worker without a project and returns its error."""

    def start():
        monkeypatch.setenv("TREADLE_STORE", shared.env["TREADLE_STORE"])
        monkeypatch.setenv("TREADLE_FLEET_KEY_FILE", str(shared.key))
        monkeypatch.setenv("PGAPPNAME", "")  # a worker gives this process its name
        monkeypatch.chdir(tmp_path)
        assert main.main(["worker", "--json", "--idle-exit", "0"]) == 1
        return json.loads(capsys.readouterr().out)["error"]

    return start


def test_a_store_of_a_newer_treadle_is_refused(shared, refused):
    shared.status()
    with psycopg.connect(shared.env["TREADLE_STORE"], autocommit=True) as admin:
        admin.execute(f"INSERT INTO {FLEET_SCHEMA}.schema_migrations VALUES (9999, 'later')")
    error = refused()
    assert (error["code"], error["fix"]) == ("store_newer", ["pip install --upgrade treadle"])


def test_a_server_that_is_too_old_is_refused(refused, monkeypatch):
    monkeypatch.setattr(postgres, "_OLDEST", 99)
    error = refused()
    assert error["code"] == "store_too_old"
    assert "treadle needs 99 or newer" in error["message"]
