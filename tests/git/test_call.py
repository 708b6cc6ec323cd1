"""Git is called with fixed guards, in an environment that cannot steer it."""

import os
import subprocess

import pytest

from tests.builder import git
from tests.git.support import make
from treadle.errors import GitError, TreadleError
from treadle.git import call, repo
from treadle.proc import helper, sweep


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
    with pytest.raises(GitError, match="git status was ended by signal 9") as killed:
        call.out(["status"], {})
    assert killed.value.code == "git_killed"


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
    env = os.environ | {sweep.MARKER: call.mark_of(lock)}
    orphan = subprocess.Popen(["sleep", "60"], env=env)
    place_ = place.place | {"GIT_INDEX_FILE": str(tmp_path / "index")}
    assert call.run(["read-tree", "HEAD"], place_, lock=lock).returncode == 0
    assert (orphan.wait(120), lock.exists()) == (-9, False)
    assert (tmp_path / "index").stat().st_size


HANGS = f"sleep 36999.{os.getpid()}"  # other sessions of these tests have their own


def hanging_git(tmp_path, monkeypatch):
    """Put a git first in PATH that hangs, as does a child of it in a session of its own."""
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nsetsid {HANGS} &\n{HANGS}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def sleeping():
    listing = subprocess.run(["ps", "ax", "-o", "args="], capture_output=True, text=True).stdout
    return [line for line in listing.splitlines() if line == HANGS]


def test_git_that_hangs_is_ended_with_all_it_started(place, tmp_path, monkeypatch):
    hanging_git(tmp_path, monkeypatch)
    with pytest.raises(GitError, match="git status did not finish within 1 s") as error:
        call.run(["status"], place.place, reach=call.Reach(seconds=1.0))
    assert (error.value.code, bool(error.value.fix)) == ("git_timeout", True)
    assert sleeping() == []


def test_git_that_goes_on_after_a_signal_is_ended(place, tmp_path, monkeypatch):
    hanging_git(tmp_path, monkeypatch)
    monkeypatch.setattr(helper, "GRACE", 0.2)
    helper.note_stop()
    try:
        with pytest.raises(TreadleError, match="after treadle was asked to stop"):
            call.run(["status"], place.place)
    finally:
        helper.forget_stop()
    assert sleeping() == []


STEERING = {
    "GIT_DIR": "/evil",
    "GIT_EXTERNAL_DIFF": "evil",
    "PYTHONPATH": ".",
    "PYTHONSTARTUP": "evil.py",
    "NODE_OPTIONS": "--require ./evil.js",
    "PERL5LIB": ".",
    "PERL5OPT": "-MEvil",
    "RUBYOPT": "-revil",
    "BASH_ENV": "./evil",
    "ENV": "./evil",
    "LD_PRELOAD": "./evil.so",
    "LD_LIBRARY_PATH": ".",
    "MAKEFLAGS": "-f evil",
    "GCONV_PATH": ".",
}


def test_environment_brings_nothing_from_where_git_works(place, monkeypatch):
    for name, value in STEERING.items():
        monkeypatch.setenv(name, value)
    inside = f"{place.root}/node_modules/.bin"
    monkeypatch.setenv("PATH", f".::bin:{inside}:{place.root}:{place.root}x:/usr/bin:/bin:")
    env = call.environment(place.place)
    assert STEERING.keys() & env.keys() == set()
    assert env["PATH"] == f"{place.root}x:/usr/bin:/bin"
    assert env["PYTHONSAFEPATH"] == "1"


def test_no_git_is_taken_from_the_current_folder(place, tmp_path, monkeypatch):
    evil = place.root / "git"
    evil.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
    evil.chmod(0o755)
    monkeypatch.chdir(place.root)
    monkeypatch.setenv("PATH", f":.:{place.root}:/usr/local/bin:/usr/bin:/bin")
    call.run(["status"], place.place)
    repo.dirty_files(place.root)
    assert not (tmp_path / "ran").exists()
