"""Attempts on processes, the network, shared memory, terminals and the kernel itself."""

import ctypes
import fcntl
import os
import resource
import signal
import socket
import struct
import time
from pathlib import Path

from hostile_base import (
    HOME,
    OTHERS,
    STEP,
    TMP,
    VICTIM,
    W,
    buffer,
    call,
    opened,
    program,
    read_one,
    write,
)

NAMESPACES = {
    "user": 0x10000000,
    "mount": 0x20000,
    "host name": 0x4000000,
    "IPC": 0x8000000,
    "network": 0x40000000,
    "process": 0x20000000,
    "control group": 0x2000000,
    "time": 0x80,
}
NS_FILES = ("user", "mnt", "uts", "ipc", "net", "pid", "cgroup", "time")


# Of other processes: each must fail for every one of them.
def of_processes(pid):
    remote = struct.pack("PN", id(0), 8)

    def peeked(number):
        into = buffer(size=8)
        call(*number, pid, struct.pack("PN", ctypes.addressof(into), 8), 1, remote, 1, 0)

    def traced(request):
        call(101, 117, request, pid, 0, 0)
        call(101, 117, 17, pid, 0, 0)

    def pidfd():
        return call(434, 434, pid, 0)

    limits = {
        name: getattr(resource, f"RLIMIT_{name}")
        for name in ("CPU", "NOFILE", "FSIZE", "AS", "CORE", "NPROC")
    }
    high = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    return {
        "signal": lambda: os.kill(pid, 0),
        "wake": lambda: os.kill(pid, signal.SIGCONT),
        "signal the group": lambda: os.killpg(pid, signal.SIGWINCH),
        "signal the thread": lambda: call(200, 130, pid, signal.SIGCONT),
        "signal the thread of": lambda: call(234, 131, pid, pid, signal.SIGCONT),
        "queue a signal": lambda: call(
            129, 138, pid, signal.SIGCONT, buffer(struct.pack("iii", signal.SIGCONT, 0, -1))
        ),
        "signal by descriptor": lambda: signal.pidfd_send_signal(pidfd(), signal.SIGCONT),
        "attach": lambda: traced(16),
        "seize": lambda: traced(0x4206),
        "read memory": lambda: peeked((310, 270)),
        "write memory": lambda: peeked((311, 271)),
        "take a descriptor": lambda: call(438, 438, pidfd(), 0, 0),
        "compare": lambda: call(312, 272, pid, os.getpid(), 0, 0, 0),
        "advise": lambda: call(440, 440, pidfd(), struct.pack("PN", id(0) & ~4095, 4096), 1, 21, 0),
        "reap memory": lambda: call(448, 448, pidfd(), 0),
        "move pages": lambda: call(
            279, 239, pid, 1, struct.pack("P", id(0) & ~4095), 0, struct.pack("i", 0), 0
        ),
        "migrate": lambda: call(256, 238, pid, 8, b"\x01" + bytes(7), b"\x01" + bytes(7)),
        **{
            f"limit {name}": lambda which=which: resource.prlimit(
                pid, which, resource.prlimit(pid, which)
            )
            for name, which in limits.items()
        },
        "raise a limit": lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, high),
        "affinity": lambda: os.sched_setaffinity(pid, os.sched_getaffinity(0)),
        "scheduler": lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)),
        "scheduler's parameters": lambda: os.sched_setparam(pid, os.sched_param(0)),
        "scheduler's attributes": lambda: call(
            314, 274, pid, buffer(struct.pack("II", 48, 0), 48), 0
        ),
        "priority": lambda: os.setpriority(os.PRIO_PROCESS, pid, 0),
        "priority of the group": lambda: os.setpriority(os.PRIO_PGRP, pid, 0),
        "disk priority": lambda: call(251, 30, 1, pid, 0x4000),
        "open oom_score_adj": lambda: opened(f"/proc/{pid}/oom_score_adj", os.O_WRONLY),
        "open coredump_filter": lambda: opened(f"/proc/{pid}/coredump_filter", os.O_WRONLY),
        "open comm": lambda: opened(f"/proc/{pid}/comm", os.O_WRONLY),
        "open clear_refs": lambda: opened(f"/proc/{pid}/clear_refs", os.O_WRONLY),
        "open timerslack_ns": lambda: opened(f"/proc/{pid}/timerslack_ns", os.O_WRONLY),
        "open mem": lambda: opened(f"/proc/{pid}/mem", os.O_RDWR),
        "open uid_map": lambda: opened(f"/proc/{pid}/uid_map", os.O_WRONLY),
        "enter its network": lambda: call(308, 268, os.open(f"/proc/{pid}/ns/net", 0), 0),
        "enter all of it": lambda: call(308, 268, pidfd(), 0x20000),
    }


