"""A command that fills its folder is stopped, and counting it stays cheap."""

import os
from pathlib import Path

from treadle.proc import watch
from treadle.proc.command import Jail
from treadle.proc.keeper import Command, Keeper, Limits


def run(tmp_path, script, **limits):
    folder = tmp_path / "step"
    folder.mkdir()
    bounds = Limits(wall=60, disk=(folder,), **limits)
    out = tmp_path / "out"
    with Keeper() as keeper:
        return keeper.run(
            Command(("sh", "-c", script), folder, dict(os.environ), None, out, out, bounds)
        )


def test_a_hog_is_stopped(tmp_path):
    ended = run(tmp_path, "while :; do head -c 1M /dev/zero >> big; done", disk_bytes=20 << 20)
    assert ended.reason == "disk_limit"
    assert "20 MiB" in ended.detail
    assert (tmp_path / "step/big").stat().st_size > 20 << 20


def test_many_small_files_are_stopped_too(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "_MAX_ENTRIES", 300)
    script = "n=0; while :; do n=$((n+1)); : > $n; done"
    ended = run(tmp_path, script, disk_bytes=1 << 40)
    assert ended.reason == "disk_limit"
    assert "more than 300 files" in ended.detail


def test_a_hole_takes_no_space(tmp_path):
    ended = run(tmp_path, "truncate -s 1T hole; sleep 0.3", disk_bytes=20 << 20)
    assert (ended.reason, ended.exit_code) == ("exit", 0)


def test_what_vanishes_does_not_count(tmp_path):
    assert watch.usage(Path(tmp_path / "missing")) == (0, 0)


def test_a_sandbox_that_is_not_up_yet_takes_no_memory(tmp_path):
    """Until then its processes see the machine's own folders, on a disk that holds much."""
    wrapper = ("/bin/sh", "-c", 'shift; sleep 0.5; exec "$@"', "--tmpfs", "/usr")
    command = Command(
        ("true",), tmp_path, dict(os.environ), None, tmp_path / "out", tmp_path / "out",
        Limits(20, memory_bytes=1 << 28), Jail(wrapper=wrapper),
    )  # fmt: skip
    with Keeper() as keeper:
        assert keeper.run(command).reason == "exit"
