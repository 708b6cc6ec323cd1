"""A command that is attended hears when it is to stop, once."""

import os
import signal
import sys
from pathlib import Path

from treadle.proc.attend import attend

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
    assert attend(argv, Path("/"), os.environ, lambda: None) == 7


def test_a_signal_is_passed_on_once(tmp_path):
    ready = tmp_path / "ready"

    def stop():
        return signal.SIGTERM if ready.exists() else None

    argv = [sys.executable, "-c", COUNT, str(ready)]
    assert attend(argv, tmp_path, os.environ, stop) == 41
