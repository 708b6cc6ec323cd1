"""An agent cannot end the processes that watch it, nor slow them down."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.proc.keeper import Command, Keeper, Limits
from treadle.sandbox import jails
from treadle.sandbox.policy import Policy

ATTACK = """
import ctypes, json, os, resource, signal, sys
shim = os.getppid()
stat = open(f"/proc/{shim}/stat").read() if os.path.exists(f"/proc/{shim}/stat") else ""
keeper = int(stat.rpartition(")")[2].split()[1]) if stat else 0
libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"
def call(x86, arm, *args):
    if libc.syscall(x86 if X86 else arm, *args) < 0:
        raise OSError(ctypes.get_errno(), "")
done = []
for pid in (shim, keeper, int(sys.argv[1])):
    for name, act in {
        "cpu": lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (0, 0)),
        "files": lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0)),
        "memory": lambda: resource.prlimit(pid, resource.RLIMIT_AS, (4096, 4096)),
        "kill": lambda: os.kill(pid, signal.SIGKILL),
        "stop": lambda: os.kill(pid, signal.SIGSTOP),
        "queue": lambda: call(129, 138, pid, signal.SIGKILL, ctypes.create_string_buffer(128)),
        "pidfd": lambda: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGKILL),
        "affinity": lambda: os.sched_setaffinity(pid, {0}),
        "idle": lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)),
        "param": lambda: os.sched_setparam(pid, os.sched_param(0)),
        "attr": lambda: call(314, 274, pid, ctypes.create_string_buffer(b"\\x30", 48), 0),
        "nice": lambda: os.setpriority(os.PRIO_PROCESS, pid, 19),
        "group": lambda: os.setpriority(os.PRIO_PGRP, os.getpgid(pid), 19),
        "user": lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19),
        "disk": lambda: call(251, 30, 1, pid, 3 << 13),
        "pages": lambda: call(256, 238, pid, 8, b"\\x01" * 8, b"\\x01" * 8),
    }.items():
        try:
            act()
        except (OSError, ValueError):
            continue
        done.append([name, pid])
print(json.dumps(done))
"""


@pytest.mark.skipif(jails.probe("B").tier != "B", reason="TIER B CANNOT RUN HERE")
def test_shim_and_keeper_cannot_be_ended_by_an_agent(tmp_path):
    """In tier A an agent sees no process but its own."""
    out = tmp_path / "out"
    held = jails.jail_for("B", Policy((tmp_path,)))
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        with Keeper() as keeper:
            keeper.start()
            before = keeper.pid
            argv = (sys.executable, "-S", "-c", ATTACK, str(bystander.pid))
            command = Command(argv, Path("/"), {"HOME": "/"}, None, out, out, Limits(wall=60), held)
            ended = keeper.run(command)
            assert (ended.reason, ended.exit_code, keeper.pid) == ("exit", 0, before)
        assert json.loads(out.read_text()) == []
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
