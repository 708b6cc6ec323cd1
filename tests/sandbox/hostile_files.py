"""Attempts on files and folders outside: every way to change or read one that we know of."""

import ctypes
import fcntl
import mmap
import os
import socket
import struct
import threading
from pathlib import Path

from hostile_base import (
    HOME,
    OTHERS,
    REPO,
    SHARED,
    STEP,
    TMP,
    VICTIM,
    W,
    call,
    opened,
    own,
    program,
    read_one,
    write,
)

FILES = {
    "a source": VICTIM,
    "git's config": REPO / ".git/config",
    "a hook": REPO / ".git/hooks/post-commit",
    "the index": REPO / ".git/index",
    "HEAD": REPO / ".git/HEAD",
    "the store": REPO / ".treadle/treadle.db",
    "the configuration": REPO / ".treadle/config.toml",
    "an earlier step": Path(W["earlier"]),
    "a file at home": HOME / ".bashrc",
    "another step's temporary file": Path(W["other_tmp"]),
}
FOLDERS = {
    "the project": REPO,
    "hooks": REPO / ".git/hooks",
    "refs": REPO / ".git/refs/heads",
    "treadle's folder": REPO / ".treadle",
    "the steps": REPO / ".treadle/runs/r/steps",
    "home": HOME,
    "the shared temporary folder": SHARED,
}
SECRETS = {"a key": HOME / ".ssh/id_ed25519", "a hidden file": HOME / ".netrc"}


def through(path, how):
    link = STEP / "link"
    link.symlink_to(path)
    try:
        how(link)
    finally:
        link.unlink()


def reopened(path, place="/proc/self/fd"):
    fd = os.open(path, os.O_RDONLY)
    try:
        write(f"{place}/{fd}")
    finally:
        os.close(fd)


def mapped(path):
    fd = os.open(path, os.O_RDWR)
    mmap.mmap(fd, 0)[:1] = b"X"


def mapped_later(path):
    fd = os.open(path, os.O_RDONLY)
    view = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
    where = ctypes.addressof(ctypes.c_char.from_buffer_copy(b"x"))
    view.close()
    call(10, 226, where & ~4095, 4096, 3)  # mprotect of memory is its own affair
    os.pwrite(fd, b"owned", 0)


def nameless(folder):
    fd = os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o644)
    os.link(f"/proc/self/fd/{fd}", folder / "nameless", follow_symlinks=True)


def exchanged(path):
    call(316, 276, -100, os.fsencode(own("own")), -100, os.fsencode(path), 2)


def renamed_in(path):
    path.rename(STEP / "stolen")
    (STEP / "stolen").rename(path)


def linked_in(path):
    os.link(path, STEP / "hard")
    (STEP / "hard").write_text("owned")


def beside(path):
    at = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        write(path.name, dir_fd=at)
    finally:
        os.close(at)


def by_path_descriptor(path):
    at = os.open(path, os.O_PATH)
    write(f"/proc/self/fd/{at}")


def openat2(path):
    how = struct.pack("QQQ", os.O_WRONLY, 0, 0)
    os.write(call(437, 437, -100, os.fsencode(path), how, len(how)), b"owned")


def on_thread(path):
    done = []

    def work():
        try:
            write(path)
            done.append(1)
        except OSError:
            pass

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if not done:
        raise OSError(1, "refused")


def in_grandchild(path):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if os.fork() == 0:
                write(path)
                os._exit(0)
            code = os.waitstatus_to_exitcode(os.wait()[1])
        finally:
            os._exit(code)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise OSError(1, "refused")


def punched(path):
    fd = os.open(path, os.O_RDONLY)
    call(285, 47, fd, 3, ctypes.c_long(0), ctypes.c_long(4))


def sent(path):
    source, into = os.open(own("sent"), os.O_RDONLY), os.open(path, os.O_RDONLY)
    os.sendfile(into, source, 0, 1)


def copied(path):
    source, into = os.open(own("copied"), os.O_RDONLY), os.open(path, os.O_RDONLY)
    os.copy_file_range(source, into, 1)


def cloned(path):
    source, into = os.open(own("cloned"), os.O_RDONLY), os.open(path, os.O_RDONLY)
    fcntl.ioctl(into, 0x40049409, source)


def by_handle(path, flags=os.O_RDWR):
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount = ctypes.c_int()
    call(303, 264, -100, os.fsencode(path), handle, ctypes.byref(mount), 0)
    at = os.open("/", os.O_RDONLY)
    fd = call(304, 265, at, handle, flags)
    os.write(fd, b"owned") if flags == os.O_RDWR else os.read(fd, 1)


