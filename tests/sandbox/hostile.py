"""A child that tries everything it should not be able to do, and a few things that must work.

Run as `python hostile.py WORLD.json`; prints, for each attempt, "done" or why it failed.
"""

import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

W = json.loads(Path(sys.argv[1]).read_text())
STEP, TMP, REPO, HOME = (Path(W[name]) for name in ("step", "tmp", "repo", "home"))
VICTIM, ORCHESTRATOR = Path(W["victim"]), W["orchestrator"]
LIBC = ctypes.CDLL(None, use_errno=True)
HERE = os.uname().machine
X86 = HERE == "x86_64"


def call(x86, arm, *args):
    """Make a system call by number; an error becomes an exception."""
    result = LIBC.syscall(x86 if X86 else arm, *args)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def write(path, flags=os.O_WRONLY, data=b"owned"):
    fd = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def through_link():
    link = STEP / "link"
    link.symlink_to(VICTIM)
    try:
        write(link)
    finally:
        link.unlink()


def through_folder_link():
    link = STEP / "folder"
    link.symlink_to(VICTIM.parent)
    try:
        write(link / VICTIM.name)
    finally:
        link.unlink()


def reopened():
    fd = os.open(VICTIM, os.O_RDONLY)
    write(f"/proc/self/fd/{fd}")


def mapped():
    fd = os.open(VICTIM, os.O_RDWR)
    mmap.mmap(fd, 0)[:1] = b"X"


def nameless():
    fd = os.open(VICTIM.parent, os.O_TMPFILE | os.O_WRONLY, 0o644)
    os.link(f"/proc/self/fd/{fd}", VICTIM.parent / "nameless", follow_symlinks=True)


def renamed_step():
    STEP.rename(f"{STEP}-gone")
    Path(f"{STEP}-gone").rename(STEP)


def exchanged():
    own = STEP / "own"
    own.write_text("x")
    call(316, 276, -100, os.fsencode(own), -100, os.fsencode(VICTIM), 2)


def renamed_in():
    VICTIM.rename(STEP / "stolen")
    (STEP / "stolen").rename(VICTIM)


def renamed_out():
    own = STEP / "own2"
    own.write_text("x")
    own.rename(VICTIM.parent / "planted")


def linked_in():
    os.link(VICTIM, STEP / "hard")
    (STEP / "hard").write_text("owned")


def linked_out():
    own = STEP / "own3"
    own.write_text("x")
    os.link(own, VICTIM.parent / "hard")


def program(*argv, cwd=None):
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise OSError(done.returncode, (done.stderr or done.stdout).strip()[-80:])


def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as sock:
        sock.settimeout(3)
        sock.connect(address)
        sock.send(b"hello")


def traced():
    call(101, 117, 16, ORCHESTRATOR, 0, 0)
    call(101, 117, 17, ORCHESTRATOR, 0, 0)


def peeked():
    buffer = ctypes.create_string_buffer(8)
    vector = struct.pack("PN", ctypes.addressof(buffer), 8)
    remote = struct.pack("PN", id(0), 8)
    call(310, 270, ORCHESTRATOR, vector, 1, remote, 1, 0)


def read_one(path):
    with open(path, "rb") as file:
        if not file.read(1):
            raise OSError(0, "empty")


def taken_descriptor():
    fd = call(434, 434, ORCHESTRATOR, 0)
    call(438, 438, fd, 0, 0)


def cloned(flags):
    pid = call(56, 220, flags | signal.SIGCHLD, None, None, None, None)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def by_handle():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount = ctypes.c_int()
    call(303, 264, -100, os.fsencode(VICTIM), handle, ctypes.byref(mount), 0)
    at = os.open("/", os.O_RDONLY)
    os.write(call(304, 265, at, handle, os.O_RDWR), b"owned")


def typed():
    fcntl.ioctl(0, 0x5412, b"x")


