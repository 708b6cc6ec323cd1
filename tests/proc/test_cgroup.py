"""Where the kernel counts for us, it holds a command's memory and processes, and ends them all."""

import os
from pathlib import Path

import pytest

from tests.proc.conftest import eventually, is_alive
from treadle.proc import sweep
from treadle.proc.keeper import Command, Limits


def needs(controller):
    """Skip, and say so loudly, where no group with this controller can be made."""
    above = sweep._places()[1]
    known = Path(above, "cgroup.subtree_control").read_text().split() if above else []
    reason = f"NO CGROUP V2 WITH {controller.upper()} CAN BE HAD HERE"
    return pytest.mark.skipif(controller not in known, reason=reason)


def run(keeper, folder, script, **limits):
    out = folder / "out"
    argv = ("sh", "-c", script)
    return keeper.run(Command(argv, folder, dict(os.environ), None, out, out, Limits(60, **limits)))


def groups():
    return [item.name for item in Path(sweep._places()[1]).glob("treadle-*")]


@needs("memory")
def test_memory_is_held_and_told(keeper, tmp_path):
    hog = "python3 -S -c 'a = []\nwhile 1: a.append(bytearray(1 << 20))' & wait; sleep 600"
    ended = run(keeper, tmp_path, hog, memory_bytes=64 << 20)
    assert (ended.reason, ended.vouched) == ("memory_limit", True)
    assert "more than 64 MiB of memory; raise sandbox.memory_mb" in ended.detail
    assert groups() == []


@needs("memory")
def test_what_fits_goes_on_in_a_group_of_its_own(keeper, tmp_path):
    ended = run(keeper, tmp_path, "cat /proc/self/cgroup; exit 3", memory_bytes=64 << 20)
    assert (ended.reason, ended.exit_code) == ("exit", 3)
    assert "/treadle-" in (tmp_path / "out").read_text()
    assert groups() == []


@needs("pids")
def test_no_process_beyond_the_limit_is_ever_born(keeper, tmp_path):
    ended = run(keeper, tmp_path, "while :; do sleep 600 & done", processes=50)
    assert (ended.reason, ended.vouched) == ("process_limit", True)
    assert ended.stragglers < 50
    assert groups() == []


@needs("pids")
def test_what_a_killed_shim_leaves_is_ended_with_its_group(keeper, tmp_path):
    kill = "setsid sleep 600 & echo $! > left; kill -9 $PPID; sleep 600"
    ended = run(keeper, tmp_path, kill, processes=50)
    assert (ended.reason, ended.vouched) == ("lost", True)
    assert not is_alive(int((tmp_path / "left").read_text()))
    assert eventually(lambda: groups() == [])


@needs("pids")
def test_without_limits_there_is_no_group(keeper, tmp_path):
    run(keeper, tmp_path, "cat /proc/self/cgroup")
    assert "treadle-" not in (tmp_path / "out").read_text()


def test_no_limits_are_lost_where_no_group_can_be_had(keeper, tmp_path):
    """Whoever counts, the end is the same."""
    hog = "python3 -S -c 'a = []\nwhile 1: a.append(bytearray(1 << 20))'"
    assert run(keeper, tmp_path, hog, memory_bytes=64 << 20).reason == "memory_limit"
    assert run(keeper, tmp_path, "while :; do sleep 600 & done", processes=50).reason == (
        "process_limit"
    )