def ftruncated(path):
    os.ftruncate(os.open(path, os.O_RDONLY), 0)


# On every file.
OFTEN = {
    "overwrite": write,
    "read and write": lambda path: write(path, os.O_RDWR),
    "append": lambda path: write(path, os.O_WRONLY | os.O_APPEND),
    "open and empty": lambda path: os.close(os.open(path, os.O_RDONLY | os.O_TRUNC)),
    "make anew": lambda path: write(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    "truncate": lambda path: os.truncate(path, 0),
    "map and write": mapped,
    "unlink": lambda path: path.unlink(),
    "exchange": exchanged,
    "rename in": renamed_in,
    "rename over": lambda path: own("over").replace(path),
    "hard link in": linked_in,
    "through a link": lambda path: through(path, write),
    "reopen a descriptor": reopened,
    "beside an open folder": beside,
    "through /proc/self/root": lambda path: write(f"/proc/self/root{path}"),
}
# On one file or two.
ONCE = {
    "openat2": openat2,
    "creat": lambda path: os.write(call(85, -1, os.fsencode(path), 0o644), b"owned"),
    "direct": lambda path: opened(path, os.O_WRONLY | os.O_DIRECT),
    "synchronous": lambda path: write(path, os.O_WRONLY | os.O_SYNC),
    "path descriptor": by_path_descriptor,
    "/dev/fd": lambda path: reopened(path, "/dev/fd"),
    "/proc/thread-self/fd": lambda path: reopened(path, "/proc/thread-self/fd"),
    "/proc/thread-self/root": lambda path: write(f"/proc/thread-self/root{path}"),
    "/proc/1/root": lambda path: write(f"/proc/1/root{path}"),
    "/proc/self/cwd": lambda path: write(f"/proc/self/cwd/{os.path.relpath(path, os.getcwd())}"),
    "dots": lambda path: write(f"{STEP}/../{os.path.relpath(path, STEP.parent)}"),
    "slashes": lambda path: write(f"//{path}"),
    "a folder's link": lambda path: through(path.parent, lambda link: write(link / path.name)),
    "a link of links": lambda path: through(f"/proc/self/root{path}", write),
    "by file handle": by_handle,
    "truncate a reader": ftruncated,
    "punch a hole": punched,
    "send into it": sent,
    "copy into it": copied,
    "clone into it": cloned,
    "write through a reader": mapped_later,
    "from a thread": on_thread,
    "from a grandchild": in_grandchild,
    "sh": lambda path: program("sh", "-c", f"echo owned >> '{path}'"),
    "dd": lambda path: program("dd", "if=/dev/zero", f"of={path}", "count=1", "conv=notrunc"),
    "tee": lambda path: program("sh", "-c", f"echo owned | tee -a '{path}'"),
    "cp": lambda path: program("cp", "--remove-destination", "/etc/hostname", str(path)),
    "mv": lambda path: program("mv", str(own("moved")), str(path)),
    "ln": lambda path: program("ln", "-sfn", "/etc/hostname", str(path)),
    "sed": lambda path: program("sed", "-i", "s/p/q/", str(path)),
    "install": lambda path: program("install", "/etc/hostname", str(path)),
    "rm": lambda path: program("rm", "-f", str(path)),
    "truncate by program": lambda path: program("truncate", "-s", "0", str(path)),
}
IN_FOLDERS = {
    "make a file": lambda at: write(at / "new", os.O_WRONLY | os.O_CREAT),
    "make a folder": lambda at: (at / "folder").mkdir(),
    "make a FIFO": lambda at: os.mkfifo(at / "fifo"),
    "make a link": lambda at: (at / "soft").symlink_to("/etc/passwd"),
    "make a device": lambda at: os.mknod(at / "dev", 0o600 | 0o020000, os.makedev(1, 3)),
    "make a socket": lambda at: os.mknod(at / "sock", 0o600 | 0o140000),
    "nameless file": nameless,
    "rename out": lambda at: own("out").rename(at / "planted"),
    "hard link out": lambda at: os.link(own("out2"), at / "hard"),
    "rename it": lambda at: at.rename(f"{at}-gone"),
    "take it": lambda at: at.rename(STEP / "taken"),
}


def bound(folder):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(folder / "bound"))


def renamed_step():
    STEP.rename(f"{STEP}-gone")
    Path(f"{STEP}-gone").rename(STEP)


def git(*words):
    return lambda: program("git", *words, cwd=REPO)


