"""Git is called with fixed guards, in an environment that cannot steer it."""

import os
import subprocess

import pytest

from tests.conftest import git
from tests.git.support import make
from treadle.errors import GitError
from treadle.git import call
from treadle.proc import sweep


@pytest.fixture
def place(tmp_path):
    return make(tmp_path / "p", {"a": "1\n"})


def test_failure_says_what_git_said_and_what_helps(place):
    with pytest.raises(GitError) as error:
        call.out(["cat-file", "-p", "no-such-name"], place.place)
    assert error.value.message == "git cat-file: Not a valid object name no-such-name"
    assert error.value.fix
    assert "no-such-name" in str(error.value.details["stderr"])


def test_content_filter_whose_program_is_missing_is_named(place):
    (place.root / ".gitattributes").write_text("* filter=lfs\n")
    config = ["filter.lfs.process=git-lfs filter-process", "filter.lfs.required=true"]
    with pytest.raises(GitError, match="lfs") as error:
        call.out(["add", ".gitattributes"], place.place, config=config)
    assert error.value.fix == ("git lfs version", "git lfs install")


def test_killed_git_is_named_as_such(tmp_path, monkeypatch):
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\nkill -9 $$\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(GitError, match="git status was ended by signal 9"):
        call.out(["status"], {})


def test_messages_do_not_depend_on_the_language(place, monkeypatch):
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("LANGUAGE", "de")
    monkeypatch.setenv("GIT_TRACE", "1")
    done = call.run(["rev-parse", "--verify", "nothing"], place.place)
    assert call.said(done) == "Needed a single revision"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("core.hooksPath", "/dev/null"),
        ("core.fsmonitor", "false"),
        ("core.protectHFS", "true"),
        ("core.protectNTFS", "true"),
        ("core.fsync", "committed,reference"),
        ("diff.ignoreSubmodules", "all"),
        ("core.trustctime", "true"),
        ("core.checkStat", "default"),
        ("core.safecrlf", "false"),
        ("core.untrackedCache", "false"),
        ("submodule.recurse", "false"),
        ("gc.auto", "0"),
    ],
)
def test_guards_beat_the_repositorys_settings(place, key, value):
    git(place.root, "config", key, "other")
    assert call.out(["config", "--get", key], place.place).decode().strip() == value


def test_users_settings_from_the_environment_stay(place, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "user.name")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "Env")
    assert call.out(["config", "user.name"], place.place) == b"Env\n"


def test_stale_lock_is_cleared_and_its_git_ended(place, tmp_path):
    lock = tmp_path / "index.lock"
    lock.write_text("")
    env = os.environ | {sweep.MARKER: call._marker(lock)}
    orphan = subprocess.Popen(["sleep", "60"], env=env)
    place_ = place.place | {"GIT_INDEX_FILE": str(tmp_path / "index")}
    call.out(["read-tree", "HEAD"], place_, lock=lock)
    assert (orphan.wait(120), lock.exists()) == (-9, False)
    assert (tmp_path / "index").stat().st_size
