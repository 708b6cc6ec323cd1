"""Kill an orchestrator whose child tries to outlive it, and look for what is left."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.crash.experiments import Report
from treadle.proc import sweep
from treadle.proc.keeper import Command, Keeper
from treadle.sandbox import jails
from treadle.sandbox.policy import Policy

_PATIENCE = 60.0  # a busy machine kills slowly; how long it took is told

# Ignore every signal, fork twice into a session of its own, and do so again and again.
_CHILD = """
import os, signal, sys, time
for number in (1, 2, 3, 15): signal.signal(number, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            open(os.path.join(sys.argv[1], str(os.getpid())), "w").close()
            time.sleep(600)
        os._exit(0)
time.sleep(600)
"""


def tiers() -> list[str]:
    """Return every tier that works here, and none."""
    return ["0", *(tier for tier in ("B", "A") if jails.probe(tier).tier == tier)]


def trials(number: int, at_once: int = 2) -> Report:
    """Kill so many orchestrators, some at a time, in one tier after the other."""
    broken: list[str] = []
    slowest = 0.0
    order = [tiers()[turn % len(tiers())] for turn in range(number)]
    with tempfile.TemporaryDirectory(prefix="survivors-") as scratch:
        for start in range(0, number, at_once):
            batch = order[start : start + at_once]
            seconds, left = _batch(Path(scratch) / str(start), batch)
            slowest = max(slowest, seconds)
            broken += left
    note = f"the last process was dead {slowest:.2f} s after its orchestrator, tiers {tiers()}"
    return Report("kill the orchestrator", number, broken, [note])


def _batch(folder: Path, batch: list[str]) -> tuple[float, list[str]]:
    marks = {f"survivor-{os.getpid()}-{folder.name}-{n}": tier for n, tier in enumerate(batch)}
    owners = [_start(folder / mark, tier, mark) for mark, tier in marks.items()]
    deadline = time.monotonic() + 180
    while not all(len(list((folder / mark).glob("[0-9]*"))) >= 3 for mark in marks):
        if time.monotonic() > deadline:
            raise TimeoutError("the children did not come up")
        time.sleep(0.02)
    for owner in owners:
        owner.kill()
    killed, left = time.monotonic(), dict(marks)
    while left and time.monotonic() < killed + _PATIENCE:
        left = {mark: tier for mark, tier in left.items() if sweep.stragglers(mark)}
    seconds = time.monotonic() - killed
    for owner in owners:
        owner.wait()
    for mark in left:
        sweep.end(mark)
    return seconds, [f"tier {tier}: {mark} is still alive" for mark, tier in left.items()]


def _start(folder: Path, tier: str, mark: str) -> "subprocess.Popen[bytes]":
    folder.mkdir(parents=True)
    argv = [sys.executable, "-m", "tests.crash.survivors", str(folder), tier, mark]
    return subprocess.Popen(argv, start_new_session=True)


def _own(folder: Path, tier: str, mark: str) -> None:
    """Be an orchestrator with one command."""
    env = {"PATH": os.environ["PATH"], sweep.MARKER: mark}
    out = folder / "out"
    command = Command(
        (sys.executable, "-S", "-c", _CHILD, str(folder)), folder, env, None, out, out,
        jail=jails.jail_for(tier, Policy((folder,))),
    )  # fmt: skip
    with contextlib.suppress(KeyboardInterrupt), Keeper() as keeper:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        keeper.run(command)


if __name__ == "__main__":
    _own(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