PROCESSES = {
    f"{how}: {who}": act for who, pid in OTHERS.items() for how, act in of_processes(pid).items()
}
PROCESSES["priority of the user"] = lambda: os.setpriority(
    os.PRIO_USER, os.getuid() if W["tier"] == "B" else 1, 1
)


def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as sock:
        sock.settimeout(3)
        sock.connect(address)
        sock.send(b"hello")


def paired(how, kind=socket.SOCK_DGRAM, address="datagram"):
    left, right = socket.socketpair(socket.AF_UNIX, kind)
    with left, right:
        how(left, W[address].encode() if address.startswith("abstract") else W[address])


def bare(family, kind):
    socket.socket(family, kind).close()


def netlink():
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as sock:
        sock.bind((0, 0))


def listening():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()


SOCKETS = {
    "Unix path": lambda: connect(socket.AF_UNIX, W["unix"]),
    "abstract Unix": lambda: connect(socket.AF_UNIX, W["abstract"].encode()),
    "datagram path": lambda: connect(socket.AF_UNIX, W["datagram"], socket.SOCK_DGRAM),
    "abstract datagram": lambda: connect(
        socket.AF_UNIX, W["abstract_datagram"].encode(), socket.SOCK_DGRAM
    ),
    **{
        f"pair, {how}: {where}": lambda act=act, where=where: paired(act, address=where)
        for where in ("datagram", "abstract_datagram")
        for how, act in {
            "sendto": lambda sock, at: sock.sendto(b"x", at),
            "sendmsg": lambda sock, at: sock.sendmsg([b"x"], [], 0, at),
            "connect": lambda sock, at: (sock.connect(at), sock.send(b"x")),
        }.items()
    },
    "stream pair, connect": lambda: paired(
        lambda sock, at: sock.connect(at), socket.SOCK_STREAM, "unix"
    ),
    "packet pair, connect": lambda: paired(
        lambda sock, at: sock.connect(at), socket.SOCK_SEQPACKET, "unix"
    ),
    "packet pair, sendto": lambda: paired(
        lambda sock, at: (sock.sendto(b"x", at), [][0]), socket.SOCK_SEQPACKET
    ),
    "raw pair": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW),
    "pair of another family": lambda: socket.socketpair(socket.AF_INET, socket.SOCK_STREAM),
    "TCP": lambda: connect(socket.AF_INET, ("127.0.0.1", W["tcp"])),
    "UDP": lambda: connect(socket.AF_INET, ("127.0.0.1", W["udp"]), socket.SOCK_DGRAM),
    "listen": listening,
    "TCP over version 6": lambda: connect(socket.AF_INET6, ("::ffff:127.0.0.1", W["tcp"])),
    "netlink": netlink,
    **{
        f"family {family}": lambda family=family: bare(family, socket.SOCK_STREAM)
        for family in range(46)
        if family not in (1, 2, 10, 16)
    },
    **{
        f"raw {family}": lambda family=family: bare(family, socket.SOCK_RAW)
        for family in (1, 2, 10, 17, 29, 31, 38)
    },
    **{
        f"datagrams {family}": lambda family=family: bare(family, socket.SOCK_DGRAM)
        for family in (1, 17, 21, 29, 38, 40)
    },
}