def daemon():
    """Write late from a process that nobody is the parent of; the test looks for it."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with contextlib.suppress(OSError):
                for fd in (0, 1, 2):
                    os.close(fd)
            time.sleep(float(W["late"]))
            (STEP / "late").write_text("still here")
            os._exit(0)
        os._exit(0)
    raise OSError(0, "see afterwards")


def netlink():
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as sock:
        sock.bind((0, 0))


WRITES = {
    "overwrite": lambda: write(VICTIM),
    "append": lambda: write(VICTIM, os.O_WRONLY | os.O_APPEND),
    "open and empty": lambda: os.close(os.open(VICTIM, os.O_RDONLY | os.O_TRUNC)),
    "truncate": lambda: os.truncate(VICTIM, 0),
    "map and write": mapped,
    "unlink": VICTIM.unlink,
    "make a file": lambda: write(VICTIM.parent / "new", os.O_WRONLY | os.O_CREAT),
    "make a folder": lambda: (VICTIM.parent / "folder").mkdir(),
    "remove a folder": lambda: Path(W["empty"]).rmdir(),
    "make a FIFO": lambda: os.mkfifo(VICTIM.parent / "fifo"),
    "make a device": lambda: os.mknod(VICTIM.parent / "dev", 0o600 | 0o020000, os.makedev(1, 3)),
    "make a link": lambda: (VICTIM.parent / "soft").symlink_to("/etc/passwd"),
    "nameless file": nameless,
    "rename in": renamed_in,
    "rename out": renamed_out,
    "exchange": exchanged,
    "rename the step": renamed_step,
    "hard link in": linked_in,
    "hard link out": linked_out,
    "through a link": through_link,
    "through a folder's link": through_folder_link,
    "through /proc/self/root": lambda: write(f"/proc/self/root{VICTIM}"),
    "through /proc/self/cwd": lambda: write(
        f"/proc/self/cwd/../{VICTIM.parent.name}/{VICTIM.name}"
    ),
    "through ..": lambda: write(STEP / ".." / VICTIM.parent.name / VICTIM.name),
    "reopen a descriptor": reopened,
    "by file handle": by_handle,
    "git config": lambda: write(REPO / ".git/config", os.O_WRONLY | os.O_APPEND),
    "git hook": lambda: write(REPO / ".git/hooks/pre-commit", os.O_WRONLY | os.O_CREAT),
    "git index": lambda: write(REPO / ".git/index"),
    "git info": lambda: write(REPO / ".git/info/attributes", os.O_WRONLY | os.O_CREAT),
    "git commit": lambda: program("git", "commit", "-q", "--allow-empty", "-m", "x", cwd=REPO),
    "git config by git": lambda: program("git", "config", "core.fsmonitor", "evil", cwd=REPO),
    "the store": lambda: write(REPO / ".treadle/treadle.db"),
    "an earlier step": lambda: write(Path(W["earlier"])),
    "the configuration": lambda: write(REPO / ".treadle/config.toml"),
    "a file at home": lambda: write(HOME / ".bashrc"),
    "a new file at home": lambda: write(HOME / ".profile", os.O_WRONLY | os.O_CREAT),
    "the shared temporary folder": lambda: write(
        Path(W["shared"]) / "planted", os.O_WRONLY | os.O_CREAT
    ),
    "another step's temporary folder": lambda: write(Path(W["other_tmp"])),
    "/etc": lambda: write("/etc/treadle-was-here", os.O_WRONLY | os.O_CREAT),
    "/proc/sys": lambda: write("/proc/sys/kernel/core_pattern", data=b"core"),
    "/sys": lambda: write("/sys/kernel/mm/transparent_hugepage/enabled", data=b"madvise"),
}

READS = {
    "a key": lambda: read_one(HOME / ".ssh/id_ed25519"),
    "a hidden file": lambda: read_one(HOME / ".netrc"),
    "a key through a link": lambda: read_one(HOME / "keys/id_ed25519"),
    "a key through /proc/self/root": lambda: read_one(f"/proc/self/root{HOME}/.ssh/id_ed25519"),
    "treadle's environment": lambda: read_one(f"/proc/{ORCHESTRATOR}/environ"),
    "treadle's memory": lambda: open(f"/proc/{ORCHESTRATOR}/mem", "r+b").close(),
    "treadle's files": lambda: os.readlink(f"/proc/{ORCHESTRATOR}/fd/0"),
}

SOCKETS = {
    "Unix path": lambda: connect(socket.AF_UNIX, W["unix"]),
    "abstract Unix": lambda: connect(socket.AF_UNIX, W["abstract"].encode()),
    "TCP": lambda: connect(socket.AF_INET, ("127.0.0.1", W["tcp"])),
    "UDP": lambda: connect(socket.AF_INET, ("127.0.0.1", W["udp"]), socket.SOCK_DGRAM),
    "netlink": netlink,
    "packet": lambda: socket.socket(17, socket.SOCK_RAW).close(),
    "vsock": lambda: socket.socket(40, socket.SOCK_STREAM).close(),
}

SYSTEM = {
    "signal treadle": lambda: os.kill(ORCHESTRATOR, 0),
    "trace treadle": traced,
    "read treadle's memory": peeked,
    "take treadle's descriptor": taken_descriptor,
    "io_uring": lambda: os.close(call(425, 425, 4, ctypes.create_string_buffer(120))),
    "own user namespace": lambda: call(272, 97, 0x10000000),
    "own mount namespace": lambda: call(272, 97, 0x20000),
    "clone into a namespace": lambda: cloned(0x10000000),
    "enter a namespace": lambda: call(308, 268, os.open("/proc/self/ns/net", 0), 0),
    "mount": lambda: call(165, 40, b"none", os.fsencode(TMP), b"tmpfs", 0, None),
    "new mount interface": lambda: os.close(call(430, 430, b"tmpfs", 0)),
    "open a tree": lambda: os.close(call(428, 428, -100, b"/", 1)),
    "chroot": lambda: os.chroot(STEP),
    "BPF": lambda: call(321, 280, 0, ctypes.create_string_buffer(128), 128),
    "perf": lambda: call(298, 241, ctypes.create_string_buffer(128), 0, -1, -1, 0),
    "keyring": lambda: call(250, 219, 0, -3, 1),
    "userfaultfd": lambda: os.close(call(323, 282, 0)),
    "host name": lambda: call(170, 161, b"evil", 4),
    "type into the terminal": typed,
    "become root": lambda: program("su", "-c", "true"),
    "late daemon": daemon,
}

# Landlock cannot forbid these; the look afterwards must find every one.
METADATA = {
    "chmod": lambda: VICTIM.chmod(0o777),
    "chmod a hook": lambda: (REPO / ".git/hooks/post-commit").chmod(0o755),
    "chmod a key's folder": lambda: (HOME / ".ssh").chmod(0o755),
    "times": lambda: os.utime(W["timed"], (1, 1)),
    "times of an earlier step": lambda: os.utime(W["earlier"], (1, 1)),
    "attribute": lambda: os.setxattr(W["attributed"], "user.x", b"y"),
    "owner": lambda: os.chown(W["owned"], os.getuid(), os.getgid()),
}


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
        "honest": HONEST, "writes": WRITES, "reads": READS, "sockets": SOCKETS, "system": SYSTEM,
        "metadata": METADATA,
    }  # fmt: skip
    found = {
        group: {name: attempt(action) for name, action in probes.items()}
        for group, probes in groups.items()
    }
    (STEP / "answers.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
