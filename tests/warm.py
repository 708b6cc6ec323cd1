"""Start commands from an interpreter that has loaded treadle already.

Tests start thousands of commands, and most of a short one is loading its modules. Each command is
still a process of its own with its own arguments, folder, environment and streams. Those that are
killed, started beside others, installed or run by another user start cold.
"""

import atexit
import contextlib
import functools
import gc
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from treadle.cli.main import main

# What an interpreter, and treadle, reads only once, when it starts.
AT_START = ("PYTHON", "LC_", "LANG", "LD_", "TZ", "TREADLE_DIE_AT")
MODULES = (
    *("desk", "inbox", "invoke", "mail", "mission", "mission_status", "next", "output", "process"),
    *("report", "run", "runs", "setup", "status", "task", "verify", "waiting"),
)


def _at_start(env: Mapping[str, str]) -> list[tuple[str, str]]:
    names = env.keys() - {"PYTHONDONTWRITEBYTECODE"}  # which no test's commands get
    return sorted((name, env[name]) for name in names if name.startswith(AT_START))


_OURS = _at_start(os.environ)


def can_start(env: Mapping[str, str]) -> bool:
    """Tell whether the warm interpreter is what a new one would be."""
    return _at_start(env) == _OURS


def run(args: tuple[str, ...], cwd: Path, env: Mapping[str, str], timeout: float):
    """Run a command of treadle to its end, as `subprocess.run` would."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(_server())
        outputs = [_Output(), _Output()]
        streams = [os.open(os.devnull, os.O_RDONLY), *(it.theirs for it in outputs)]
        asked = json.dumps([args, str(cwd), {**env}]).encode()
        socket.send_fds(line, [len(asked).to_bytes(8, "big")], streams)
        line.sendall(asked)
        for number in streams:
            os.close(number)
        with line.makefile("r") as said:
            pid = int(said.readline())
            line.settimeout(timeout)
            try:
                code = int(said.readline())
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(args, timeout) from None
        return subprocess.CompletedProcess(args, code, *(it.text() for it in outputs))


class _Output:
    """What a command writes to one of its streams, read while it works."""

    def __init__(self):
        ours, self.theirs = os.pipe()
        self._parts = []
        self._reader = threading.Thread(target=self._read, args=(ours,), daemon=True)
        self._reader.start()

    def _read(self, number):
        with open(number, "rb") as stream:
            self._parts.append(stream.read())

    def text(self) -> str:
        self._reader.join()
        return b"".join(self._parts).decode().replace("\r\n", "\n").replace("\r", "\n")


@functools.cache
def _server() -> str:
    """Start the warm interpreter, once in a process, and return its address."""
    folder = tempfile.mkdtemp(prefix="treadle-warm-", dir="/tmp")
    address = f"{folder}/socket"
    words = [sys.executable, "-P", __file__, address]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(process.kill)
    while not os.path.exists(address):
        assert process.poll() is None, "the warm interpreter ended"
        time.sleep(0.01)
    return address


def serve(address: str) -> None:
    """Fork for each connection, as long as whoever started this lives."""
    for name in MODULES:
        __import__(f"treadle.cli.{name}")
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    parent, listener = os.getppid(), socket.socket(socket.AF_UNIX)
    listener.bind(f"{address}.new")
    listener.listen(64)
    listener.settimeout(2)
    os.rename(f"{address}.new", address)
    while os.getppid() == parent:
        with contextlib.suppress(TimeoutError):
            line, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _attend(line)
            line.close()


def _attend(line: socket.socket) -> None:
    """Start what is asked for, say which process it is and how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    line.settimeout(None)
    head, streams, _, _ = socket.recv_fds(line, 8, 3)
    with line.makefile("rb") as stream:
        asked = json.loads(stream.read(int.from_bytes(head, "big")))
    if (pid := os.fork()) == 0:
        line.close()
        _become(*asked, streams)
    for number in streams:
        os.close(number)
    with contextlib.suppress(OSError):
        line.sendall(f"{pid}\n".encode())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        line.sendall(f"{code}\n".encode())
    os._exit(0)


def _become(args: list[str], cwd: str, env: dict[str, str], streams: list[int]) -> None:
    """Be the command, with its own streams, environment, folder and arguments."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = ["treadle", *args]
    try:
        code = main()
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:  # noqa: BLE001  # what an interpreter does that ends
        sys.excepthook(*sys.exc_info())
        code = 1
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
