"""Start commands that go on beside this process: attended, detached, or shown to the user.

They stand outside of every repository, so that nothing in one can be taken for a part of them.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import IO

from treadle.errors import TreadleError
from treadle.proc.helper import Captured

_PAUSE = 0.1
_DESKTOP = 3.0  # seconds for the desktop to say that it cannot


def attend(argv: Sequence[str], env: Mapping[str, str], stop: Callable[[], int | None]) -> int:
    """Return a command's exit code; `stop` gives the signal that it is sent, once.

    It has a session of its own, so that Ctrl-C reaches it through us and not twice.
    """
    process = _start(argv, env)
    is_told = False
    while True:
        try:
            return process.wait(_PAUSE)
        except subprocess.TimeoutExpired:
            number = None if is_told else stop()
            if number is not None:
                process.send_signal(number)
                is_told = True


def detach(argv: Sequence[str], env: Mapping[str, str], patience: float) -> Captured | None:
    """Return what a command said, or None if it still works after `patience` seconds."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = _start(argv, env, out, err)
        try:
            code = process.wait(patience)
        except subprocess.TimeoutExpired:
            # Somebody must take note of its end, or it would stay in the process table.
            Thread(target=process.wait, daemon=True).start()
            return None
        out.seek(0)
        err.seek(0)
        return Captured(code, out.read(), err.read())


def show(path: Path) -> None:
    """Ask the desktop to open a file, in the user's browser most likely."""
    program = "open" if sys.platform == "darwin" else "xdg-open"
    try:
        detach([program, str(path)], os.environ, _DESKTOP)
    except OSError as error:
        raise TreadleError(
            f"{program} cannot be started ({error.strerror}); open the link by hand",
            code="program_unusable",
        ) from error


def _start(
    argv: Sequence[str],
    env: Mapping[str, str],
    out: IO[bytes] | None = None,
    err: IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    nothing = subprocess.DEVNULL
    return subprocess.Popen(
        argv, cwd="/", env=env, stdin=nothing, stdout=out, stderr=err, start_new_session=True
    )
