"""Processes are found by the mark in their environment."""

import os
import subprocess
import sys

import pytest

from tests.proc.conftest import eventually, is_alive
from treadle.proc import sweep


@pytest.fixture
def marked():
    """Return a starter of marked processes that are collected after the test."""
    started = []

    def start(marker: str, *argv: str) -> int:
        env = {"PATH": os.environ["PATH"], sweep.MARKER: marker}
        started.append(subprocess.Popen(argv or ("sleep", "60"), env=env, start_new_session=True))
        return started[-1].pid

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_copied_folder_has_another_mark(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "copy" / "run").mkdir(parents=True)
    marks = [sweep.mark(tmp_path / "run"), sweep.mark(tmp_path / "copy" / "run")]
    assert marks[0] != marks[1]
    assert marks[0].startswith("run:")
    assert sweep.mark(tmp_path / "none") == "none"


def test_exactly_the_marked_ones_are_found(marked, tmp_path):
    mark = f"{tmp_path}/002-do"
    mine = [marked(mark), marked(mark)]
    marked(f"{mark}2")
    assert eventually(lambda: sorted(sweep.stragglers(mark)) == sorted(mine))


def test_this_process_never_finds_itself(tmp_path):
    code = "import sys; from treadle.proc import sweep; print(sweep.stragglers(sys.argv[1]))"
    env = {**os.environ, sweep.MARKER: str(tmp_path)}
    argv = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(argv, env=env, capture_output=True, check=True)
    assert done.stdout == b"[]\n"


def test_killed_ones_are_dead_on_return(marked, tmp_path):
    mark = str(tmp_path)
    pids = [marked(mark), marked(mark, "sh", "-c", "trap '' TERM; while :; do sleep 1; done")]
    assert eventually(lambda: set(pids) <= set(sweep.stragglers(mark)))
    assert sweep.end(mark) >= 2
    assert not any(map(is_alive, pids))


def test_end_leaves_nothing_and_counts(marked, tmp_path):
    mark = str(tmp_path)
    marked(mark, "sh", "-c", "sleep 60 & sleep 60 & wait")
    assert eventually(lambda: len(sweep.stragglers(mark)) == 3)
    assert sweep.end(mark) == 3
    assert sweep.stragglers(mark) == []


def test_listing_of_ps_is_understood():
    listing = b"  12 sleep 60 PATH=/bin TREADLE_STEP=m\n 13 sleep TREADLE_STEP=mm\n 14 x\n"
    assert sweep.of_ps(listing, b"TREADLE_STEP=m") == [12]


TABLE = [
    (1, 0, 1, True),
    (10, 1, 10, True),  # the root
    (11, 10, 11, True),
    (12, 11, 11, True),
    (13, 12, 13, False),
    (20, 10, 20, True),
    (21, 20, 20, True),
    (30, 1, 11, True),  # an orphan that stayed in the group
    (31, 30, 31, True),
    (40, 1, 40, True),
]


def pids(found):
    return sorted(row[0] for row in found)


def test_doomed_are_the_descendants_and_the_group_with_its_families():
    assert pids(sweep.doomed(TABLE, 10, 11, set())) == [11, 12, 13, 20, 21, 30, 31]


def test_spared_families_are_left_alone():
    assert pids(sweep.doomed(TABLE, 10, 0, {11})) == [20, 21]


def test_a_parent_loop_in_a_torn_table_ends():
    assert pids(sweep.doomed([(5, 6, 5, True), (6, 5, 6, True)], 5, 0, set())) == [5, 6]


def test_ps_and_proc_agree():
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as child:
        mine = (child.pid, os.getpid(), child.pid, True)
        assert mine in sweep.rows()
        assert mine in sweep.rows_of_ps()
        child.kill()


def test_zombies_are_told_from_the_living():
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    states = [
        row[3]
        for table in (sweep.rows(), sweep.rows_of_ps())
        for row in table
        if row[0] == child.pid
    ]
    child.wait()
    assert states == [False, False]


def test_empty_group_does_not_exist():
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as child:
        assert sweep.send(-child.pid, 0)
        child.kill()
    assert not sweep.send(-child.pid, 0)
