"""Run a short helper program, such as git, and keep what it prints."""

import contextlib
import math
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from treadle.errors import NotFoundError, TreadleError
from treadle.proc import halt
from treadle.proc.captured import Captured as Captured

_TICK = 0.5  # seconds between two looks whether somebody wants this process to stop


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    timeout: float | None = None,
) -> Captured:
    """Run a helper in a session of its own, so that Ctrl-C does not end it halfway.

    One that goes on long after this process was asked to stop is ended as well.
    """
    process = _start(argv, cwd, env, stdin is not None)
    with process:
        try:
            stdout, stderr = _communicate(process, argv, stdin, timeout)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return Captured(process.returncode, stdout, stderr)


def _communicate(
    process: subprocess.Popen[bytes],
    argv: Sequence[str],
    stdin: bytes | None,
    timeout: float | None,
) -> tuple[bytes, bytes]:
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    begun = time.monotonic()
    while True:
        try:
            return process.communicate(stdin, min(deadline - time.monotonic(), _TICK))
        except subprocess.TimeoutExpired:
            if time.monotonic() >= deadline:
                raise TreadleError(
                    f"{argv[0]} did not finish within {timeout:g} s: {' '.join(argv)}",
                    code="helper_timeout",
                ) from None
            if halt.is_over(begun):
                text = f"{argv[0]} went on after treadle was asked to stop, and was ended"
                raise TreadleError(text, code="helper_stopped") from None


def _start(
    argv: Sequence[str], cwd: Path | None, env: Mapping[str, str] | None, is_fed: bool
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE if is_fed else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise NotFoundError(_missing(argv[0], cwd), code="program_missing") from error
    except OSError as error:
        text = f"{argv[0]} cannot be started ({error.strerror})"
        raise TreadleError(text, code="program_unusable") from error


def _missing(name: str, cwd: Path | None) -> str:
    if cwd and not cwd.is_dir():
        return f"{cwd} is not a folder, so {name} cannot work there"
    return f"{name} is not installed or not in PATH"