def attached():
    ctypes.memmove(call(30, 196, W["segment"], None, 0), b"owned", 5)


def opened_queue(flags):
    fd = call(240, 180, W["queue"].encode(), flags, 0o600, None)
    os.close(fd)


SHARED = {
    "attach a segment": attached,
    "remove a segment": lambda: call(31, 195, W["segment"], 0, None),
    "look at a segment": lambda: call(31, 195, W["segment"], 2, buffer(size=256)),
    "send to a queue": lambda: call(
        69, 189, W["messages"], struct.pack("l8s", 1, b"owned"), 8, 0o4000
    ),
    "receive from a queue": lambda: call(70, 188, W["messages"], buffer(), 8, 0, 0o4000),
    "remove a queue": lambda: call(71, 187, W["messages"], 0, None),
    "raise a semaphore": lambda: call(65, 193, W["semaphores"], struct.pack("Hhh", 0, 1, 0), 1),
    "raise it with a time limit": lambda: call(
        220, 192, W["semaphores"], struct.pack("Hhh", 0, 1, 0), 1, None
    ),
    "set a semaphore": lambda: call(66, 191, W["semaphores"], 0, 16, 7),
    "remove semaphores": lambda: call(66, 191, W["semaphores"], 0, 0, 0),
    "find a segment by key": lambda: call(29, 194, W["key"], 0, 0),
    "find a queue by key": lambda: call(68, 186, W["key"], 0),
    "find semaphores by key": lambda: call(64, 190, W["key"], 0, 0),
    "open a POSIX queue": lambda: opened_queue(os.O_RDWR),
    "open a POSIX queue to read": lambda: opened_queue(os.O_RDONLY),
    "remove a POSIX queue": lambda: call(241, 181, W["queue"].encode()),
}


def typed(request, data=b"x"):
    fcntl.ioctl(0, request, data)


def on_own_terminal(request):
    _, slave = os.openpty()
    fcntl.ioctl(slave, request, struct.pack("i", 0))


def any_disk(act):
    failures = []
    for name in W["disks"]:
        try:
            act(f"/dev/{name}")
        except OSError as error:
            failures.append(error)
    if len(failures) == len(W["disks"]):
        raise OSError(1, "no disk")


def numbered(flags):
    os.mknod(STEP / "disk", 0o600 | 0o060000, os.makedev(254, 0))
    opened(STEP / "disk", flags)


DEVICES = (
    "mem",
    "kmem",
    "port",
    "kmsg",
    "tty",
    "console",
    "tty0",
    "tty1",
    "vcs",
    "vcsa1",
    "ttyS0",
    "fuse",
    "kvm",
    "net/tun",
    "userfaultfd",
    "loop-control",
    "uinput",
    "snapshot",
    "rtc0",
    "vhost-net",
    "watchdog",
    "mapper/control",
    "autofs",
    "hwrng",
    "cpu/0/msr",
    "input/event0",
    "dri/card0",
)
TERMINALS = {
    "read the user's terminal": lambda: opened(W["terminal"]),
    "write to the user's terminal": lambda: opened(W["terminal"], os.O_WRONLY),
    "both on the user's terminal": lambda: opened(W["terminal"], os.O_RDWR),
    "rights of the user's terminal": lambda: read_one(f"/proc/self/root{W['terminal']}"),
    "all terminals": lambda: opened("/dev/pts/ptmx", os.O_RDWR) if W["tier"] == "B" else [][0],
    "a new terminal": lambda: opened("/dev/ptmx", os.O_RDWR) if W["tier"] == "B" else [][0],
    **{
        f"ioctl {request:#x}": lambda request=request: typed(request)
        for request in (0x5412, 0x541C, 0x5423, 0x541D, 0x540E)
    },
    **{
        f"own terminal, ioctl {request:#x}": lambda request=request: on_own_terminal(request)
        for request in (0x5412, 0x541C, 0x5423, 0x541D)
    },
    **{f"read {name}": lambda name=name: opened(f"/dev/{name}") for name in DEVICES},
    **{f"write {name}": lambda name=name: opened(f"/dev/{name}", os.O_WRONLY) for name in DEVICES},
    "read a disk": lambda: any_disk(read_one),
    "write a disk": lambda: any_disk(lambda path: opened(path, os.O_WRONLY)),
    "read a disk by number": lambda: numbered(os.O_RDONLY),
    "write a disk by number": lambda: numbered(os.O_WRONLY),
}


