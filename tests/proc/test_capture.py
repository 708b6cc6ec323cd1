"""Helpers run to their end and their output is kept."""

import sys
import time

import pytest

from treadle.errors import NotFoundError, TreadleError
from treadle.proc import capture
from treadle.proc.capture import Captured


def test_output_and_code_are_kept():
    done = capture.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert done == Captured(3, b"out\n", b"err\n")


def test_input_folder_and_environment_are_used(tmp_path):
    done = capture.run(
        ["/bin/sh", "-c", "cat; pwd; echo $A"], cwd=tmp_path, env={"A": "b"}, stdin=b"in "
    )
    assert done.stdout.decode() == f"in {tmp_path}\nb\n"


def test_without_input_nothing_is_asked_of_the_terminal():
    assert capture.run(["cat"], timeout=10) == Captured(0, b"", b"")


def test_large_input_and_output_pass():
    data = b"x" * 3_000_000
    assert capture.run(["cat"], stdin=data).stdout == data


def test_input_that_nobody_reads_is_no_error():
    assert capture.run(["true"], stdin=b"x" * 3_000_000).returncode == 0


def test_helper_has_a_session_of_its_own():
    code = "import os; print(os.getsid(0) == os.getpid())"
    assert capture.run([sys.executable, "-c", code]).stdout == b"True\n"


def test_missing_program_is_named():
    with pytest.raises(NotFoundError, match="no-such-git is not installed"):
        capture.run(["no-such-git", "status"])


def test_missing_folder_is_named(tmp_path):
    with pytest.raises(NotFoundError, match="gone is not a folder"):
        capture.run(["true"], cwd=tmp_path / "gone")


def test_unusable_program_is_named(tmp_path):
    with pytest.raises(TreadleError, match="cannot be started"):
        capture.run([str(tmp_path)])


def test_late_helper_is_killed_with_its_children():
    begun = time.monotonic()
    with pytest.raises(TreadleError, match=r"sh did not finish within 0.2 s"):
        capture.run(["sh", "-c", "sleep 60 & sleep 60"], timeout=0.2)
    assert time.monotonic() - begun < 50


def test_slow_helper_gets_all_of_its_input():
    code = "import sys, time; time.sleep(1.2); sys.stdout.buffer.write(sys.stdin.buffer.read())"
    data = b"x" * 3_000_000
    assert capture.run([sys.executable, "-c", code], stdin=data).stdout == data
