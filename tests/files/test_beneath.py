"""Nothing leads out of a folder."""

import os

import pytest

from treadle.errors import NotFoundError
from treadle.files import beneath


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "secret").write_text("secret")
    inner = tmp_path / "run"
    (inner / "steps").mkdir(parents=True)
    (inner / "steps" / "log.txt").write_text("log")
    (inner / "link").symlink_to(tmp_path / "secret")
    (inner / "out").symlink_to(tmp_path)
    os.mkfifo(inner / "fifo")
    return inner


def test_a_file_below_is_read(folder):
    with beneath.opened(folder, "steps/log.txt") as handle:
        assert handle.read() == b"log"


@pytest.mark.parametrize(
    "name",
    [
        *("", "/", "..", "../secret", "steps/../../secret", "./steps/log.txt", "steps//log.txt"),
        *("link", "out/secret", "out/run/steps/log.txt", "fifo", "steps", "nothing", "a\0b"),
        *("/etc/passwd", "steps/log.txt/", "\udcff", "x" * 300, "steps/log.txt/x"),
    ],
)
def test_everything_else_is_not_there(folder, name):
    with pytest.raises(NotFoundError), beneath.opened(folder, name):
        pass


def test_a_file_is_put_in_its_place_whatever_is_in_the_way(tmp_path):
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    (inside / "a.json").mkdir(parents=True)
    (inside / "sub").symlink_to(outside)
    (inside / "b.json").symlink_to(outside / "b.json")
    for name in ("a.json", "b.json", "sub/c.json"):
        beneath.write(inside, name, b"x")
        assert (inside / name).read_bytes() == b"x"
    assert list(outside.iterdir()) == []
    beneath.remove(inside, "sub/c.json")
    beneath.remove(inside, "sub/c.json")
    assert list((inside / "sub").iterdir()) == []
