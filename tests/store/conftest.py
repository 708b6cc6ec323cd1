"""Give each test a store in a project of its own, in every kind of database."""

import pytest

from treadle.layout import Layout
from treadle.store.fleet import WorkerRow
from treadle.store.letters import LetterRow
from treadle.store.outages import OutageRow
from treadle.store.store import Store

# A record that is loaded tells the queries the columns of its table; a store loads the others.
LOADED = (WorkerRow, LetterRow, OutageRow)

BACKENDS = ("sqlite", pytest.param("postgres", marks=pytest.mark.real))


def pytest_generate_tests(metafunc):
    """Run each test of the store on both databases, unless it looks into SQLite's file."""
    if "backend" in metafunc.fixturenames:
        only = getattr(metafunc.function, "only_sqlite", False)
        metafunc.parametrize("backend", BACKENDS[:1] if only else BACKENDS)


@pytest.fixture
def layout(tmp_path, backend, request):
    """Return the paths of an empty project."""
    if backend == "postgres":
        request.getfixturevalue("pg_store")
    return Layout(tmp_path / "project")


@pytest.fixture
def store(layout):
    """Return an open store."""
    with Store.open(layout) as opened:
        yield opened
