"""The process table is read the same way from /proc and from ps."""

import os
import subprocess

from treadle.proc import processes

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
    assert pids(processes.doomed(TABLE, 10, 11, set())) == [11, 12, 13, 20, 21, 30, 31]


def test_spared_families_are_left_alone():
    assert pids(processes.doomed(TABLE, 10, 0, {11})) == [20, 21]


def test_a_parent_loop_in_a_torn_table_ends():
    assert pids(processes.doomed([(5, 6, 5, True), (6, 5, 6, True)], 5, 0, set())) == [5, 6]


def test_ps_and_proc_agree():
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as child:
        mine = (child.pid, os.getpid(), child.pid, True)
        assert mine in processes.rows()
        assert mine in processes.rows_of_ps()
        child.kill()


def test_zombies_are_told_from_the_living():
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    states = [
        row[3]
        for table in (processes.rows(), processes.rows_of_ps())
        for row in table
        if row[0] == child.pid
    ]
    child.wait()
    assert states == [False, False]


def test_empty_group_does_not_exist():
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as child:
        assert processes.group_exists(child.pid)
        child.kill()
    assert not processes.group_exists(child.pid)
