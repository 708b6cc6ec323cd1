"""Helpers say all they have to say; attended ones hear when to stop, detached ones go on."""

import errno
import os
import signal
import sys
import time

import pytest

from tests.builder import wait_for
from treadle.errors import NotFoundError, TreadleError
from treadle.proc import environment, helper

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


def test_a_container_that_refuses_handles_of_processes_is_no_obstacle(monkeypatch):
    def refuse(pid):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)
    assert helper.run(["/bin/echo", "heard"], os.environ).stdout == b"heard\n"


def test_a_missing_program_is_named_and_leaves_nothing_open():
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(NotFoundError, match="no-such-program is not installed"):
        helper.run(["no-such-program"], os.environ)
    helper.run(["/bin/true"], os.environ)
    assert len(os.listdir("/dev/fd")) == before


def test_only_the_given_variables_are_there():
    done = helper.run(["/bin/sh", "-c", "cat; echo $A $HOME"], {"A": "b"}, b"in ")
    assert done.stdout == b"in b\n"


def test_a_helper_has_a_session_of_its_own():
    code = "import os; print(os.getsid(0) == os.getpid())"
    assert helper.run([sys.executable, "-c", code], os.environ).stdout == b"True\n"


def test_an_unusable_program_is_named(tmp_path):
    with pytest.raises(TreadleError, match="is not installed or not in PATH"):
        helper.run([str(tmp_path)], os.environ)
    broken = tmp_path / "broken"
    broken.write_bytes(b"\0")
    broken.chmod(0o755)
    with pytest.raises(TreadleError, match="cannot be started"):
        helper.run([str(broken)], os.environ)


def test_a_late_helper_is_killed_with_its_children():
    begun = time.monotonic()
    with pytest.raises(TreadleError, match=r"sh did not finish within 0.2 s"):
        helper.run(["sh", "-c", "sleep 60 & sleep 60"], os.environ, timeout=0.2)
    assert time.monotonic() - begun < 50


def test_a_slow_helper_gets_all_of_its_input():
    code = "import sys, time; time.sleep(1.2); sys.stdout.buffer.write(sys.stdin.buffer.read())"
    data = b"x" * 3_000_000
    assert helper.run([sys.executable, "-c", code], os.environ, data).stdout == data


@pytest.mark.parametrize("script", ["while :; do echo x; done", "exec <&- >&- 2>&-; sleep 60"])
def test_a_helper_that_talks_for_ever_or_stays_without_a_word_is_ended(script):
    with pytest.raises(TreadleError, match="did not finish within"):
        helper.run(["/bin/sh", "-c", script], os.environ, timeout=0.3)


COUNT = """
import signal, sys, time
heard = []
signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
open(sys.argv[1], "w").close()
while not heard: time.sleep(.01)
time.sleep(.5)
sys.exit(40 + len(heard))
"""


def test_the_exit_code_is_returned():
    argv = [sys.executable, "-c", "raise SystemExit(7)"]
    assert helper.attend(argv, os.environ, lambda: None) == 7


def test_a_signal_is_passed_on_once(tmp_path):
    ready = tmp_path / "ready"

    def stop():
        return signal.SIGTERM if ready.exists() else None

    argv = [sys.executable, "-c", COUNT, str(ready)]
    assert helper.attend(argv, os.environ, stop) == 41


def test_a_quick_one_is_heard():
    found = helper.detach(["sh", "-c", "echo yes; echo no >&2; exit 3"], os.environ, 60)
    assert found == (3, b"yes\n", b"no\n")


def test_a_treadle_beside_this_one_stands_outside(tmp_path, monkeypatch):
    monkeypatch.setattr(
        environment,
        "_COMMAND",
        f"{environment._COMMAND.rpartition('from')[0]}print(os.getcwd(), treadle.here)",
    )
    found = helper.detach(*environment.treadle_command([], tmp_path, os.environ), 60)
    assert found == (0, f"/ {tmp_path}\n".encode(), b"")


def test_a_slow_one_goes_on_by_itself(tmp_path):
    done = tmp_path / "done"
    assert helper.detach(["sh", "-c", f"sleep 0.3; touch {done}"], os.environ, 0.01) is None
    wait_for(done.exists)
