"""Reading works in a new project, on a read-only disk, after a crash, and says when it cannot."""

import os
import shutil
import sqlite3
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.rows import (
    RUN,
    check_row,
    child,
    commit,
    cursor,
    event,
    only_sqlite,
    output,
    run_row,
    step_row,
)
from treadle.errors import StoreError
from treadle.layout import Layout
from treadle.store.runs import History
from treadle.store.sqlite import Sqlite
from treadle.store.store import Reader, Store

ON_A_READ_ONLY_DISK = (
    "unshare",
    "--map-root-user",
    "--mount",
    "sh",
    "-c",
    'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"',
)
COUNT_RUNS = """
    import sys
    from pathlib import Path
    from treadle.errors import StoreError
    from treadle.layout import Layout
    from treadle.store.store import Reader
    from treadle.store.store import Store
    kind = {"read": Reader, "write": Store}[sys.argv[2]]
    try:
        print(len(kind.open(Layout(Path(sys.argv[1]))).runs(limit=9)))
    except StoreError as error:
        print(error)
"""
KILL_HALFWAY = """
    import os, sqlite3, sys
    connection = sqlite3.connect(sys.argv[1], isolation_level=None)
    connection.execute("PRAGMA cache_size=1")
    connection.execute("BEGIN IMMEDIATE")
    for number in range(2000):
        connection.execute("INSERT INTO counters VALUES (?, 1)", ("x" * 500 + str(number),))
    os.kill(os.getpid(), 9)
"""
LOADED = """
    import sys
    import treadle.store.store
    print(*sorted(sys.modules))
"""
NOT_FOR_READING = {
    "asyncio",
    "concurrent.futures",
    "dataclasses",
    "inspect",
    "logging",
    "msgspec",
    "shutil",
    "subprocess",
    "tempfile",
}


@pytest.fixture
def written(layout):
    """Leave a closed store with one run behind and return its layout."""
    with Store.open(layout) as store:
        store.insert_run(run_row(), (), {})
    return layout


def on_read_only_disk(layout, verb):
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"]).returncode:
        pytest.skip("needs mount namespaces")
    return output(child(COUNT_RUNS, layout.root, verb, wrap=(*ON_A_READ_ONLY_DISK, layout.root)))


def test_a_new_project_reads_as_empty_and_stays_untouched(layout):
    with Reader.open(layout) as reader:
        assert reader.runs(limit=50) == []
        assert (reader.last_run_id(), reader.tasks(), reader.questions()) == (None, [], [])
        assert (reader.run(RUN), reader.last_seq(RUN), reader.kv(RUN)) == (None, 0, {})
    assert not layout.root.exists()


@only_sqlite
def test_a_database_that_was_never_set_up_reads_as_empty(layout):
    layout.home.mkdir(parents=True)
    layout.database.touch()
    with Reader.open(layout) as reader:
        assert reader.runs(limit=50) == []


@only_sqlite
def test_a_file_that_is_no_database_is_reported_with_the_repair(written):
    written.database.write_bytes(b"no database at all" * 400)
    for kind in (Reader, Store):
        with pytest.raises(StoreError, match=r"treadle\.db: damaged") as caught:
            kind.open(written)
        assert caught.value.fix == ("treadle doctor --repair",)


