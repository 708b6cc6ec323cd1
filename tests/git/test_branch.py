"""Branches are made, moved and deleted by compare-and-swap, and survive a killed git."""

import re
import threading

import pytest

from tests.builder import git
from tests.git.support import head, make, traced
from treadle.errors import GitError
from treadle.git import refs

NAME = "treadle/20260101-000000-abcdef"


@pytest.fixture
def place(tmp_path):
    return make(tmp_path / "p", {"a": "1\n"})


def next_commit(place, text="next") -> str:
    git(place.root, "commit", "-q", "--allow-empty", "-m", text)
    return head(place)


def test_created_branch_resolves(place):
    refs.create(place, NAME, head(place))
    assert refs.resolve(place, NAME) == head(place)
    assert git(place.root, "branch", "--list", NAME).strip() == NAME


def test_unknown_branch_resolves_to_nothing(place):
    assert refs.resolve(place, "treadle/none") is None


def test_packed_branch_resolves(place):
    refs.create(place, NAME, head(place))
    git(place.root, "pack-refs", "--all")
    assert refs.resolve(place, NAME) == head(place)


def test_existing_branch_is_not_taken_over(place):
    refs.create(place, NAME, head(place))
    with pytest.raises(GitError) as error:
        refs.create(place, NAME, next_commit(place))
    assert error.value.code == "branch_exists"


def test_branch_called_treadle_stands_in_the_way(place):
    git(place.root, "branch", "treadle")
    with pytest.raises(GitError) as error:
        refs.create(place, NAME, head(place))
    assert error.value.code == "branch_in_the_way"
    assert error.value.fix == ("git branch -m treadle treadle-old",)


def test_name_git_does_not_allow_is_refused(place):
    with pytest.raises(GitError, match="update-ref"):
        refs.create(place, "treadle/..", head(place))


def test_move_from_the_expected_commit(place):
    old = head(place)
    refs.create(place, NAME, old)
    new = next_commit(place)
    assert refs.move(place, NAME, new, old) is True
    assert refs.resolve(place, NAME) == new


def test_move_from_another_commit_does_nothing(place):
    first, second, third = head(place), next_commit(place, "2"), next_commit(place, "3")
    refs.create(place, NAME, first)
    assert refs.move(place, NAME, third, second) is False
    assert refs.resolve(place, NAME) == first


def test_move_that_happened_already_is_done(place):
    old, new = head(place), next_commit(place)
    refs.create(place, NAME, new)
    assert refs.move(place, NAME, new, old) is True


def test_move_of_a_deleted_branch_does_nothing(place):
    old, new = head(place), next_commit(place)
    assert refs.move(place, NAME, new, old) is False
    assert refs.resolve(place, NAME) is None


def test_move_to_a_missing_commit_is_an_error(place):
    refs.create(place, NAME, head(place))
    with pytest.raises(GitError):
        refs.move(place, NAME, "1" * 40, head(place))
    assert refs.resolve(place, NAME) == head(place)


def test_one_of_many_moves_wins(place):
    old = head(place)
    refs.create(place, NAME, old)
    targets = [next_commit(place, str(n)) for n in range(6)]
    won: list[str] = []

    def move(new):
        if refs.move(place, NAME, new, old):
            won.append(new)

    threads = [threading.Thread(target=move, args=(new,)) for new in targets]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert won == [refs.resolve(place, NAME)]


def test_checked_out_branch_is_not_moved_under_the_user(place, tmp_path):
    old = head(place)
    refs.create(place, NAME, old)
    git(place.root, "worktree", "add", "-q", str(tmp_path / "look"), NAME)
    with pytest.raises(GitError) as error:
        refs.move(place, NAME, next_commit(place), old)
    assert error.value.code == "branch_checked_out"
    assert refs.work_trees(place, NAME) == [tmp_path / "look"]


def test_branch_of_the_main_checkout_counts_as_checked_out(place):
    assert refs.work_trees(place, "main") == [place.root]
    assert refs.work_trees(place, NAME) == []


def test_delete_only_what_was_expected(place):
    old, new = head(place), next_commit(place)
    refs.create(place, NAME, new)
    assert refs.delete(place, NAME, old) is False
    assert refs.delete(place, NAME, new) is True
    assert refs.resolve(place, NAME) is None


def test_lock_left_by_a_killed_git_is_cleared(place):
    old, new = head(place), next_commit(place)
    refs.create(place, NAME, old)
    lock = place.common_dir / "refs" / "heads" / f"{NAME}.lock"
    lock.write_text("half")
    assert refs.move(place, NAME, new, old) is True
    assert not lock.exists()


def test_lock_of_the_users_branch_is_left_alone(place):
    old, new = head(place), next_commit(place)
    git(place.root, "branch", "mine", old)
    lock = place.common_dir / "refs" / "heads" / "mine.lock"
    lock.write_text("")
    with pytest.raises(GitError, match="File exists"):
        refs.move(place, "mine", new, old)
    assert lock.exists()


def test_moved_branch_is_synced_with_its_folder(place, tmp_path):
    old, new = head(place), next_commit(place)
    refs.create(place, NAME, old)
    code = (
        "import sys; from pathlib import Path; from treadle.git import refs, repo\n"
        "assert refs.move(repo.find(Path(sys.argv[1])), *sys.argv[2:])"
    )
    trace = "\n".join(traced(tmp_path, code, str(place.root), NAME, new, old))
    assert re.search(rf"fsync\(\d+<.*refs/heads/{NAME}.lock>", trace)
    assert re.search(r"fsync\(\d+<.*refs/heads/treadle>", trace)
