"""Taking treadle out again."""

import os

import pytest

from tests.builder import git
from tests.project.tree import snapshot
from treadle.errors import BlockedError
from treadle.layout import trust_file, workspace_root
from treadle.project import setup, trust
from treadle.project.setup import uninstall


@pytest.mark.parametrize(
    "ignored", [None, b"", b"*.o\n", b"*.o\r\nx"], ids=["none", "empty", "lf", "crlf"]
)
def test_round_trip_leaves_the_tree_as_it_was(repo, ignored):
    if ignored is not None:
        (repo / ".gitignore").write_bytes(ignored)
    before = snapshot(repo)
    setup.init(repo, os.environ)
    done = uninstall(repo, os.environ)
    assert snapshot(repo) == before
    assert done.kept == ()
    assert not trust_file(os.environ).exists()


def test_round_trip_leaves_folders_that_were_there(repo):
    (repo / "specs").mkdir()
    (repo / ".treadle" / "routines").mkdir(parents=True)
    before = snapshot(repo)
    setup.init(repo, os.environ)
    uninstall(repo, os.environ)
    assert (repo / "specs").is_dir()
    assert snapshot(repo) == before


def test_line_that_was_there_before_stays(repo):
    (repo / ".gitignore").write_bytes(b"a\n" + setup.IGNORED.begin + b"\n")
    before = snapshot(repo)
    setup.init(repo, os.environ)
    uninstall(repo, os.environ)
    assert snapshot(repo) == before


def test_changed_files_are_kept_and_named(project, repo):
    project.layout.config_toml.write_text("# mine\n")
    (project.layout.specs / "01-a.spec.md").write_text("# A\n")
    done = uninstall(repo, os.environ)
    assert [item.path for item in done.kept] == [".treadle/config.toml"]
    assert set(snapshot(repo)) == {
        "README.md", ".treadle", ".treadle/config.toml", "specs", "specs/01-a.spec.md",
    }  # fmt: skip


def test_run_data_stays_without_purge_and_stays_ignored(project, repo):
    project.layout.runs.mkdir()
    (project.layout.runs / "run.json").write_text("{}")
    project.layout.database.write_bytes(b"db")
    done = uninstall(repo, os.environ)
    assert [item.path for item in done.kept] == [
        ".treadle/runs",
        ".treadle/treadle.db",
        ".treadle/.gitignore",
    ]
    assert git(repo, "status", "--porcelain", "-uall") == "?? .treadle/.gitignore\n"


def test_purge_removes_run_data(repo):
    before = snapshot(repo)
    setup.init(repo, os.environ)
    (repo / ".treadle" / "runs" / "r").mkdir(parents=True)
    (repo / ".treadle" / "locks").mkdir()
    uninstall(repo, os.environ, purge=True)
    assert snapshot(repo) == before


def test_workspaces_are_removed(project, repo):
    folder = workspace_root(os.environ, repo)
    (folder / "run" / "src").mkdir(parents=True)
    done = uninstall(repo, os.environ)
    assert not folder.exists()
    assert str(folder) in done.removed


def test_dry_run_removes_nothing(project, repo):
    before = snapshot(repo)
    done = uninstall(repo, os.environ, dry_run=True)
    assert ".treadle/config.toml" in done.removed
    assert snapshot(repo) == before
    assert trust.entry(project) is not None


def test_clone_of_a_set_up_repository_can_be_cleaned(repo, tmp_path):
    setup.init(repo, os.environ, commit=True)
    git(tmp_path, "clone", "-q", str(repo), "clone")
    uninstall(tmp_path / "clone", os.environ)
    assert set(snapshot(tmp_path / "clone")) == {"README.md"}


def test_repository_without_treadle_has_nothing_to_remove(repo):
    before = snapshot(repo)
    assert uninstall(repo, os.environ).removed == ()
    assert snapshot(repo) == before


def test_uninstall_inside_a_run_is_refused(repo):
    with pytest.raises(BlockedError, match="inside a run"):
        uninstall(repo, {**os.environ, "TREADLE_RUN": "r1"})
