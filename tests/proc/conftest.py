"""Build commands that run real programs, and ask whether processes are alive."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from treadle.proc.keeper import Command, Keeper, Limits

SRC = Path(__file__).parents[2] / "src"

# Leaves a daemon: two forks, a session of its own, deaf to polite signals.
DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        with open(sys.argv[1] + ".tmp", "w") as file:
            file.write(str(os.getpid()))
        os.rename(sys.argv[1] + ".tmp", sys.argv[1])
        time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists(sys.argv[1]):
    time.sleep(0.002)
"""


@pytest.fixture
def keeper():
    """Return a keeper that is closed after the test."""
    with Keeper() as keeper:
        yield keeper


@pytest.fixture
def command(tmp_path):
    """Return a maker of commands whose output goes to `out` and `err` in the test's folder."""

    def make(*argv: str, env: dict[str, str] | None = None, **limits) -> Command:
        env = {"PATH": os.environ["PATH"], **(env or {})}
        out, err = tmp_path / "out", tmp_path / "err"
        return Command(tuple(argv), tmp_path, env, None, out, err, Limits(**limits))

    return make


@pytest.fixture
def python(command):
    """Return a maker of commands that run a piece of Python."""
    return lambda code, *args, **more: command(sys.executable, "-S", "-c", code, *args, **more)


def is_alive(pid: int) -> bool:
    """Tell whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def eventually(happens, seconds: float = 60.0) -> bool:
    """Poll until something is true or time is up."""
    deadline = time.monotonic() + seconds
    while not happens():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def once(path: Path, text: str = "\n", count: int = 1):
    """Return the wish to stop as soon as a text stands in a file so many times."""

    def should_stop() -> str | None:
        said = path.read_text().count(text) if path.exists() else 0
        return "asked from another terminal" if said >= count else None

    return should_stop


def children(pid: int) -> list[int]:
    """Return the processes whose parent is `pid`."""
    listing = subprocess.run(
        ["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=True
    )
    pairs = [line.split() for line in listing.stdout.splitlines()]
    return [int(child) for child, parent in pairs if int(parent) == pid]


def orchestrate(code: str, *args: str) -> subprocess.Popen:
    """Start another orchestrator: a Python that runs `code` in a session of its own."""
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    return subprocess.Popen(
        [sys.executable, "-c", code, *args], env=env, stdout=subprocess.PIPE, start_new_session=True
    )
