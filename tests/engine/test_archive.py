"""Archives of steps on a shelf."""

import pytest

from treadle.engine import archive, manifest
from treadle.engine.archive import Shelf
from treadle.engine.manifest import Manifest, Snapshot
from treadle.errors import FormatError, StoreError
from treadle.store.rows.run import Cursor, StepRow

ROW = StepRow("20260101-000000-000000", 1, "do", 1, "ok", "x", "2026")


@pytest.fixture
def step(tmp_path):
    folder = tmp_path / "001-do"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "stdout.txt").write_text("words")
    here = Snapshot("c", "t")
    digest = manifest.walk.sha256(folder / "logs" / "stdout.txt")
    found = Manifest(
        ROW, (), Cursor("running", 1, 1), {}, here, here, None, (), {"logs/stdout.txt": digest}
    )
    manifest.write(folder, found)
    return folder


@pytest.fixture
def shelf(tmp_path):
    return Shelf(f"file://{tmp_path}/shelf")


def test_a_folder_comes_back_whole_with_its_commit(step, shelf, tmp_path):
    name = archive.key(ROW.run_id, 1, "do", 2)
    kept = archive.save(shelf, name, step, b"pack")
    archive.fetch(shelf, kept, tmp_path / "copy")
    assert manifest.read(tmp_path / "copy")[0].row == ROW
    assert archive.held(shelf.get(name)) == b"pack"
    assert shelf.names(f"runs/{ROW.run_id}/001-") == [f"runs/{ROW.run_id}/001-do.e2.tar"]


def test_the_same_may_be_kept_twice_and_something_else_may_not(step, shelf):
    assert archive.save(shelf, "a", step, None) == archive.save(shelf, "a", step, None)
    with pytest.raises(StoreError, match="has another a"):
        archive.save(shelf, "a", step, b"other")


def test_an_archive_that_changed_or_is_gone_is_refused(step, shelf, tmp_path):
    kept = archive.save(shelf, "a", step, None)
    (tmp_path / "shelf" / "a").write_bytes(b"something else")
    with pytest.raises(FormatError, match="not what was committed"):
        archive.fetch(shelf, kept, tmp_path / "copy")
    with pytest.raises(FormatError, match="has no b"):
        shelf.get("b")


def test_an_address_nobody_can_open_is_named():
    for url in ("file:///proc/no/where", "gopher://x"):
        with pytest.raises(StoreError) as refused:
            Shelf(url)
        assert refused.value.code == "artifacts_failed"
        assert url in refused.value.message
