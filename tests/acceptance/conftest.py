"""Projects for the acceptance tests: missions and an inbox, set up through the real command."""

import shutil
from pathlib import Path

import pytest

from tests.acceptance import messages
from tests.acceptance.mission import Mission
from tests.builder import Project, make_home
from treadle.project import trust
from treadle.project.context import open_context


@pytest.fixture(scope="session")
def mission_template(tmp_path_factory):
    """Return a function that copies a project with a new mission, or with one that has tasks."""
    folder = tmp_path_factory.mktemp("template")
    env = make_home(folder / "home")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        patch.delenv("TREADLE_RUN", raising=False)
        made = Project.make(folder / "new", folder, env=env)
        Mission(made).create()
        shutil.copytree(made.root, folder / "tasked")
        tasked = Project(folder / "tasked", folder, env)
        Mission(tasked).with_tasks("", "dependencies: [WP01]\n")

    def copy(name: str, target: Path) -> Path:
        return Path(shutil.copytree(folder / name, target))

    return copy


def trusted(project: Project) -> Project:
    """Do what `init` did for the project that this one is a copy of."""
    trust.grant(open_context(project.root, project.environment()))
    return project


@pytest.fixture
def mission(mission_template, tmp_path) -> Mission:
    """Return a mission that has just been created, in a project set up by the real command."""
    (tmp_path / "agents").mkdir()
    root = mission_template("new", tmp_path / "project")
    return Mission(trusted(Project(root, tmp_path / "agents")))


@pytest.fixture
def tasked(mission_template, tmp_path) -> Mission:
    """Return a mission with two tasks, the second of which waits for the first."""
    (tmp_path / "agents").mkdir()
    root = mission_template("tasked", tmp_path / "project")
    return Mission(trusted(Project(root, tmp_path / "agents")))


@pytest.fixture
def inbox(project):
    """A project whose default routine writes every message down."""
    messages.routine(project, "log", messages.LOG)
    project.settings('default_routine = "log"\n')
    return project
