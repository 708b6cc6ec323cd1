"""Fleets for tests: on one machine with SQLite, and on a database that machines share."""

import secrets

import pytest

from tests.fleet.lab import Lab, database

# The do step of a worker waits while this file is there.
HOLD = 'while [ "$role" = do ] && [ -e {hold} ]; do sleep 0.1; done'


@pytest.fixture
def lab(tmp_path):
    """A fleet on one machine, without PostgreSQL."""
    found = Lab(tmp_path, {})
    found.make()
    yield found
    found.close()


@pytest.fixture
def shared(tmp_path, pg_server):
    """A fleet whose workers share nothing but PostgreSQL, a repository and an archive folder."""
    url = database(pg_server, f"fleet_{secrets.token_hex(6)}")
    found = Lab(tmp_path, {"TREADLE_STORE": url})
    found.make()
    yield found
    found.close()


@pytest.fixture
def held(shared):
    """A fleet whose agents wait in their do step until `held.hold` is gone."""
    shared.hold = shared.folder / "hold"
    shared.hold.touch()
    shared.make_agent(HOLD.format(hold=shared.hold))
    return shared