def cloned(flags):
    pid = call(56, 220, flags | signal.SIGCHLD, None, None, None, None)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def cloned3(flags):
    pid = call(435, 435, struct.pack("Q" * 11, flags, 0, 0, 0, signal.SIGCHLD, *[0] * 6), 88)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def mounted(source, target, kind, flags=0, data=None):
    call(165, 40, source, os.fsencode(target), kind, flags, data)


def daemon():
    """Write late from a process that nobody is the parent of; the test looks for it."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            try:
                for fd in (0, 1, 2):
                    os.close(fd)
            except OSError:
                pass
            time.sleep(float(W["late"]))
            (STEP / "late").write_text("still here")
            os._exit(0)
        os._exit(0)
    raise OSError(0, "see afterwards")


def privileges():
    os.setuid(0)
    write("/etc/treadle-was-here", os.O_WRONLY | os.O_CREAT)


KERNEL = {
    **{
        f"unshare {name}": lambda flag=flag: call(272, 97, flag)
        for name, flag in NAMESPACES.items()
    },
    **{
        f"clone into {name}": lambda flag=flag: cloned(flag)
        for name, flag in NAMESPACES.items()
        if name != "time"
    },
    **{f"clone3 into {name}": lambda flag=flag: cloned3(flag) for name, flag in NAMESPACES.items()},
    **{
        f"enter {name}": lambda name=name: call(308, 268, os.open(f"/proc/self/ns/{name}", 0), 0)
        for name in NS_FILES
    },
    "mount tmpfs": lambda: mounted(b"none", TMP, b"tmpfs"),
    "mount proc": lambda: mounted(b"none", TMP, b"proc"),
    "bind": lambda: mounted(os.fsencode(HOME / ".ssh"), TMP, None, 4096),
    "remount": lambda: mounted(None, "/", None, 32 | 4096),
    "overlay": lambda: mounted(
        b"none", TMP, b"overlay", 0, os.fsencode(f"lowerdir=/,upperdir={STEP},workdir={TMP}")
    ),
    "make shared": lambda: mounted(None, "/", None, 1 << 20),
    "unmount": lambda: call(166, 39, b"/proc", 2),
    "pivot": lambda: call(155, 41, os.fsencode(STEP), os.fsencode(STEP)),
    "chroot": lambda: os.chroot(STEP),
    "new mount interface": lambda: os.close(call(430, 430, b"tmpfs", 0)),
    "pick a mount": lambda: os.close(call(433, 433, -100, b"/", 0)),
    "configure a mount": lambda: call(431, 431, 0, 0, None, None, 0),
    "make a mount": lambda: call(432, 432, 0, 0, 0),
    "open a tree": lambda: os.close(call(428, 428, -100, b"/", 1)),
    "open a tree anew": lambda: os.close(call(467, 467, -100, b"/", 1, None, 0)),
    "move a mount": lambda: call(429, 429, -100, b"/proc", -100, os.fsencode(TMP), 0),
    "attributes of a mount": lambda: call(442, 442, -100, b"/", 0, bytes(32), 32),
    **{
        f"BPF {command}": lambda command=command: call(
            321, 280, command, buffer(struct.pack("IIII", 2, 4, 4, 1)), 48
        )
        for command in (0, 5, 9, 18)
    },
    "perf": lambda: call(298, 241, buffer(struct.pack("II", 1, 112)), 0, -1, -1, 0),
    "io_uring": lambda: os.close(call(425, 425, 4, buffer(size=120))),
    "io_uring enter": lambda: call(426, 426, 0, 1, 0, 0, None, 0),
    "io_uring register": lambda: call(427, 427, 0, 0, None, 0),
    "userfaultfd": lambda: os.close(call(323, 282, 0)),
    "userfaultfd for users": lambda: os.close(call(323, 282, 1)),
    **{
        f"keyring {ring}": lambda ring=ring: call(250, 219, 0, ring, 1) for ring in (-2, -3, -4, -5)
    },
    "join a keyring": lambda: call(250, 219, 1, b"treadle"),
    "add a key": lambda: call(248, 217, b"user", b"treadle", b"x", 1, -4),
    "ask for a key": lambda: call(249, 218, b"user", b"treadle", None, -4),
    "watch all files": lambda: os.close(call(300, 262, 0x200, 0)),
    "host name": lambda: call(170, 161, b"evil", 4),
    "domain name": lambda: call(171, 162, b"evil", 4),
    "set the clock": lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()),
    "adjust the clock": lambda: call(159, 171, buffer(size=256)),
    "set the time of day": lambda: call(164, 170, struct.pack("ll", int(time.time()), 0), None),
    "accounting": lambda: call(163, 89, os.fsencode(STEP / "account")),
    "swap on": lambda: call(167, 224, os.fsencode(VICTIM), 0),
    "swap off": lambda: call(168, 225, os.fsencode(VICTIM)),
    "reboot": lambda: call(169, 142, 0xFEE1DEAD, 672274793, 0, 0),
    "load a module": lambda: call(175, 105, b"x", 1, b""),
    "load a module's file": lambda: call(313, 273, 0, b"", 0),
    "remove a module": lambda: call(176, 106, b"treadle", 0),
    "load a kernel": lambda: call(246, 104, 0, 0, None, 0),
    "load a kernel's file": lambda: call(320, 294, 0, 0, 0, b"", 0),
    "quotas": lambda: call(179, 60, 0x80000100, None, 0, None),
    "quotas by descriptor": lambda: call(443, 443, 0, 0x80000100, 0, None),
    "the kernel's log": lambda: call(103, 116, 3, buffer(), 64),
    "hang up": lambda: call(153, 58),
    "ports": lambda: call(173, -1, 0x80, 1, 1),
    "all ports": lambda: call(172, -1, 3),
    "a call of another kind": lambda: call(0x40000000 | 39, -1),
    "a call to come": lambda: call(600, 600),
    "become root": lambda: program("su", "-c", "true"),
    "become root by sudo": lambda: program("sudo", "-n", "true"),
    "become root by number": privileges,
    "drop the filter": lambda: call(157, 167, 22, 0, 0, 0, 0),
    "take back new rights": lambda: call(157, 167, 38, 0, 0, 0, 0),
    "keep capabilities": lambda: (call(157, 167, 8, 1, 0, 0, 0), os.chroot("/")),
    **{
        f"write {name}": lambda name=name: opened(name, os.O_WRONLY)
        for name in (
            "/proc/sys/kernel/core_pattern",
            "/proc/sys/kernel/hostname",
            "/proc/sys/vm/drop_caches",
            "/proc/sys/kernel/yama/ptrace_scope",
            "/proc/sys/kernel/modprobe",
            "/proc/sys/fs/binfmt_misc/register",
            "/proc/sysrq-trigger",
            "/proc/irq/default_smp_affinity",
            "/sys/power/state",
            "/sys/kernel/uevent_helper",
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "/sys/kernel/mm/ksm/run",
            "/sys/fs/cgroup/cgroup.procs",
            "/sys/fs/cgroup/cgroup.subtree_control",
            "/sys/fs/cgroup/cgroup.kill",
            "/sys/kernel/debug/sched_features",
            "/sys/module/printk/parameters/time",
            "/proc/self/oom_score_adj" if W["tier"] == "B" else "/proc/kcore",
        )
    },
    "a control group": lambda: Path("/sys/fs/cgroup/treadle-was-here").mkdir(),
    "the kernel's memory": lambda: read_one("/proc/kcore"),
    "late daemon": daemon,
}
