"""Commands beside this one: attended ones hear when to stop, detached ones go on."""

import os
import signal
import sys

from tests.builder import wait_for
from treadle.proc import environment
from treadle.proc.helper import attend, detach

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
    assert attend(argv, os.environ, lambda: None) == 7


def test_a_signal_is_passed_on_once(tmp_path):
    ready = tmp_path / "ready"

    def stop():
        return signal.SIGTERM if ready.exists() else None

    argv = [sys.executable, "-c", COUNT, str(ready)]
    assert attend(argv, os.environ, stop) == 41


def test_a_quick_one_is_heard():
    found = detach(["sh", "-c", "echo yes; echo no >&2; exit 3"], os.environ, 60)
    assert found == (3, b"yes\n", b"no\n")


def test_a_treadle_beside_this_one_stands_outside(tmp_path, monkeypatch):
    monkeypatch.setattr(
        environment,
        "_COMMAND",
        f"{environment._COMMAND.rpartition('from')[0]}print(os.getcwd(), treadle.here)",
    )
    found = detach(*environment.treadle_command([], tmp_path, os.environ), 60)
    assert found == (0, f"/ {tmp_path}\n".encode(), b"")


def test_a_slow_one_goes_on_by_itself(tmp_path):
    done = tmp_path / "done"
    assert detach(["sh", "-c", f"sleep 0.3; touch {done}"], os.environ, 0.01) is None
    wait_for(done.exists)
