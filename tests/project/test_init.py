"""Setting a repository up."""

import os
import re

import pytest

from tests.builder import git
from tests.project.tree import snapshot
from treadle.config.load import load
from treadle.errors import BlockedError, ConfigError, ProjectError
from treadle.layout import Layout
from treadle.project import setup, trust
from treadle.project.context import open_context

WROTE = (
    ".treadle/config.toml",
    ".treadle/.gitignore",
    ".treadle/routines/",
    ".treadle/routines/example.sh.sample",
    "specs/",
    ".gitignore",
)


def test_init_writes_what_it_says_and_nothing_else(repo):
    before = set(snapshot(repo))
    done = setup.init(repo, os.environ)
    assert done.wrote == WROTE
    assert set(snapshot(repo)) - before == {name.rstrip("/") for name in WROTE} | {".treadle"}


def test_second_init_changes_nothing(repo):
    setup.init(repo, os.environ)
    before = snapshot(repo)
    done = setup.init(repo, os.environ)
    assert (done.wrote, done.kept) == ((), WROTE)
    assert snapshot(repo) == before


def test_dry_run_writes_nothing(repo, private_home):
    before = snapshot(repo)
    assert setup.init(repo, os.environ, dry_run=True).wrote == WROTE
    assert snapshot(repo) == before
    assert not (private_home / "state").exists()


def test_files_that_are_there_are_kept(repo):
    (repo / ".treadle" / "routines").mkdir(parents=True)
    (repo / ".treadle" / "config.json").write_text("{}")
    (repo / ".gitignore").write_text("*.o")
    done = setup.init(repo, os.environ)
    assert done.wrote == (".treadle/.gitignore", "specs/", ".gitignore")
    assert (repo / ".gitignore").read_text().startswith("*.o\n**/.kittify/")


def test_init_below_the_top_knows_the_project_around_it(repo):
    (repo / "src").mkdir()
    setup.init(repo, os.environ)
    assert setup.init(repo / "src", os.environ).root == repo
    assert not (repo / "src" / ".treadle").exists()


def test_git_sees_what_people_write_and_not_what_runs_write(repo):
    setup.init(repo, os.environ)
    home = repo / ".treadle"
    for name in ("treadle.db", "locks/run.lock", "runs/r/run.json", "inbox/m.md", "prompts/p.md"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    for name in ("roles/plan.md", "cron/daily.md", "routines/a.sh", "config.json"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    seen = git(repo, "ls-files", "-o", "--exclude-standard", ".treadle").split()
    assert seen == [
        ".treadle/.gitignore",
        ".treadle/config.json",
        ".treadle/config.toml",
        ".treadle/cron/daily.md",
        ".treadle/roles/plan.md",
        ".treadle/routines/a.sh",
        ".treadle/routines/example.sh.sample",
    ]


def test_written_config_is_valid_as_it_is(project):
    assert load(project.layout, {}).config.budgets.max_iterations == 5


def test_every_example_in_the_config_is_valid(project):
    text = re.sub(r'^#(?=[\[a-z"])', "", setup.configuration().decode(), flags=re.MULTILINE)
    project.layout.config_toml.write_text(text)
    config = load(project.layout, {}).config
    assert set(config.agents) == {"plan", "act", "fixer"}
    assert config.workspace.root == "~/.cache/my-workspaces"


def test_init_trusts_the_repository(project):
    assert trust.entry(project) is not None


def test_commit_takes_the_written_files_and_nothing_staged(repo):
    (repo / "mine.txt").write_text("staged")
    git(repo, "add", "mine.txt")
    done = setup.init(repo, os.environ, commit=True)
    assert git(repo, "rev-parse", "HEAD").strip() == done.commit
    committed = git(repo, "show", "--name-only", "--format=%s", "HEAD").split("\n")
    assert committed[0] == "Set up treadle"
    assert committed[2:-1] == sorted(name for name in WROTE if not name.endswith("/"))
    assert git(repo, "status", "--porcelain") == "A  mine.txt\n"


def test_commit_after_an_earlier_init_takes_what_was_left(repo):
    setup.init(repo, os.environ)
    assert setup.init(repo, os.environ, commit=True).commit
    assert git(repo, "status", "--porcelain") == ""
    assert setup.init(repo, os.environ, commit=True).commit is None


def test_commit_runs_no_hooks(repo):
    for name in ("pre-commit", "commit-msg", "post-commit"):
        hook = repo / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch ran-{name}\nexit 1\n")
        hook.chmod(0o755)
    assert setup.init(repo, os.environ, commit=True).commit
    assert not list(repo.glob("ran-*"))


def test_commit_without_an_identity_is_treadles(repo, private_home):
    (private_home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    setup.init(repo, os.environ, commit=True)
    assert git(repo, "log", "-1", "--format=%an").strip() == "treadle"


def test_commit_refuses_to_take_edits_of_gitignore_along(repo):
    (repo / ".gitignore").write_text("mine\n")
    before = snapshot(repo)
    with pytest.raises(BlockedError, match=r"\.gitignore has changes of yours"):
        setup.init(repo, os.environ, commit=True)
    assert snapshot(repo) == before


def test_commit_during_a_merge_is_refused(repo):
    (repo / ".git" / "MERGE_HEAD").write_text(git(repo, "rev-parse", "HEAD"))
    with pytest.raises(BlockedError, match="a merge is in progress"):
        setup.init(repo, os.environ, commit=True)


@pytest.mark.real
def test_failed_commit_leaves_the_index_as_it_was(repo):
    (repo / ".git" / "refs" / "heads" / "main.lock").touch()
    with pytest.raises(Exception, match=r"main\.lock"):
        setup.init(repo, os.environ, commit=True)
    assert git(repo, "diff", "--cached", "--name-only") == ""


def test_link_in_the_way_is_refused(repo, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (repo / ".treadle").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BlockedError, match="is a link"):
        setup.init(repo, os.environ)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_file_in_the_way_is_refused(repo):
    (repo / "specs").write_text("not a folder")
    with pytest.raises(ProjectError, match="specs is in the way"):
        setup.init(repo, os.environ)


def test_a_link_to_nothing_in_the_way_is_refused(repo, tmp_path):
    (repo / "specs").symlink_to(tmp_path / "nothing")
    with pytest.raises(ProjectError, match="specs is in the way"):
        setup.init(repo, os.environ)
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("name", [".gitignore", "AGENTS.md"])
def test_a_pipe_in_the_way_is_refused(repo, name):
    os.mkfifo(repo / name)
    with pytest.raises(ProjectError, match="is in the way: it must be a plain file"):
        setup.init(repo, os.environ)


def test_broken_config_is_told_before_anything_is_written(repo):
    (repo / ".treadle").mkdir()
    (repo / ".treadle" / "config.toml").write_text("nonsense = 1\n")
    with pytest.raises(ConfigError, match="nonsense is not a key"):
        setup.init(repo, os.environ)
    assert not Layout(repo).specs.exists()


def test_path_with_blanks_and_umlauts_works(tmp_path):
    root = tmp_path / "my projäct\n"
    root.mkdir()
    git(root, "init", "-q")
    git(root, "commit", "-q", "--allow-empty", "-m", "Begin")
    assert setup.init(root, os.environ, commit=True).commit
    assert open_context(root, os.environ).layout.root == root
