"""Run a command to its end, and pass on when it is to stop."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_PAUSE = 0.1


def attend(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], stop: Callable[[], int | None]
) -> int:
    """Return a command's exit code; `stop` gives the signal that it is sent, once.

    It has a session of its own, so that Ctrl-C reaches it through us and not twice.
    """
    process = subprocess.Popen(
        argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, start_new_session=True
    )
    is_told = False
    while True:
        try:
            return process.wait(_PAUSE)
        except subprocess.TimeoutExpired:
            number = None if is_told else stop()
            if number is not None:
                process.send_signal(number)
                is_told = True
