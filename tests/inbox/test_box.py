"""Whatever lies in the inbox: read it safely or not at all, and never wait for it."""

import os

import pytest

from treadle.errors import FormatError
from treadle.files import atomic
from treadle.inbox import box
from treadle.layout import Layout


@pytest.fixture
def inbox(tmp_path):
    folder = Layout(tmp_path).inbox
    folder.mkdir(parents=True)
    return folder


def make_sparse(path):
    with path.open("wb") as handle:
        handle.truncate(1 << 40)


def make_hard_link(path):
    (path.parent / "other.txt").write_text("x")
    os.link(path.parent / "other.txt", path)


ODD = {
    "a link to a file": lambda path: path.symlink_to("/etc/hostname"),
    "a link to a folder": lambda path: path.symlink_to("/etc"),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a FIFO": os.mkfifo,
    "a hard link": make_hard_link,
    "a terabyte": make_sparse,
    "no UTF-8": lambda path: path.write_bytes(b"caf\xe9"),
}


@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_what_is_no_plain_small_text_is_refused_and_can_be_moved(inbox, make):
    make(inbox / "m.md")
    with pytest.raises(FormatError, match=r"^m\.md "):
        box.read(inbox / "m.md")
    moved = box.move(inbox / "m.md", inbox / "dead")
    assert os.path.lexists(moved)
    assert box.names(Layout(inbox.parent.parent)) == []


def test_only_whole_messages_are_listed_in_order(inbox):
    for name in ("b.md", "a.md", ".hidden.md", "half.md.tmp", "note.txt", ".b.md.tmp"):
        (inbox / name).write_text("x")
    assert box.names(Layout(inbox.parent.parent)) == ["a.md", "b.md"]


def test_a_name_is_made_safe_and_free_when_it_moves(inbox):
    for _ in range(2):
        (inbox / "..\nevil name.md").write_text("x")
        box.move(inbox / "..\nevil name.md", inbox / "dead")
    assert sorted(os.listdir(inbox / "dead")) == ["evil_name.md", "evil_name~002.md"]


@pytest.mark.parametrize("left", [True, False])
def test_a_message_is_put_down_whatever_a_kill_left(tmp_path, left):
    folder = Layout(tmp_path).inbox
    if left:
        folder.mkdir(parents=True)
        (folder / ".m.md.tmp").write_text("half a mess")
    box.put(folder / "m.md", b"whole\n")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"m.md": b"whole\n"}


def test_the_inbox_comes_last_and_the_dead_letters_are_not_forgotten(tmp_path, monkeypatch):
    layout, synced = Layout(tmp_path), []
    monkeypatch.setattr(atomic, "sync", synced.append)
    for folder in (layout.inbox, layout.inbox_done, layout.inbox_dead):
        folder.mkdir(parents=True)
    box.settle(layout)
    assert synced == [layout.inbox_done, layout.inbox_dead, layout.inbox]
