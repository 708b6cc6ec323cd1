import os
import shutil
import subprocess
import sys
import threading

import pytest

from tests.builder import wait_for
from treadle.engine import lock
from treadle.errors import LockedError
from treadle.layout import Layout

HOLD = (
    "import os, pathlib, sys\n"
    "from treadle.engine import lock\nfrom treadle.layout import Layout\n"
    "with lock.hold(Layout(pathlib.Path(sys.argv[1]))):\n"
    "    print('held', flush=True); sys.stdin.read()\n"
)


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.communicate()


def test_the_second_is_refused_and_told_who_holds_it(tmp_path, holder):
    with pytest.raises(LockedError, match=f"pid {holder.pid}"), lock.hold(Layout(tmp_path)):
        pass
    assert lock.holder(Layout(tmp_path).run_lock)["pid"] == holder.pid


def test_a_clean_leave_names_nobody(tmp_path, holder):
    holder.communicate()
    with lock.hold(Layout(tmp_path)) as held:
        assert held.last is None


def test_a_killed_holder_is_named(tmp_path, holder):
    holder.kill()
    holder.wait()
    assert lock.holder(Layout(tmp_path).run_lock) is None
    with lock.hold(Layout(tmp_path)) as held:
        assert f",{holder.pid}," in held.last
    assert lock.holder(Layout(tmp_path).run_lock) is None


def test_the_lock_is_not_inherited_by_children(tmp_path):
    with lock.hold(Layout(tmp_path)):
        shown = subprocess.run(
            ["ls", "-l", "/proc/self/fd"], capture_output=True, text=True, close_fds=False
        ).stdout
    assert "run.lock" not in shown
    assert os.path.getsize(Layout(tmp_path).run_lock) == 0


def test_an_error_leaves_as_cleanly_as_anything_else(tmp_path):
    with pytest.raises(ValueError, match="x"), lock.hold(Layout(tmp_path)):
        raise ValueError("x")
    with lock.hold(Layout(tmp_path)) as held:
        assert held.last is None


def test_asking_for_the_holder_takes_no_lock(tmp_path, monkeypatch):
    with lock.hold(Layout(tmp_path)):
        pass
    monkeypatch.setattr(lock.fcntl, "flock", None)
    assert lock.holder(Layout(tmp_path).run_lock) is None


def test_a_deleted_lock_is_locked_again(tmp_path):
    layout = Layout(tmp_path)
    with lock.hold(layout) as held:
        shutil.rmtree(layout.locks)
        assert held.lost() is None
        assert lock.holder(layout.run_lock)["pid"] == os.getpid()


def test_a_deleted_lock_that_another_process_took_is_lost(tmp_path):
    layout = Layout(tmp_path)
    with lock.hold(layout) as held:
        shutil.rmtree(layout.locks)
        with lock.hold(layout):
            assert f"pid {os.getpid()}" in held.lost()


def waiting(layout, ended):
    """Wait for the lock in a thread; tell how that ended."""

    def wait():
        try:
            with lock.hold(layout, wait=True):
                ended.append("held")
        except LockedError as error:
            ended.append(error.code)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_whoever_waits_is_seen_and_can_be_called_off(tmp_path, holder, monkeypatch):
    layout, ended = Layout(tmp_path), []
    monkeypatch.setattr(sys, "argv", ["x", "--json", "land", "a run", "--wait"])
    dead = layout.waiters / "wait-000000.json"
    dead.parent.mkdir()
    dead.write_text("{}")  # as of a process that was killed
    threads = [waiting(layout, ended) for _ in range(2)]
    first, second = wait_for(lambda: len(found := lock.waiters(layout)) == 2 and found)
    assert (first.line, first.pid) == ("treadle land 'a run' --wait", str(os.getpid()))
    assert first.since <= second.since
    assert not dead.exists()
    assert not lock.call_off_waiter(layout, "../run")
    assert lock.call_off_waiter(layout, first.name)
    wait_for(lambda: ended)
    assert ended == ["called_off"]
    holder.communicate()
    for thread in threads:
        thread.join()
    assert ended == ["called_off", "held"]
    assert list(layout.waiters.iterdir()) == []


def test_a_note_of_who_waits_is_whole_as_soon_as_it_can_be_seen(tmp_path, holder, monkeypatch):
    layout, ended, seen = Layout(tmp_path), [], []
    write = os.write

    def looking(descriptor, data):
        seen.extend(path.read_bytes() for path in layout.waiters.glob("*.json"))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", looking)
    thread = waiting(layout, ended)
    wait_for(lambda: lock.waiters(layout))
    holder.communicate()
    thread.join()
    assert ended == ["held"]
    assert b"" not in seen
