"""Trees are merged by what they say, whatever their histories, and leave nothing behind."""

import pytest

from tests.builder import git, write_files
from tests.git.support import head, make
from treadle.errors import GitError
from treadle.git import build, repo, scratch

LINES = "".join(f"{n}\n" for n in range(20))


@pytest.fixture
def place(tmp_path):
    return make(tmp_path / "p", {"a.txt": LINES, "b.txt": "b\n"})


@pytest.fixture
def desk(place, tmp_path):
    return scratch.make(place, tmp_path / "scratch")


def tree(place, files, *removed, base=None):
    """Return the tree of a commit with these files; the branch stands where it was."""
    start = head(place)
    write_files(place.root, files)
    for name in removed:
        (place.root / name).unlink()
    git(place.root, "add", "-A")
    found = git(place.root, "write-tree").strip()
    git(place.root, "reset", "-q", "--hard", start)
    return found


def test_changes_in_different_places_come_together(place, desk):
    base = repo.tree_of(place, head(place))
    ours = tree(place, {"a.txt": LINES.replace("0\n", "ours\n", 1)})
    theirs = tree(place, {"a.txt": LINES.replace("19\n", "theirs\n"), "c.txt": "c\n"})
    found = build.three_way(desk, base, ours, theirs)
    assert isinstance(found, str)
    scratch.keep(desk)
    text = git(place.root, "cat-file", "-p", f"{found}:a.txt")
    assert text.startswith("ours\n")
    assert text.endswith("theirs\n")
    assert git(place.root, "ls-tree", "--name-only", found).split() == [
        "a.txt",
        "b.txt",
        "c.txt",
    ]


def test_the_same_place_is_a_conflict_that_names_the_file(place, desk):
    base = repo.tree_of(place, head(place))
    ours = tree(place, {"b.txt": "ours\n", "né w\n.txt": "1"})
    theirs = tree(place, {"b.txt": "theirs\n", "né w\n.txt": "2"})
    assert build.three_way(desk, base, ours, theirs).paths == ("b.txt", "né w\n.txt")


def test_a_change_of_a_removed_file_is_a_conflict(place, desk):
    base = repo.tree_of(place, head(place))
    ours = tree(place, {}, "b.txt")
    theirs = tree(place, {"b.txt": "theirs\n"})
    assert build.three_way(desk, base, ours, theirs).paths == ("b.txt",)


def test_swapping_the_sides_takes_a_change_out_again(place, desk):
    before = repo.tree_of(place, head(place))
    after = tree(place, {"a.txt": LINES.replace("0\n", "run\n", 1), "new.txt": "n\n"})
    later = tree(place, {"a.txt": LINES.replace("0\n", "run\n", 1), "new.txt": "n\n", "c": "c\n"})
    found = build.three_way(desk, after, later, before)
    assert found == tree(place, {"c": "c\n"})


def test_an_unmerged_attempt_leaves_no_object_in_the_repository(place, desk):
    base = repo.tree_of(place, head(place))
    ours, theirs = tree(place, {"b.txt": "ours\n"}), tree(place, {"b.txt": "theirs\n"})
    before = git(place.root, "count-objects")
    build.three_way(desk, base, ours, theirs)
    assert git(place.root, "count-objects") == before


def test_only_the_merged_tree_is_kept_not_the_commits_that_helped(place, desk):
    base = repo.tree_of(place, head(place))
    ours, theirs = tree(place, {"c.txt": "c\n"}), tree(place, {"d.txt": "d\n"})
    build.three_way(desk, base, ours, theirs)
    scratch.keep(desk)
    commits = git(
        place.root, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)"
    ).count("commit")
    assert commits == 1


def test_commits_are_merged_from_where_they_part(place, desk):
    start = head(place)
    sides = []
    for name in ("ours", "theirs"):
        git(place.root, "switch", "-q", "-C", name, start)
        write_files(place.root, {f"{name}.txt": name, "b.txt": f"{name}\n"})
        git(place.root, "add", "-A")
        git(place.root, "commit", "-q", "-m", name)
        sides.append(head(place))
    assert build.merge_commits(desk, *sides).paths == ("b.txt",)
    assert isinstance(build.merge_commits(desk, sides[0], start), str)


def test_what_is_no_tree_is_an_error(place, desk):
    with pytest.raises(GitError, match="merge-tree"):
        build.merge_commits(desk, "0" * 40, head(place))


def test_no_driver_or_filter_of_anybody_runs(place, desk, tmp_path, monkeypatch):
    (tmp_path / "attributes").write_text("*.txt merge=own filter=own\n")
    settings = {
        "core.attributesFile": tmp_path / "attributes",
        "merge.own.driver": f"touch {tmp_path}/ran",
        "filter.own.clean": f"touch {tmp_path}/ran; cat",
        "merge.renormalize": "true",
    }
    base = repo.tree_of(place, head(place))
    sides = [tree(place, {"b.txt": f"{side}\n", ".gitattributes": "* text\n"}) for side in "12"]
    for key, value in settings.items():
        git(place.root, "config", "--file", tmp_path / "config", key, value)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    assert build.three_way(desk, base, *sides).paths == ("b.txt",)
    assert not (tmp_path / "ran").exists()
    assert not [*desk.folder.glob(".merge_file_*")]