@only_sqlite
def test_a_damaged_page_is_reported_when_it_is_met(written):
    data = bytearray(written.database.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    written.database.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"), Reader.open(written) as reader:
        reader.runs(limit=50)


@only_sqlite
def test_a_read_only_disk_can_be_read(written):
    assert on_read_only_disk(written, "read") == "1\n"


@only_sqlite
def test_a_read_only_disk_cannot_be_written(written):
    assert "nothing was saved" in on_read_only_disk(written, "write")


@only_sqlite
def test_changes_that_a_read_only_disk_hides_are_not_passed_over(written):
    with Store.open(written) as store:
        commit(store)
        kept = {path: path.read_bytes() for path in written.home.glob("treadle.db*")}
    for path, data in kept.items():
        if not path.name.endswith("-shm"):
            path.write_bytes(data)
    assert "treadle.db-wal holds changes" in on_read_only_disk(written, "read")


@only_sqlite
def test_a_writer_killed_without_a_wal_is_rolled_back_by_the_next_reader(written):
    with closing(sqlite3.connect(written.database)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    child(KILL_HALFWAY, written.database).communicate(timeout=120)
    assert written.database.with_name("treadle.db-journal").stat().st_size
    with Reader.open(written) as reader:
        assert reader.run(RUN) == run_row()


@only_sqlite
def test_a_file_system_without_wal_still_works(layout, monkeypatch):
    connect = Sqlite._connect
    without_wal = "vfs=unix-dotfile"
    monkeypatch.setattr(Sqlite, "_connect", lambda it, how: connect(it, f"{how}&{without_wal}"))
    with Store.open(layout) as store:
        store.insert_run(run_row(), (), {})
        commit(store)
        assert store.journal_mode == "delete"
        assert store.run(RUN).current_step_index == 1


def test_pages_go_back_in_time(store):
    ids = [f"20260123-145501-{number:06x}" for number in range(7)]
    for run_id in ids:
        status = "passed" if run_id in ids[::2] else "running"
        store.insert_run(run_row(run_id, status=status), (), {})
    first = [row.run_id for row in store.runs(limit=3)]
    assert first == ids[:3:-1]
    assert [row.run_id for row in store.runs(limit=9, before=first[-1])] == ids[3::-1]
    assert [row.run_id for row in store.runs(limit=9, status="passed")] == ids[::-2]
    assert [row.run_id for row in store.running()] == ids[1::2]
    assert store.last_run_id() == ids[-1]


def test_runs_are_found_by_the_beginning_of_their_id(store):
    for run_id in ("20260123-145501-aaaaaa", "20260123-145502-bbbbbb", "20260124-000000-cccccc"):
        store.insert_run(run_row(run_id), (), {})
    assert [row.run_id[-6:] for row in store.find_runs("20260123", 9)] == ["bbbbbb", "aaaaaa"]
    assert len(store.find_runs("2026", 2)) == 2
    assert store.find_runs("20260125", 9) == []


def test_runs_are_found_by_words_among_all_of_them(store):
    ids = [f"20260123-145501-{number:06x}" for number in range(4)]
    for run_id, goal in zip(
        ids, ("Fix 100% of it", "Add a LOGIN", "x", "Add a logout"), strict=True
    ):
        store.insert_run(run_row(run_id, goal=goal, task_id="T_1" if goal == "x" else None), (), {})
    found = {
        text: [row.run_id for row in store.runs(1, text=text)] for text in ("add log", "0%", "t_")
    }
    assert found == {"add log": ids[3:], "0%": ids[:1], "t_": ids[2:3]}
    assert [row.run_id for row in store.runs(9, ids[3], text="add log")] == ids[1:2]
    assert store.runs(9, status="passed", text="add") == store.runs(9, text="%")[1:] == []


def test_events_come_in_pages(store):
    store.insert_run(run_row(), [event(seq) for seq in range(1, 8)], {})
    assert [item.seq for item in store.events(RUN, after=2, limit=3)] == [3, 4, 5]
    assert [item.seq for item in store.events(RUN, after=5)] == [6, 7]
    assert store.last_seq(RUN) == 7


def test_the_last_check_of_the_same_tree_and_command_is_found(store):
    store.insert_run(run_row(), (), {})
    first = check_row(1, passed=False, exit_code=1)
    rows = (first, check_row(2, tree="other"), check_row(3, phase="before"), check_row(4, note="x"))
    store.advance(RUN, History((step_row(),), checks=rows), cursor(), 1)
    assert store.observed(RUN, "tree", "pytest -q") == check_row(4, note="x")
    assert store.observed(RUN, "tree", "make") is None
    assert store.checks(RUN)[0] == first


def test_odd_project_paths_are_opened_as_they_are(tmp_path):
    layout = Layout(tmp_path / "50% of #1? über & co")
    with Store.open(layout) as store:
        store.insert_run(run_row(), (), {})
    with Reader.open(layout) as reader:
        assert reader.last_run_id() == RUN


def test_reading_loads_only_what_it_needs():
    loaded = set(output(child(LOADED)).split())
    assert loaded & NOT_FOR_READING == set()


ADA, BOB = 61234, 61235
ENV = {"HOME": "/nowhere"}


@pytest.fixture
def common(backend):
    """Return the layout of a project of Ada's in a folder that everyone may write to."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield Layout(folder)
    shutil.rmtree(folder)


def as_user(user, do):
    """Do something as another user, in a process of its own; return its exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            os.umask(0)
            do()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def write_one(layout, run_id):
    with Store.open(layout, ENV) as store:
        store.insert_run(run_row(run_id), (), {})


def read_all(layout):
    with Reader.open(layout, ENV) as reader:
        assert reader.run_ids()


@only_sqlite
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_another_users_look_locks_nobody_out(common):
    assert as_user(ADA, lambda: write_one(common, "20260101-000000-aaaaaa")) == 0
    common.database.chmod(0o644)
    assert as_user(BOB, lambda: read_all(common)) == 0
    left = [path.name for path in common.database.parent.glob("treadle.db-*")]
    assert left == []
    assert as_user(ADA, lambda: write_one(common, "20260101-000000-bbbbbb")) == 0


@only_sqlite
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_another_user_sees_what_the_owner_is_writing(common):
    assert as_user(ADA, lambda: write_one(common, "20260101-000000-aaaaaa")) == 0
    common.database.chmod(0o644)
    with Store.open(common) as store:
        store.insert_run(run_row("20260101-000000-bbbbbb"), (), {})
        assert as_user(BOB, lambda: read_two(common)) == 0


def read_two(layout):
    with Reader.open(layout, ENV) as reader:
        assert len(reader.run_ids()) == 2
