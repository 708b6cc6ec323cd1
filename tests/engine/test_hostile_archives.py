"""An archive writes the files its step.json names, and nothing else, on every Python."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.engine import hostile_archives as world
from treadle.engine import recording
from treadle.errors import FormatError
from treadle.layout import Layout


@pytest.mark.parametrize("name", world.HOSTILE)
def test_a_hostile_archive_is_refused_and_leaves_nothing(name, tmp_path):
    assert world.judge(name, tmp_path) == "refused"


@pytest.mark.parametrize("name", world.HONEST)
def test_an_honest_archive_comes_back_whole(name, tmp_path):
    assert world.compare(name, tmp_path) == "same"


def test_there_are_enough_of_them():
    assert len(world.HOSTILE) >= 60


OTHERS = [
    path
    for name in ("/usr/bin/python3", *(f"python3.{minor}" for minor in range(11, 15)))
    if (path := shutil.which(name)) and Path(path).resolve() != Path(sys.executable).resolve()
]


@pytest.mark.parametrize("python", OTHERS)
def test_other_pythons_of_this_machine_do_the_same(python, tmp_path):
    """Debian's 3.11.2 has no `filter=`; others have it with holes."""
    packages = Path(msgspec.__file__).parent.parent
    root = Path(__file__).parents[2]
    env = {"PYTHONPATH": f"{root / 'src'}:{root}:{packages}", "PATH": "/usr/bin:/bin"}
    if subprocess.run([python, "-c", "import msgspec"], env=env, capture_output=True).returncode:
        pytest.skip(f"{python} cannot load what this Python has installed")
    words = [python, "-P", str(Path(world.__file__)), str(tmp_path)]
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    wanted = dict.fromkeys(world.HOSTILE, "refused") | dict.fromkeys(world.HONEST, "same")
    assert json.loads(done.stdout) == wanted


RECORDINGS = [
    name
    for name in world.HOSTILE
    if name.startswith(("absolute", "name with", "link", "hard", "links", "size", "sparse"))
    or "device" in name
    or name in ("fifo", "folder", "file twice", "too many folders", "more bytes than may be")
    or name in ("xz bomb", "bzip2 bomb", "extended headers on top of each other")
]
# As a recording this is only an unusual name.
RECORDINGS.remove("name with a newline that nobody named")


@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "zipped"])
def test_a_recording_is_unpacked_as_carefully(name, zipped, tmp_path):
    world.world(tmp_path)
    data, source = world.HOSTILE[name](tmp_path), tmp_path / "r.tar.gz"
    source.write_bytes(recording.gzip.compress(data) if zipped else data)
    before = world.seen(tmp_path)
    with pytest.raises(FormatError, match=r"not a recording: (?!it has no)"):
        recording.unpack(Layout(tmp_path / "place"), source)
    assert world.seen(tmp_path) == before


def test_a_recording_that_inflates_without_end_is_refused_before_it_does(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "_MAX_ALL", 1 << 20)
    data = world.Pack(tmp_path, head=False)
    for number in range(8):
        data.add(f"steps/{number}", b"\0" * (1 << 20))
    (tmp_path / "bomb").write_bytes(recording.gzip.compress(data.bytes()))
    with pytest.raises(FormatError, match="more than 1 MiB"):
        recording.unpack(Layout(tmp_path / "place"), tmp_path / "bomb")
    assert not list((tmp_path / "place" / ".treadle" / "recordings").iterdir())
