"""Single objects are written as git writes them, and moved into a store durably."""

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.builder import git
from tests.git.support import make, traced
from treadle.errors import GitError
from treadle.git import scratch


@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_object_has_the_id_git_gives_it(tmp_path, form):
    place = make(tmp_path / "p", {"a": "hello\n"}, f"--object-format={form}")
    name = scratch.write_object(tmp_path / "store", "blob", b"hello\n", form)
    assert name == git(place.root, "rev-parse", "HEAD:a").strip()


def test_writing_twice_is_writing_once(tmp_path):
    names = {scratch.write_object(tmp_path, "blob", b"x", "sha1") for _ in range(2)}
    assert len(names) == 1


def test_settled_objects_are_in_the_repository(tmp_path):
    place = make(tmp_path / "p", {"a": "hello\n"})
    name = scratch.write_object(tmp_path / "store", "blob", b"new\n", "sha1")
    scratch.keep_objects(tmp_path / "store", place.objects)
    assert git(place.root, "cat-file", "blob", name) == "new\n"
    assert git(place.root, "fsck", "--strict", "--no-dangling") == ""
    scratch.keep_objects(tmp_path / "store", place.objects)


def test_settling_across_file_systems_copies(tmp_path, monkeypatch):
    place = make(tmp_path / "p", {"a": "hello\n"})
    name = scratch.write_object(tmp_path / "store", "blob", b"new\n", "sha1")
    rename = Path.rename

    def refuse(self, target):
        if self.parent.parent == tmp_path / "store":
            raise OSError(errno.EXDEV, "other file system")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    scratch.keep_objects(tmp_path / "store", place.objects)
    assert git(place.root, "cat-file", "blob", name) == "new\n"


def test_packs_are_settled_too(tmp_path):
    place = make(tmp_path / "p", {"a": "hello\n"})
    space = scratch.make(place, tmp_path / "scratch")
    (tmp_path / "big").write_bytes(b"x" * 5000)
    args = ("-c", "core.bigFileThreshold=1k", "hash-object", "-w", str(tmp_path / "big"))
    name = scratch.out(space, *args).decode().strip()
    assert list((space.store / "pack").glob("*.idx"))
    scratch.keep(space)
    assert git(place.root, "cat-file", "-s", name) == "5000\n"


def test_new_folder_of_a_shared_store_is_shared(tmp_path):
    store = tmp_path / "objects"
    store.mkdir()
    store.chmod(0o2775)
    name = scratch.write_object(tmp_path / "from", "blob", b"x", "sha1")
    scratch.keep_objects(tmp_path / "from", store)
    assert (store / name[:2]).stat().st_mode & 0o7777 == 0o2775


def test_alternates_are_followed_with_relative_and_quoted_paths(tmp_path):
    first, second, third = tmp_path / "1", tmp_path / "sp ace", tmp_path / "line\nbreak"
    for store in (first, second, third):
        (store / "info").mkdir(parents=True)
    (first / "info" / "alternates").write_text("# comment\n../sp ace\n")
    scratch.write_alternates(second, [third, first])
    assert scratch.alternates(first) == [first, second, third]


def test_objects_are_synced_before_they_have_their_name_and_their_folders_after(tmp_path):
    place = make(tmp_path / "p", {"a": "hello\n"})
    names = [scratch.write_object(tmp_path / "s", "blob", bytes([n]), "sha1") for n in range(5)]
    code = (
        "import sys; from pathlib import Path; from treadle.git import scratch\n"
        "scratch.keep_objects(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    lines = traced(tmp_path, code, str(tmp_path / "s"), str(place.objects))
    renames = [n for n, line in enumerate(lines) if "rename(" in line]
    for name in names:
        synced = next(n for n, line in enumerate(lines) if name[2:] in line and "fsync" in line)
        assert synced < renames[0]
        assert any(f"objects/{name[:2]}>" in line for line in lines[renames[-1] :])
    assert len(renames) == 5


def test_a_store_borrows_from_nobody_but_the_repository(tmp_path):
    """Whoever wrote another store into it would choose what an object's id means."""
    place, foreign = make(tmp_path / "p", {"a": "hello\n"}), make(tmp_path / "f", {"b": "evil\n"})
    evil = git(foreign.root, "rev-parse", "HEAD:b").strip()
    space = scratch.make(place, tmp_path / "scratch")
    names = space.store / "info" / "alternates"
    names.write_text(f"{names.read_text()}{foreign.objects}\n")
    assert scratch.out(space, "cat-file", "blob", evil) == b"evil\n"
    scratch.vouch(space)
    assert names.read_text() == f"{place.objects}\n"
    with pytest.raises(GitError):
        scratch.out(space, "cat-file", "blob", evil)


def test_a_store_keeps_no_index_over_its_packs(tmp_path):
    """Git believes what it says of a pack without a look at the pack's own index."""
    place = make(tmp_path / "p", {"a": "hello\n"})
    space = scratch.make(place, tmp_path / "scratch")
    (tmp_path / "big").write_bytes(b"x" * 5000)
    args = ("-c", "core.bigFileThreshold=1k", "hash-object", "-w", str(tmp_path / "big"))
    name = scratch.out(space, *args).decode().strip()
    scratch.out(space, "multi-pack-index", "write")
    pack = next((space.store / "pack").glob("*.pack"))
    for planted in ("multi-pack-index.d", ".hidden"):
        (pack.parent / planted).mkdir()
    pack.with_suffix(".keep").touch()
    (space.store / "commit-graph").touch()
    assert (pack.parent / "multi-pack-index").exists()
    scratch.vouch(space)
    assert {path.suffix for path in pack.parent.iterdir()} == {".pack", ".idx"}
    assert sorted(path.name for path in space.store.iterdir()) == ["info", "pack"]
    assert scratch.out(space, "cat-file", "-s", name) == b"5000\n"


@pytest.mark.parametrize("attempt", range(6))
def test_runs_side_by_side_keep_their_objects_in_one_repository(tmp_path, attempt):
    target, stores = tmp_path / "objects", [tmp_path / f"store{n}" for n in range(8)]
    for store in stores:
        for number in range(60):
            scratch.write_object(store, "blob", f"{store.name} {number}".encode(), "sha1")
    with ThreadPoolExecutor(len(stores)) as pool:
        list(pool.map(lambda store: scratch.keep_objects(store, target), stores))
    assert len([path for path in target.glob("??/*") if path.is_file()]) == 60 * len(stores)
