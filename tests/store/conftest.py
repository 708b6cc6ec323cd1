"""Give each test a store in a project of its own."""

import pytest

from treadle.layout import Layout
from treadle.store.writer import Store


@pytest.fixture
def layout(tmp_path):
    """Return the paths of an empty project."""
    return Layout(tmp_path / "project")


@pytest.fixture
def store(layout):
    """Return an open store."""
    with Store.open(layout) as opened:
        yield opened
