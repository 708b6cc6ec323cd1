"""Fetch, clone and push with a shared repository."""

import shlex
from pathlib import Path

import pytest

from tests.builder import git
from treadle.errors import GitError
from treadle.git import remote
from treadle.git.repo import find


@pytest.fixture
def shared(repo, tmp_path):
    """Return a repository with a bare one beside it, and a commit that only the first has."""
    bare = tmp_path / "origin.git"
    git(repo, "init", "-q", "--bare", str(bare))
    git(repo, "push", "-q", str(bare), "HEAD:refs/heads/main")
    git(repo, "commit", "-q", "--allow-empty", "-m", "More")
    return find(repo), str(bare)


def commits(repo):
    return git(repo.root, "rev-list", "HEAD").split()


def test_a_repository_that_is_not_there_is_named_in_what_to_try(tmp_path):
    with pytest.raises(GitError) as refused:
        remote.reach(f"{tmp_path}/none.git")
    assert refused.value.code == "remote_failed"
    assert refused.value.fix == (f"git ls-remote {tmp_path}/none.git",)


def test_a_push_with_an_old_lease_is_refused_and_changes_nothing(shared):
    repo, url = shared
    new, old = commits(repo)
    remote.push(repo, url, old, "treadle/r", None)
    remote.push(repo, url, new, "treadle/r", old)
    git(repo.root, "commit", "-q", "--allow-empty", "-m", "Zombie")
    with pytest.raises(GitError) as refused:
        remote.push(repo, url, commits(repo)[0], "treadle/r", old)
    assert refused.value.code == "push_stale"
    assert remote.tip(repo, url, "treadle/r") == new


def test_pushing_again_what_is_there_is_no_error(shared):
    repo, url = shared
    new, old = commits(repo)
    remote.push(repo, url, new, "treadle/r", None)
    remote.push(repo, url, new, "treadle/r", old)


def test_a_clone_borrows_from_the_mirror_and_a_pack_brings_the_rest(shared, tmp_path):
    repo, url = shared
    new, old = commits(repo)
    for _ in range(2):
        remote.mirror(url, tmp_path / "mirror.git", "main")
    clone = remote.clone(url, tmp_path / "mirror.git", tmp_path / "clone", old)
    assert not list((tmp_path / "clone" / ".git" / "objects").glob("??"))
    assert not remote.has(clone, new)
    remote.unpack(clone, remote.pack(repo, old, new))
    assert remote.has(clone, new)


def test_a_clone_has_nothing_of_other_runs_whether_or_not_its_own_branch_is_there(shared, tmp_path):
    repo, url = shared
    _, old = commits(repo)
    for name in ("treadle/mine", "treadle/other"):
        remote.push(repo, url, old, name, None)
    for name, commit in (("treadle/mine", None), ("treadle/gone", None), ("treadle/known", old)):
        mirror = tmp_path / f"{name}.git"
        remote.mirror(url, mirror, name, commit)
        everything = mirror / "refs" / "treadle" / "all"
        assert everything.exists() == (name == "treadle/gone")  # a commit is asked for by itself
        clone = remote.clone(url, mirror, tmp_path / name, old)
        assert git(clone.root, "for-each-ref") == ""
        assert git(clone.root, "remote", "get-url", "origin").strip() == url


def test_addresses_lose_their_passwords(shared):
    repo, _ = shared
    git(repo.root, "remote", "add", "origin", "https://me:secret@git.example/repo.git")
    assert remote.url_of(repo, "origin") == "https://git.example/repo.git"
    assert remote.url_of(repo, "elsewhere") == str(repo.common_dir)
    said = "! [rejected] use https://me:p@ss@git.example/x or http://bot@git.example"
    assert remote.bare(said) == "! [rejected] use https://git.example/x or http://git.example"


def test_a_repository_that_cannot_keep_what_it_is_sent_refuses_nothing(shared):
    repo, url = shared
    remote.push(repo, url, commits(repo)[1], "treadle/other", None)
    Path(url, "refs/heads/treadle/r.lock").touch()  # as a killed git leaves one
    with pytest.raises(GitError, match="did not accept") as broken:
        remote.push(repo, url, commits(repo)[0], "treadle/r", None)
    assert broken.value.code == "remote_failed"


def test_a_push_that_failed_is_proposed_as_it_was(shared):
    repo, url = shared
    commit, lock = commits(repo)[1], Path(url, "refs/heads/treadle/r.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    with pytest.raises(GitError, match="did not accept") as broken:
        remote.push_new(repo, url, commit, ["treadle/r"])
    lock.unlink()
    (words,) = broken.value.fix
    git(repo.root, *shlex.split(words)[1:])
    assert remote.tip(repo, url, "treadle/r") == commit


def test_a_repository_that_is_not_there_is_named(shared, tmp_path):
    with pytest.raises(GitError) as missing:
        remote.mirror(str(tmp_path / "nothing"), tmp_path / "mirror.git", "main")
    assert missing.value.code == "remote_failed"
