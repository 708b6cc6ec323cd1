"""What every hostile attempt needs: the world it is in, raw system calls, small tools."""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

W = json.loads(Path(sys.argv[1]).read_text())
STEP, TMP, REPO, HOME, SHARED = (Path(W[it]) for it in ("step", "tmp", "repo", "home", "shared"))
VICTIM = Path(W["victim"])
OTHERS = {"treadle": W["orchestrator"], "the keeper": W["keeper"], "a bystander": W["bystander"]}
if W["tier"] == "B":
    OTHERS["the shim"] = os.getppid()
LIBC = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"


def call(x86, arm, *args):
    """Make a system call by number; an error becomes an exception."""
    result = LIBC.syscall(x86 if X86 else arm, *args)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def buffer(data=b"", size=128):
    return ctypes.create_string_buffer(data, size)


def write(path, flags=os.O_WRONLY, data=b"owned", **more):
    fd = os.open(path, flags | os.O_CLOEXEC, 0o644, **more)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def opened(path, flags=os.O_RDONLY):
    os.close(os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY))


def read_one(path):
    with open(path, "rb") as file:
        if not file.read(1):
            raise OSError(0, "empty")


def program(*argv, cwd=None):
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise OSError(done.returncode, (done.stderr or done.stdout).strip()[-80:])


def own(name, text="x"):
    """Make a file in the step and return it."""
    path = STEP / name
    path.write_text(text)
    return path
