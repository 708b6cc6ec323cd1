"""Trees are read, and written with some of their files changed, as git would."""

from tests.builder import git
from tests.git.support import head, make
from treadle.git import scratch, trees
from treadle.git.trees import Leaf

FILES = {"a": "a\n", "a.b": "x\n", "a0/z": "z\n", "d/e/f": "f\n", "d/g": "g\n", "run": "#!\n"}


def test_file_and_folder_of_one_name(tmp_path):
    place = make(tmp_path / "p", FILES)
    spot = scratch.make(place, tmp_path / "s")
    blob = Leaf("100644", git(place.root, "rev-parse", "HEAD:a").strip())
    tree = trees.edited(spot, head(place), {"a": None, "a/b": blob, "d": blob, "d/g": None})
    listed = trees.names(spot, tree, ["", "a"])
    assert listed == {"": ["a.b", "a", "a0", "d", "run"], "a": ["b"]}


def test_files_are_those_asked_for_and_no_folder(tmp_path):
    place = make(tmp_path / "p", FILES)
    assert list(trees.files(place, head(place), ["d", "d/g", "no", "run"])) == ["d/g", "run"]
    assert list(trees.files(place, head(place))) == sorted(FILES)


def test_contents_leave_out_what_is_large(tmp_path):
    place = make(tmp_path / "p", {"small": "s\n", "large": "x" * ((8 << 20) + 1)})
    found = trees.files(place, head(place))
    assert list(trees.contents(place, found.values()).values()) == [b"s\n"]