WRITES = {
    **{
        f"{how}: {what}": lambda act=act, path=path: act(path)
        for how, act in OFTEN.items()
        for what, path in FILES.items()
    },
    **{
        f"{how}: {what}": lambda act=act, path=FILES[what]: act(path)
        for how, act in ONCE.items()
        for what in ("a source", "a file at home")
    },
    **{
        f"{how}: {what}": lambda act=act, at=at: act(at)
        for how, act in IN_FOLDERS.items()
        for what, at in FOLDERS.items()
    },
    "bind a socket": lambda: bound(REPO),
    "remove a folder": lambda: Path(W["empty"]).rmdir(),
    "rename the step": renamed_step,
    "remove the step": lambda: program("rmdir", str(STEP)),
    "git info": lambda: write(REPO / ".git/info/attributes", os.O_WRONLY | os.O_CREAT),
    "git commit": git("commit", "-q", "--allow-empty", "-m", "x"),
    "git config by git": git("config", "core.fsmonitor", "evil"),
    "git branch": git("branch", "evil"),
    "git tag": git("update-ref", "refs/tags/evil", "HEAD"),
    "git add": git("add", "-A"),
    "git gc": git("pack-refs", "--all"),
    "/etc": lambda: write("/etc/treadle-was-here", os.O_WRONLY | os.O_CREAT),
    "/usr": lambda: write("/usr/treadle-was-here", os.O_WRONLY | os.O_CREAT),
    "/": lambda: write("/treadle-was-here", os.O_WRONLY | os.O_CREAT),
    "/var/tmp": lambda: write("/var/tmp/treadle-was-here", os.O_WRONLY | os.O_CREAT),
    "/run": lambda: write("/run/treadle-was-here", os.O_WRONLY | os.O_CREAT),
    "shared memory": lambda: write(W["shm"]),
    "remove shared memory": lambda: os.unlink(W["shm"]),
    "map shared memory": lambda: mapped(W["shm"]),
}

READS = {
    **{f"open: {what}": lambda path=path: read_one(path) for what, path in SECRETS.items()},
    **{
        f"/proc/self/root: {what}": lambda path=path: read_one(f"/proc/self/root{path}")
        for what, path in SECRETS.items()
    },
    **{
        f"through a link: {what}": lambda path=path: through(path, read_one)
        for what, path in SECRETS.items()
    },
    **{
        f"hard link: {what}": lambda path=path: (
            os.link(path, STEP / "read"),
            read_one(STEP / "read"),
        )
        for what, path in SECRETS.items()
    },
    **{
        f"by handle: {what}": lambda path=path: by_handle(path, os.O_RDONLY)
        for what, path in SECRETS.items()
    },
    **{
        f"cat: {what}": lambda path=path: program("sh", "-c", f"cat '{path}' | grep -q .")
        for what, path in SECRETS.items()
    },
    **{
        f"git: {what}": lambda path=path: program(
            "sh", "-c", f"git hash-object '{path}' | grep -qv e69de29"
        )
        for what, path in SECRETS.items()
    },
    **{
        f"rename: {what}": lambda path=path: path.rename(STEP / "read2")
        for what, path in SECRETS.items()
    },
    "a key through a link of the user's": lambda: read_one(HOME / "keys/id_ed25519"),
    "a key through dots": lambda: read_one(f"{TMP}/../home/.ssh/../.ssh/id_ed25519"),
    "a lock of treadle's": lambda: read_one(REPO / ".treadle/locks/run.lock"),
    "shared memory": lambda: read_one(W["shm"]),
    **{
        f"{name} of {who}": lambda pid=pid, name=name: read_one(f"/proc/{pid}/{name}")
        for who, pid in OTHERS.items()
        for name in ("environ", "mem", "auxv", "maps", "stack")
    },
    **{
        f"{name} of {who}": lambda pid=pid, name=name: os.readlink(f"/proc/{pid}/{name}")
        for who, pid in OTHERS.items()
        for name in ("fd/0", "cwd", "root", "exe")
    },
    **{
        f"files through {name} of {who}": lambda pid=pid, name=name: read_one(
            f"/proc/{pid}/{name}{SECRETS['a key']}"
        )
        for who, pid in OTHERS.items()
        for name in ("root", "cwd")
    },
}


def locked():
    fcntl.flock(os.open(REPO / ".treadle/locks/run.lock", os.O_RDONLY), fcntl.LOCK_EX)


def asked(path, request, data):
    fcntl.ioctl(os.open(path, os.O_RDONLY), request, data)


def owned_by(command, packed):
    fcntl.fcntl(os.open(VICTIM, os.O_RDONLY), command, packed)


