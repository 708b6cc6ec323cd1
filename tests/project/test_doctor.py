"""What the doctor sees."""

import os

import pytest

from tests.builder import git
from treadle.project import doctor
from treadle.project.context import open_repository
from treadle.sandbox import jails
from treadle.store.store import Store


def checks(folder, env=os.environ) -> dict[str, doctor.Check]:
    return {check.name: check for check in doctor.run(folder, env)}


def test_healthy_project_is_all_right(project, repo):
    found = checks(repo)
    found.pop("bytecode")  # the tests' own interpreter may be told not to write any
    assert [check for check in found.values() if not check.ok] == []
    assert list(found) == [
        "python", "git", "repository", "commit", "project", "store", "file system", "config",
        "trust", "workspaces", "sandbox", "home",
    ]  # fmt: skip


def test_folder_without_git_is_told(tmp_path):
    found = checks(tmp_path)["repository"]
    assert (found.ok, found.fix[0]) == (False, "git init")


def test_repository_without_a_commit_is_told(tmp_path):
    git(tmp_path, "init", "-q")
    assert checks(tmp_path)["commit"].fix == ("git commit --allow-empty -m Begin",)


def test_repository_without_setup_is_told(repo):
    assert checks(repo)["project"].fix == ("treadle init",)


def test_missing_gitignore_is_told(project, repo):
    project.layout.home_gitignore.unlink()
    assert "git would see" in checks(repo)["project"].detail


def test_bad_config_is_told(project, repo):
    project.layout.config_toml.write_text("nonsense = 1\n")
    found = checks(repo)["config"]
    assert (found.ok, "nonsense is not a key" in found.detail) == (False, True)


def test_untrusted_commands_are_told(repo):
    project = open_repository(repo, os.environ)
    project.layout.home.mkdir()
    project.layout.config_toml.write_text('[workspace]\nsetup = ["make"]\n')
    assert checks(repo)["trust"].fix == ("treadle trust",)


@pytest.mark.parametrize(
    ("agent", "ok", "detail"),
    [
        ('type = "exec"\ncmd = ["sh"]', True, "exec, sh"),
        ('type = "exec"\ncmd = ["no-such-program"]', False, "no-such-program is missing"),
        ('type = "exec"\ncmd = ["./README.md"]', False, "README.md cannot be executed"),
        ('type = "builtin"', True, "builtin, nothing to start"),
        ('type = "replay"\nrecording = "rec"', False, "rec holds no recorded run"),
    ],
    ids=["there", "missing", "not executable", "builtin", "no recording"],
)
def test_programs_of_agents_are_looked_for(project, repo, agent, ok, detail):
    project.layout.config_toml.write_text(f"[agents.plan]\n{agent}\n")
    found = checks(repo)["agent plan"]
    assert found.ok is ok
    assert detail in found.detail


def test_store_is_read(project, repo):
    Store.open(project.layout).close()
    found = checks(repo)
    assert found["store"].detail == "0 steps, 0 tasks, newest run none"
    assert found["file system"].detail == "wal"


def test_damaged_store_is_told(project, repo):
    project.layout.database.write_bytes(b"this is no database" * 100)
    found = checks(repo)["store"]
    assert (found.ok, found.fix) == (False, ("treadle doctor --repair",))


def test_required_sandbox_is_told(project, repo):
    project.layout.config_toml.write_text('sandbox = "required"\n')
    found = checks(repo)["sandbox"]
    assert found.ok == (jails.probe().tier != "0")
    assert 'asked for "required"' in found.detail or 'sandbox is "required"' in found.detail


def test_workspaces_without_a_place_are_told(project, repo, private_home):
    (private_home / "cache").write_text("in the way")
    assert "cannot be written" in checks(repo)["workspaces"].detail


def test_what_of_the_home_can_be_read_is_listed(project, repo, tmp_path):
    own = tmp_path / "own"
    for name in (".cargo/bin", ".aws", "bin", "private"):
        (own / name).mkdir(parents=True)
    program = own / "private" / "deploy"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (own / "bin" / "deploy").symlink_to(program)
    env = dict(os.environ) | {"HOME": str(own), "PATH": f"{own}/bin:/usr/bin:/bin"}
    assert checks(repo, env)["home"].detail == "readable: ~/.cargo, ~/bin, ~/private/deploy"
    project.layout.config_toml.write_text('[sandbox]\nhide = ["~/private"]\n')
    told = f"need a line in sandbox.read or less in hide: {own}/bin/deploy ({program})"
    assert told in checks(repo, env)["home"].detail
