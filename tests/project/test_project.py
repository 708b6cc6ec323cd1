"""Opening a project for work."""

import os

import pytest

from tests.builder import git
from treadle import layout
from treadle.config.schema import Config, WorkspaceConfig
from treadle.errors import ConfigError, ProjectError
from treadle.project import setup
from treadle.project.context import open_context, workspaces


def test_project_has_its_repository(project, repo):
    opened = open_context(repo, os.environ)
    assert opened.layout.root == opened.repo.root == repo


def test_repository_without_a_commit_is_told_what_helps(tmp_path):
    git(tmp_path, "init", "-q")
    setup.init(tmp_path, os.environ)
    with pytest.raises(ProjectError, match="no commit yet") as caught:
        open_context(tmp_path, os.environ)
    assert caught.value.code == "no_commit"
    git(tmp_path, *caught.value.fix[0].split()[1:])
    assert open_context(tmp_path, os.environ).layout.root == tmp_path


def test_workspaces_are_in_the_cache_by_default(project):
    expected = layout.workspace_root(os.environ, project.layout.root)
    assert workspaces(project, Config()) == expected


def test_workspaces_can_be_elsewhere(project, private_home):
    config = Config(workspace=WorkspaceConfig(root="~/work"))
    found = workspaces(project, config)
    assert found.parent == private_home / "work"
    assert found.name == workspaces(project, Config()).name


def test_workspaces_inside_the_repository_are_refused(project):
    config = Config(workspace=WorkspaceConfig(root=f"{project.layout.root}/work"))
    with pytest.raises(ConfigError, match=r"workspace\.root must be outside the repository"):
        workspaces(project, config)
