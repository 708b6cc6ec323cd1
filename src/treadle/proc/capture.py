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
from treadle.proc import helper
from treadle.proc.helper import Captured as Captured


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
            deadline = time.monotonic() + timeout if timeout else math.inf
            stdout, stderr = helper.talk(_ends(process), stdin or b"", deadline)
            process.wait(None if timeout is None else max(deadline - time.monotonic(), 0))
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise helper.explain(error, argv, timeout) from error
    return Captured(process.returncode, stdout, stderr)


def _ends(process: subprocess.Popen[bytes]) -> tuple[int, int, int]:
    """Return descriptors of our ends of the pipes, for whoever closes them."""
    into, *others = (
        os.dup(pipe.fileno()) if pipe else os.open(os.devnull, os.O_WRONLY)
        for pipe in (process.stdin, process.stdout, process.stderr)
    )
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()
    return into, others[0], others[1]


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
