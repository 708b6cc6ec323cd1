"""Archives of steps on a shelf."""

import hashlib
import tarfile
import threading
from pathlib import Path

import pytest

from treadle.engine.elsewhere import archive, fleet_run
from treadle.engine.elsewhere.archive import Shelf
from treadle.engine.run import run_files
from treadle.engine.run.run_files import Manifest, Snapshot
from treadle.errors import FormatError, StoreError
from treadle.files import sync
from treadle.layout import Layout
from treadle.project.key import FleetKey
from treadle.store.runs import Cursor, StepRow

KEY = FleetKey(Path("key"), (b"k" * 64,))
NAME = archive.name_of(archive.of_step("20260101-000000-000000", 1, "do"), 2)
ROW = StepRow("20260101-000000-000000", 1, "do", 1, "ok", "x", "2026")


@pytest.fixture
def step(tmp_path):
    folder = tmp_path / "001-do"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "stdout.txt").write_text("words")
    here = Snapshot("c", "t")
    files = {"logs/stdout.txt": sync.sha256(folder / "logs" / "stdout.txt")}
    found = Manifest(ROW, Cursor("running", 1, 1), here, here, files=files)
    run_files.write_step(folder, found)
    return folder


@pytest.fixture
def shelf(tmp_path):
    return Shelf(f"file://{tmp_path}/shelf")


def kept_row(digest):
    return ROW._replace(archive=NAME, archive_sha256=digest)


def kept(shelf, step):
    """Keep a step's folder and return its row."""
    return kept_row(archive.put(shelf, NAME, archive.seal(NAME, step, b"pack", KEY)).sha256)


def fetch(shelf, row, key, target):
    archive.unpack(archive.read(shelf, row, key), target)


def shelf_data(shelf, step):
    kept(shelf, step)
    return shelf.get(NAME)


def test_a_folder_comes_back_whole_with_its_commit(step, shelf, tmp_path):
    row = kept(shelf, step)
    fetch(shelf, row, KEY, tmp_path / "copy")
    assert run_files.read_step(tmp_path / "copy")[0].row == ROW
    assert archive.held(archive.read(shelf, row, KEY)) == b"pack"
    assert shelf.names(f"runs/{ROW.run_id}/001-") == [NAME]
    with tarfile.open(tmp_path / "shelf" / NAME) as plain:  # other programs can read it
        assert plain.getnames() == ["step/step.json", "step/logs/stdout.txt", "commit.pack"]


def test_a_takeover_asks_for_archives_of_past_steps_together(step, shelf, tmp_path, monkeypatch):
    layout, get, together = Layout(tmp_path / "project"), Shelf.get, threading.Barrier(2)
    layout.run(ROW.run_id).steps.mkdir(parents=True)
    rows = []
    for number in (1, 2):
        place = layout.relative(layout.run(ROW.run_id).step(number, "do"))
        name = archive.name_of(archive.of_step(ROW.run_id, number, "do"), 2)
        found = archive.put(shelf, name, archive.seal(name, step, None, KEY))
        row = ROW._replace(step_index=number, step_dir=place, archive=name)
        rows.append(row._replace(archive_sha256=found.sha256))

    def wait(self, name):
        together.wait(60)
        return get(self, name)

    monkeypatch.setattr(Shelf, "get", wait)
    fleet_run._fetch(layout, rows, shelf, KEY)
    assert all((layout.shared / row.step_dir / "step.json").is_file() for row in rows)


def test_the_same_may_be_kept_twice_and_something_else_may_not(step, shelf):
    assert kept(shelf, step) == kept(shelf, step)
    with pytest.raises(StoreError, match="has another runs/"):
        archive.put(shelf, NAME, archive.seal(NAME, step, b"other", KEY))


def test_an_archive_that_changed_or_is_gone_is_refused(step, shelf, tmp_path):
    row = kept(shelf, step)
    (tmp_path / "shelf" / NAME).write_bytes(b"something else")
    with pytest.raises(FormatError, match="not what was committed"):
        fetch(shelf, row, KEY, tmp_path / "copy")
    with pytest.raises(FormatError, match="has no b"):
        shelf.get("b")


def forged(data):
    return {
        "a changed byte": data[:600] + b"X" + data[601:],
        "a seal of zeros": data[:-64] + b"0" * 64,
        "no seal": data[:-64],
        "a seal that is no text": data[:-64] + b"\xff" * 64,
        "a longer body": data[:-64] + b"\0" * 512 + data[-64:],
        "nothing": b"",
    }


@pytest.mark.parametrize("what", forged(b"x" * 999))
def test_an_archive_that_nobody_with_the_key_made_is_refused(what, step, shelf, tmp_path):
    """Who can write to the shelf and to the store has no key: the row's digest fits."""
    data = forged(shelf_data(shelf, step))[what]
    (tmp_path / "shelf" / NAME).write_bytes(data)
    row = kept_row(hashlib.sha256(data).hexdigest())
    with pytest.raises(FormatError) as refused:
        fetch(shelf, row, KEY, tmp_path / "copy")
    assert refused.value.code == "archive_forged"
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize(
    "other",
    [{"run_id": "20260101-000000-000001"}, {"step_index": 2}, {"role": "act"}],
    ids=["another run", "another step", "another role"],
)
def test_an_archive_made_for_something_else_is_refused(other, step, shelf, tmp_path):
    row = kept(shelf, step)._replace(**other)
    with pytest.raises(FormatError) as refused:
        fetch(shelf, row, KEY, tmp_path / "copy")
    assert refused.value.code == "archive_forged"


def test_an_archive_of_the_key_before_is_believed_and_of_another_key_not(step, shelf, tmp_path):
    row = kept(shelf, step)
    fetch(shelf, row, FleetKey(tmp_path, (b"n" * 64, *KEY.lines)), tmp_path / "copy")
    with pytest.raises(FormatError, match="this fleet's key"):
        fetch(shelf, row, FleetKey(tmp_path, (b"n" * 64,)), tmp_path / "other")


def test_an_address_nobody_can_open_is_named():
    for url in ("file:///proc/no/where", "file://here", "gopher://x"):
        with pytest.raises(StoreError) as refused:
            Shelf(url)
        assert refused.value.code == "artifacts_failed"
        assert url in refused.value.message
