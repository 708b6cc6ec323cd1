"""What is the user's own is found before anything would be written over it."""

import os

import pytest

from tests.builder import git, write_files
from tests.git.support import head, make
from treadle.errors import BlockedError
from treadle.git import call, refs, repo
from treadle.git.refs import Obstacles


@pytest.fixture
def place(tmp_path):
    """Return a repository whose branch `next` changes, removes, adds, and makes a folder a file."""
    place = make(tmp_path / "p", {"a": "a\n", "b": "b\n", "c": "c\n", "d/f": "f\n"})
    git(place.root, "switch", "-q", "-c", "next")
    git(place.root, "rm", "-q", "b", "d/f")
    write_files(place.root, {"a": "next\n", "n/new": "new\n", "d": "file\n"})
    git(place.root, "add", ".")
    git(place.root, "commit", "-q", "-m", "next")
    git(place.root, "switch", "-q", "main")
    return place


def find(place):
    return refs.find_obstacles(place.root, place.place, head(place), "next")


@pytest.mark.parametrize("name", [".gitattributes", ".gitignore", "d/.gitignore", "u/.gitignore"])
def test_a_pipe_that_git_would_read_is_named_and_stays(place, name):
    write_files(place.root, {"a": "changed\n", "u/f": "unknown\n"})
    pipe = place.root / name
    os.mkfifo(pipe)
    for look in (find, lambda place: repo.dirty_files(place.root)):
        with pytest.raises(BlockedError, match=r"cannot be read to its end") as caught:
            look(place)
        assert (caught.value.code, caught.value.fix) == ("special_file", (f"rm {pipe}",))
    assert pipe.is_fifo()


def test_a_git_that_waits_for_a_pipe_leaves_no_lock(place):
    write_files(place.root, {"a": "changed\n"})
    os.mkfifo(place.root / ".gitattributes")
    with pytest.raises(BlockedError):
        call.run(["add", "a"], place.place, cwd=place.root)
    assert not (place.root / ".git" / "index.lock").exists()


def test_pipes_of_the_user_that_git_passes_by_are_no_obstacle(place):
    (place.root / "c").unlink()
    for name in ("mine", "c", ".gitmodules"):
        os.mkfifo(place.root / name)
    assert find(place) == Obstacles()
    assert set(repo.dirty_files(place.root)) <= {"c", ".gitmodules"}


def test_a_clean_checkout_has_none(place):
    assert find(place) == Obstacles()


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"c": "mine\n", "x": "mine\n"}, Obstacles()),
        ({"a": "mine\n"}, Obstacles(unstaged=("a",))),
        ({"b": "mine\n"}, Obstacles(unstaged=("b",))),
        ({"n/new": "mine\n"}, Obstacles(unknown=("n/new",))),
        ({"n/other": "mine\n"}, Obstacles()),
        ({"n": "mine\n"}, Obstacles(unknown=("n",))),
        ({"n/new/deep": "mine\n"}, Obstacles(unknown=("n/new/deep",))),
        ({"d/mine": "mine\n"}, Obstacles(unknown=("d/mine",))),
    ],
    ids=["elsewhere", "changed", "removed", "added", "beside", "for-folder", "for-file", "inside"],
)
def test_only_what_would_be_overwritten_counts(place, files, expected):
    write_files(place.root, files)
    assert find(place) == expected


def test_ignored_files_count(place):
    (place.root / ".git" / "info" / "exclude").write_text("n\n")
    write_files(place.root, {"n/new": "secret\n"})
    assert find(place) == Obstacles(unknown=("n/new",))


def test_staged_work_counts_unless_it_is_the_same(place):
    write_files(place.root, {"a": "mine\n"})
    git(place.root, "add", "a")
    assert find(place) == Obstacles(staged=("a",))
    write_files(place.root, {"a": "next\n"})
    git(place.root, "add", "a")
    assert find(place) == Obstacles()


def test_looking_changes_nothing(place):
    index = (place.root / ".git" / "index").read_bytes()
    write_files(place.root, {"a": "mine\n"})
    find(place)
    assert (place.root / ".git" / "index").read_bytes() == index
