import hashlib
import os
import socket

import pytest

from treadle.errors import FormatError
from treadle.files import atomic, beneath, sync, walk
from treadle.layout import is_within


def test_write_replaces_the_whole_file_and_leaves_no_temporary(tmp_path):
    target = tmp_path / "a.json"
    target.write_text("old")
    atomic.write(target, b"new")
    assert target.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a.json"]


def test_create_refuses_an_existing_name_and_a_link(tmp_path):
    (tmp_path / "victim").write_text("keep")
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    for name in ("victim", "link"):
        with pytest.raises(FileExistsError):
            atomic.create(tmp_path / name, b"x")
    assert (tmp_path / "victim").read_text() == "keep"


@pytest.mark.parametrize("make", [os.mkdir, lambda path: path.write_text("x")])
def test_rename_new_never_replaces(tmp_path, make):
    (tmp_path / "staged").mkdir()
    make(tmp_path / "final")
    with pytest.raises(FileExistsError):
        sync.rename_new(tmp_path / "staged", tmp_path / "final")
    assert (tmp_path / "staged").is_dir()


def test_rename_new_moves_to_a_free_name(tmp_path):
    (tmp_path / "staged").mkdir()
    sync.rename_new(tmp_path / "staged", tmp_path / "final")
    assert os.listdir(tmp_path) == ["final"]


def test_sync_all_flushes_files_and_folders(tmp_path):
    (tmp_path / "a").write_text("x")
    sync.sync_all([tmp_path / "a", tmp_path])


def test_sync_all_ends_whatever_goes_wrong(tmp_path):
    with pytest.raises(ValueError, match="null"):
        sync.sync_all([tmp_path, "a\0b"])


def test_sync_all_reports_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        sync.sync_all([tmp_path, tmp_path / "missing"])


def test_walk_lists_files_and_folders_in_order(tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "b.txt").write_text("12345")
    (tmp_path / "a.txt").write_text("1")
    assert [tuple(entry) for entry in walk.walk(tmp_path)] == [
        ("a.txt", False, 1),
        ("files", True, 0),
        ("files/b.txt", False, 5),
    ]


def _socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


SPECIAL = {
    "symbolic link": lambda path: path.symlink_to("/etc/passwd"),
    "FIFO": os.mkfifo,
    "socket": _socket,
    "hard link": lambda path: path.hardlink_to(path.parent / "plain"),
}


@pytest.mark.parametrize("kind", SPECIAL)
def test_walk_refuses_what_is_not_a_plain_file(tmp_path, kind):
    (tmp_path / "plain").write_text("x")
    SPECIAL[kind](tmp_path / "odd")
    with pytest.raises(FormatError, match=kind):
        walk.walk(tmp_path)


def test_walk_refuses_a_device(tmp_path):
    if os.geteuid():
        pytest.skip("only root can make a device node")
    os.mknod(tmp_path / "null", 0o600 | 0o020000, os.makedev(1, 3))
    with pytest.raises(FormatError, match="device"):
        walk.walk(tmp_path)


def test_walk_refuses_too_many_entries_and_bad_names(tmp_path):
    for number in range(5):
        (tmp_path / str(number)).touch()
    with pytest.raises(FormatError, match="more than 4"):
        walk.walk(tmp_path, max_entries=4)
    open(os.fsencode(tmp_path) + b"/\xff", "w").close()
    with pytest.raises(FormatError, match="UTF-8"):
        walk.walk(tmp_path)


@pytest.mark.parametrize("kind", ["symbolic link", "FIFO"])
def test_read_refuses_special_files_without_hanging(tmp_path, kind):
    SPECIAL[kind](tmp_path / "odd")
    with pytest.raises(FormatError):
        walk.read(tmp_path / "odd", max_bytes=10)


def test_read_has_a_limit(tmp_path):
    (tmp_path / "big").write_bytes(b"x" * 11)
    with pytest.raises(FormatError, match="larger than 10"):
        walk.read(tmp_path / "big", max_bytes=10)
    assert walk.read(tmp_path / "big", max_bytes=11) == b"x" * 11


def test_remove_tree_removes_2000_levels_and_locked_folders(tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    here = os.open(victim, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("d" * 50, dir_fd=here)
        deeper = os.open("d" * 50, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    (victim / "locked").mkdir()
    (victim / "locked" / "file").touch()
    (victim / "locked").chmod(0)
    beneath.remove_tree(victim)
    assert not victim.exists()


def test_remove_tree_does_not_follow_links(tmp_path):
    (tmp_path / "keep").mkdir()
    (tmp_path / "keep" / "file").touch()
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "link").symlink_to(tmp_path / "keep")
    beneath.remove_tree(tmp_path / "victim")
    assert os.listdir(tmp_path / "keep") == ["file"]


def test_a_line_is_added_or_begins_a_file_and_never_through_a_link(tmp_path):
    atomic.append(tmp_path / "list", b"a\n")
    atomic.append(tmp_path / "list", b"b\n")
    assert (tmp_path / "list").read_bytes() == b"a\nb\n"
    (tmp_path / "link").symlink_to("list")
    with pytest.raises(OSError, match="link"):
        atomic.append(tmp_path / "link", b"c\n")


def test_a_folder_is_emptied_and_a_link_in_its_place_only_goes(tmp_path):
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "folder" / "deep" / "file").write_text("x")
    (tmp_path / "link").symlink_to("folder")
    beneath.empty(tmp_path / "link")
    assert (tmp_path / "folder" / "deep" / "file").exists()
    beneath.empty(tmp_path / "folder")
    assert list((tmp_path / "folder").iterdir()) == list((tmp_path / "link").iterdir()) == []


def test_a_digest_is_of_all_of_a_file(tmp_path):
    for size in (0, 1, 1 << 20, (5 << 19) + 1):
        (tmp_path / "file").write_bytes(b"x" * size)
        assert sync.sha256(tmp_path / "file") == hashlib.sha256(b"x" * size).hexdigest()


@pytest.mark.parametrize(("target", "inside"), [("real", True), ("../elsewhere", False)])
def test_a_link_on_the_way_may_not_lead_out(tmp_path, target, inside):
    root = tmp_path / "root"
    for folder in (root / "real", tmp_path / "elsewhere"):
        folder.mkdir(parents=True)
        (folder / "spec.md").write_text("x")
    (root / "link").symlink_to(target)
    assert is_within(root, "real/spec.md")
    assert is_within(root, "link/spec.md") is inside
