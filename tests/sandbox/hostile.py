"""A child that tries everything it should not be able to do, and a few things that must work.

Run as `python hostile.py WORLD.json`; prints, for each attempt, "done" or why it failed.
"""

import json
import os
import socket
import threading

from hostile_base import STEP, TMP, VICTIM, program, read_one, write
from hostile_files import LOCKS, METADATA, READS, WRITES
from hostile_system import KERNEL, PROCESSES, SHARED, SOCKETS, TERMINALS


def threads():
    seen = []
    thread = threading.Thread(target=lambda: seen.append(1))
    thread.start()
    thread.join()
    assert seen


def executed():
    script = STEP / "script"
    script.write_text("#!/bin/sh\nexit 0\n")
    script.chmod(0o755)
    program(str(script))


def paired():
    left, right = socket.socketpair()
    left.send(b"x")
    assert right.recv(1) == b"x"


def moved_inside():
    (STEP / "a").write_text("x")
    (STEP / "sub").mkdir()
    (STEP / "a").rename(STEP / "sub/b")
    os.link(STEP / "sub/b", STEP / "c")
    (STEP / "d").symlink_to("c")
    for name in ("c", "d", "sub/b"):
        (STEP / name).unlink()


HONEST = {
    "write in the step": lambda: (STEP / "result").write_text("fine"),
    "move and link in the step": moved_inside,
    "write temporary files": lambda: (TMP / "x").write_text("fine"),
    "read the project": lambda: VICTIM.read_text(),
    "list the root": lambda: os.listdir("/"),
    "start a program": lambda: program("/bin/sh", "-c", "exit 0"),
    "start a program of its own": executed,
    "pair of sockets": paired,
    "threads": threads,
    "write to /dev/null": lambda: write("/dev/null"),
    "reopen its output": lambda: write("/dev/stderr"),
    "random numbers": lambda: read_one("/dev/urandom"),
    "signal a child": lambda: program("/bin/sh", "-c", "sleep 9 & kill $!"),
    "change its own rights": lambda: (STEP / "result").chmod(0o600),
}


def attempt(action):
    try:
        action()
    except Exception as error:  # noqa: BLE001  # whatever it is, it was no success
        return f"{type(error).__name__}: {error}"
    return "done"


def main():
    groups = {
        "honest": HONEST,
        "writes": WRITES,
        "reads": READS,
        "locks": LOCKS,
        "sockets": SOCKETS,
        "processes": PROCESSES,
        "shared": SHARED,
        "terminals": TERMINALS,
        "kernel": KERNEL,
        "metadata": {
            name: lambda act=act, path=path: act(path) for name, (path, act) in METADATA.items()
        },
    }
    found = {
        group: {name: attempt(action) for name, action in probes.items()}
        for group, probes in groups.items()
    }
    marked = {name: path for name, (path, _) in METADATA.items()}
    answers = {"answers": found, "marked": marked}
    (STEP / "answers.json").write_text(json.dumps(answers, indent=1))


if __name__ == "__main__":
    main()