LOCKS = {
    "treadle's lock": locked,
    "the store": lambda: read_one(REPO / ".treadle/treadle.db"),
    "a lease to read": lambda: owned_by(1024, fcntl.F_RDLCK),
    "a lease to write": lambda: owned_by(1024, fcntl.F_WRLCK),
    "a writer's lock": lambda: fcntl.lockf(os.open(VICTIM, os.O_RDONLY), fcntl.LOCK_EX),
    "an open file's lock": lambda: fcntl.fcntl(
        os.open(VICTIM, os.O_RDONLY), 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
    ),
    "flags": lambda: asked(VICTIM, 0x40086602, struct.pack("l", 0x80)),
    "flags of a folder": lambda: asked(REPO, 0x40086602, struct.pack("l", 0x80)),
    "extended flags": lambda: asked(VICTIM, 0x401C5820, bytes(28)),
    "generation": lambda: asked(VICTIM, 0x40087602, struct.pack("l", 7)),
    "verity": lambda: asked(
        VICTIM, 0x40806685, struct.pack("IIIIQIIQ", 1, 1, 4096, 0, 0, 0, 0, 0) + bytes(88)
    ),
    "encryption": lambda: asked(W["empty"], 0x800C6613, bytes(12)),
    "a volume": lambda: asked(REPO, 0x5000940E, bytes(8) + b"volume" + bytes(4082)),
    "freeze": lambda: asked(REPO, 0xC0045877, 0),
    "new attributes": lambda: call(469, 469, -100, os.fsencode(VICTIM), bytes(24), 24, 0),
    "new extended attribute": lambda: call(
        463, 463, -100, os.fsencode(VICTIM), 0, b"user.n", bytes(16), 16
    ),
}
for who, pid in OTHERS.items():
    LOCKS[f"signals for {who}"] = lambda pid=pid: owned_by(15, struct.pack("ii", 1, pid))
    if W["tier"] == "B":
        LOCKS[f"signals by number for {who}"] = lambda pid=pid: owned_by(8, pid)


# Landlock cannot forbid these; the look afterwards must find every one. Each has its own file.
def attribute(path, name="user.x"):
    os.setxattr(path, name, b"y")


ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, perm, 0xFFFFFFFF) for tag, perm in ((1, 7), (4, 7), (0x20, 7))
)
MARKING = {
    "chmod": lambda path: os.chmod(path, 0o777),
    "fchmod": lambda path: os.fchmod(os.open(path, os.O_RDONLY), 0o777),
    "fchmodat": lambda path: os.chmod(
        os.path.basename(path), 0o777, dir_fd=os.open(os.path.dirname(path), os.O_RDONLY)
    ),
    "fchmodat2": lambda path: call(452, 452, -100, os.fsencode(path), 0o777, 0),
    "setuid bit": lambda path: os.chmod(path, 0o4755),
    "no rights": lambda path: os.chmod(path, 0),
    "chmod by program": lambda path: program("chmod", "a+rwx", path),
    "through a link": lambda path: through(path, lambda link: os.chmod(link, 0o777)),
    "through /proc/self/fd": lambda path: os.chmod(
        f"/proc/self/fd/{os.open(path, os.O_RDONLY)}", 0o777
    ),
    "chown": lambda path: os.chown(path, os.getuid(), os.getgid()),
    "fchown": lambda path: os.fchown(os.open(path, os.O_RDONLY), os.getuid(), os.getgid()),
    "lchown": lambda path: os.lchown(path, os.getuid(), -1),
    "old times": lambda path: os.utime(path, (1, 1)),
    "times of a descriptor": lambda path: os.utime(os.open(path, os.O_RDONLY), (1, 1)),
    "times to come": lambda path: os.utime(path, (2**31, 2**31)),
    "touch": lambda path: program("touch", "-d", "2001-01-01", path),
    "attribute": attribute,
    "attribute of a descriptor": lambda path: os.setxattr(
        os.open(path, os.O_RDONLY), "user.x", b"y"
    ),
    "access list": lambda path: os.setxattr(path, "system.posix_acl_access", ACL),
}
PLACES = {
    "project": REPO / "m",
    "home": HOME,
    "hidden": HOME / ".ssh",
    "hooks": REPO / ".git/hooks",
}
METADATA = {
    f"{how}: {where}": (str(at / f"m{number}"), act)
    for where, at in PLACES.items()
    for number, (how, act) in enumerate(MARKING.items())
    if where == "project" or number % 4 == 0
}
METADATA |= {
    "rights of a hook": (str(REPO / ".git/hooks/post-commit"), MARKING["chmod"]),
    "rights of a key's folder": (str(HOME / ".ssh"), MARKING["chmod"]),
    "times of an earlier step": (W["earlier"], MARKING["old times"]),
    "rights of the store": (str(REPO / ".treadle/treadle.db"), MARKING["chmod"]),
}
