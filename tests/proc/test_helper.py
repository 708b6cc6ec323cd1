"""Helpers of hurried commands say all they have to say."""

import os
import sys

import pytest

from treadle.errors import NotFoundError
from treadle.proc import helper

ECHO = "import sys; data = sys.stdin.buffer.read(); sys.stdout.buffer.write(data[::-1])"
LOUD = "import sys; sys.stderr.write('e' * 300_000); sys.stdout.write('o' * 300_000); sys.exit(3)"


def test_much_goes_in_and_out_without_waiting_for_each_other():
    data = os.urandom(1 << 20)
    done = helper.run([sys.executable, "-c", ECHO], os.environ, data)
    assert (done.returncode, done.stdout, done.stderr) == (0, data[::-1], b"")


def test_both_outputs_and_the_exit_code_are_kept():
    done = helper.run([sys.executable, "-c", LOUD], os.environ)
    assert (done.returncode, len(done.stdout), len(done.stderr)) == (3, 300_000, 300_000)


def test_a_helper_that_does_not_listen_is_no_error():
    done = helper.run(["/bin/true"], os.environ, b"x" * (1 << 20))
    assert done.returncode == 0


def test_a_signal_is_a_negative_code():
    assert helper.run(["/bin/sh", "-c", "kill -9 $$"], os.environ).returncode == -9


def test_a_missing_program_is_named_and_leaves_nothing_open():
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(NotFoundError, match="no-such-program is not installed"):
        helper.run(["no-such-program"], os.environ)
    helper.run(["/bin/true"], os.environ)
    assert len(os.listdir("/dev/fd")) == before
