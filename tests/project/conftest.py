"""Set projects up for tests."""

import os

import pytest

from treadle.project import setup
from treadle.project.context import open_repository


@pytest.fixture
def project(repo):
    """Return a project that is set up and trusted."""
    setup.init(repo, os.environ)
    return open_repository(repo, os.environ)
