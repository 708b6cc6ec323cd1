"""Whose commands may run."""

import json
import os
import shutil
import subprocess
import sys
from textwrap import dedent

import pytest

from tests.builder import git
from treadle.errors import BlockedError, ProjectError
from treadle.layout import trust_file, user_config
from treadle.project import setup, trust
from treadle.project.context import open_repository, reread

BRINGS = """
[agents.plan]
type = "exec"
cmd = ["./bin/plan agent", "-x"]
[agents.do]
type = "builtin"
run = ["make"]
[workspace]
setup = ["make", "deps"]
[verify]
"tests" = "pytest -q"
"""
GRANT = dedent("""
    import os, sys
    from pathlib import Path
    from treadle.project import trust
    from treadle.project.context import open_repository
    trust.grant(open_repository(Path(sys.argv[1]), os.environ))
""")


def bring(project, text=BRINGS):
    project.layout.home.mkdir(exist_ok=True)
    project.layout.config_toml.write_text(text)
    return reread(project)


def test_every_command_of_the_repository_is_listed(project):
    found = trust.commands(bring(project).settings)
    assert [(item.key, item.command) for item in found] == [
        ("agents.plan.cmd", "'./bin/plan agent' -x"),
        ("agents.do.run", "make"),
        ("workspace.setup", "make deps"),
        ("verify.tests", "pytest -q"),
    ]
    assert {item.source for item in found} == {".treadle/config.toml"}


def test_untrusted_clone_stops_and_shows_the_commands(repo):
    project = open_repository(repo, os.environ)
    with pytest.raises(BlockedError) as caught:
        trust.require(bring(project))
    error = caught.value
    assert (error.code, error.exit_code, error.fix) == ("untrusted", 3, ("treadle trust",))
    assert "make deps (workspace.setup)" in error.message
    assert len(error.details["commands"]) == 4


@pytest.mark.parametrize(
    "text",
    [
        'sandbox = "off"\n',
        "[sandbox]\nhide = []\n",
        '[sandbox]\nread = ["~/x"]\n',
        "[sandbox]\nmemory_mb = 900000\n",
        'network = "full"\n',
        '[checks]\nwritable = ["~/.ssh"]\n',
        "[checks]\nunix_sockets = true\n",
        '[checks]\nenv_allow = ["AWS_*"]\n',
        'store = "postgresql://ada:geheim@db/theirs"\n',
    ],
)
def test_settings_that_open_the_sandbox_need_trust(repo, text):
    project = open_repository(repo, os.environ)
    expected = "is not trusted, and its configuration would run or"
    with pytest.raises(BlockedError, match=expected) as caught:
        trust.require(bring(project, text))
    assert "geheim" not in caught.value.message


def test_trusted_repository_may_run(project):
    trust.require(bring(project))


@pytest.mark.parametrize("text", ["", 'sandbox = "required"\nnetwork = "none"\n'])
def test_nothing_runs_in_a_clone_that_was_never_trusted(repo, text):
    project = open_repository(repo, os.environ)
    with pytest.raises(BlockedError, match="is not trusted, so nothing of it runs"):
        trust.require(bring(project, text))


def test_commands_of_the_users_own_file_are_not_the_repositorys(repo):
    project = open_repository(repo, os.environ)
    user_config(os.environ).parent.mkdir(parents=True)
    user_config(os.environ).write_text('[agents.plan]\ntype = "exec"\ncmd = ["my-agent"]\n')
    loaded = bring(project, "").settings
    assert loaded.config.agents["plan"].cmd == ("my-agent",)
    assert trust.commands(loaded) == ()


def test_program_of_the_repository_named_by_the_user_needs_trust(repo):
    project = open_repository(repo, os.environ)
    user_config(os.environ).parent.mkdir(parents=True)
    user_config(os.environ).write_text('[agents.plan]\ntype = "exec"\ncmd = ["./agent"]\n')
    with pytest.raises(BlockedError, match=r"\./agent \(agents\.plan\.cmd\)"):
        trust.require(bring(project, ""))


def test_another_clone_at_the_same_path_is_not_trusted(repo, tmp_path):
    setup.init(repo, os.environ, commit=True)
    git(tmp_path, "clone", "-q", str(repo), "other")
    shutil.rmtree(repo)
    (tmp_path / "other").rename(repo)
    assert trust.entry(open_repository(repo, os.environ)) is None


def test_repository_made_again_at_the_same_path_is_not_trusted(project, repo):
    shutil.rmtree(repo / ".git")
    git(repo, "init", "-q")
    git(repo, "commit", "-q", "--allow-empty", "-m", "Begin")
    assert trust.entry(open_repository(repo, os.environ)) is None


def test_work_in_the_repository_keeps_its_trust(project, repo):
    (repo / "a").touch()
    git(repo, "add", "a")
    git(repo, "commit", "-q", "-m", "A")
    git(repo, "gc", "-q")
    assert trust.entry(open_repository(repo, os.environ)) is not None


def test_moved_repository_is_not_trusted(project, repo, tmp_path):
    repo.rename(tmp_path / "moved")
    assert trust.entry(open_repository(tmp_path / "moved", os.environ)) is None


def test_revoked_trust_is_gone(project):
    assert trust.revoke(project) is True
    assert trust.revoke(project) is False
    assert trust.entry(project) is None


def test_record_is_private_and_readable(project):
    path = trust_file(os.environ)
    (entry,) = json.loads(path.read_text())["repositories"]
    assert entry["root"] == str(project.layout.root)
    assert path.stat().st_mode & 0o777 == 0o600


def test_damaged_record_is_told(project):
    trust_file(os.environ).write_text("{")
    with pytest.raises(ProjectError, match=r"trust\.json is damaged") as caught:
        trust.entry(project)
    assert caught.value.fix[0].startswith("rm ")


def test_many_grants_at_once_are_all_kept(tmp_path):
    roots = [tmp_path / f"r{number}" for number in range(8)]
    for root in roots:
        root.mkdir()
        git(root, "init", "-q")
        git(root, "commit", "-q", "--allow-empty", "-m", "Begin")
    workers = [subprocess.Popen([sys.executable, "-c", GRANT, str(root)]) for root in roots]
    assert [worker.wait() for worker in workers] == [0] * 8
    book = json.loads(trust_file(os.environ).read_text())["repositories"]
    assert sorted(entry["root"] for entry in book) == sorted(map(str, roots))


@pytest.mark.parametrize("name", ["treadle.db", "runs/r1/run.json"])
def test_tracked_records_of_runs_are_refused(project, repo, name):
    path = project.layout.home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    git(repo, "add", "-f", str(path))
    with pytest.raises(BlockedError, match=rf"^\.treadle/{name} is tracked by git") as caught:
        trust.require(reread(project))
    git(repo, *caught.value.fix[0].split()[1:])
    trust.require(reread(project))
