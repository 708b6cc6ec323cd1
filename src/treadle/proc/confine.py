"""Start a command that has given up its rights for good.

The shim loads this module, so it imports nothing that takes time to start.
"""

import _signal  # type: ignore[import-not-found]  # no stubs for the C half
import ctypes
import fcntl
import marshal
import os

from treadle.proc import cgroup

_NO_NEW_PRIVS, _SECCOMP, _FILTER, _CAP_DROP = 38, 22, 2, 24  # <linux/prctl.h>, <linux/seccomp.h>
_CREATE, _ADD, _RESTRICT = 444, 445, 446  # Landlock, the same numbers on every architecture
_VERSION, _BENEATH = 1, 1
_CAPABILITIES = 64
_PATH = os.O_PATH | os.O_CLOEXEC if hasattr(os, "O_PATH") else 0
_FOR_FILES = 0b0100_0000_0000_0111  # execute, write, read, truncate


_MAX_KEPT = 4
_DEFAULTS = sorted(_signal.valid_signals() - {_signal.SIGKILL, _signal.SIGSTOP})
_FILTER_FD = 3  # where a wrapper looks for its filter


class StartOrder:
    """A command as it came over the line: what to run, within which limits, held in by what."""

    def __init__(self, body: bytes) -> None:
        words, (self.memory, self.processes), held = marshal.loads(body)
        self.folder, self.program, self.argv, self.env = words
        self.filter, self.access, self.scope, self.rules, self.seen, self.lasting = held

    @property
    def is_wrapped(self) -> bool:
        """Tell whether another program gets the filter."""
        return bool(self.filter) and not self.access


def start(order: StartOrder, fds: list[int], group: str) -> int:
    """Start a command with these files, in its jail and in its control group; return its id."""
    kept = [_lasting(order.seen, order.lasting)] if order.access else []
    own = [ruleset(order.access, order.scope, order.rules)] if order.access or order.scope else []
    heard, said = os.pipe()
    try:
        pid = os.fork()
        if not pid:
            _become(order, fds, (*kept, *own), group, said)
    finally:
        for fd in (*own, said):
            os.close(fd)
    refusal = os.read(heard, 64).split()
    os.close(heard)
    if refusal:
        os.waitpid(pid, 0)
        kind = SandboxRefused if refusal[0] == b"sandbox" else OSError
        raise kind(int(refusal[1]), "")
    return pid


def _become(
    order: StartOrder, fds: list[int], rulesets: tuple[int, ...], group: str, said: int
) -> None:
    """Turn this fork into the command, or write to `said` what prevents it."""
    said = fcntl.fcntl(said, fcntl.F_DUPFD_CLOEXEC, _FILTER_FD + 1)
    try:
        os.setsid()
        if group:
            cgroup.join(group)
        if rulesets:
            confine(rulesets, order.filter if order.access else b"")
        _take_files([*fds, _readable(order.filter)] if order.is_wrapped else fds)
        _signal.set_wakeup_fd(-1)
        for number in _DEFAULTS:
            _signal.signal(number, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
        os.execve(order.program, order.argv, order.env)
    except OSError as error:
        stage = "sandbox" if isinstance(error, SandboxRefused) else "program"
        os.write(said, f"{stage} {error.errno}".encode())
    finally:
        os._exit(127)


def _take_files(fds: list[int]) -> None:
    """Make these the first descriptors; none of them is lower than where it goes."""
    for target, fd in enumerate(fds):
        os.dup2(fd, target)
        os.set_inheritable(target, True)


def _readable(data: bytes) -> int:
    out, into = os.pipe()
    os.write(into, data)
    os.close(into)
    return out


def _lasting(seen: int, rules: tuple[tuple[int, int, str], ...]) -> int:
    """Return the rules that many commands share; the number in each says which file is meant."""
    if (seen, rules) not in _KEPT:
        for key in list(_KEPT)[: 1 - _MAX_KEPT]:
            os.close(_KEPT.pop(key))
        _KEPT[seen, rules] = ruleset(seen, 0, [(rights, path) for rights, _, path in rules])
    return _KEPT[seen, rules]


_KEPT: dict[tuple[int, tuple[tuple[int, int, str], ...]], int] = {}


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scope", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


class SandboxRefused(OSError):
    """The kernel does not take the rules."""


def landlock_version() -> int:
    """Ask the kernel which version of Landlock it has; 0 is none."""
    return max(int(_libc().syscall(_CREATE, None, 0, _VERSION)), 0)


def ruleset(access: int, scope: int, rules: list[tuple[int, str]]) -> int:
    """Return a descriptor of rules for Landlock; whoever asked closes it."""
    libc = _libc()
    attributes = _Ruleset(access, 0, scope)
    size = ctypes.sizeof(attributes) if scope else ctypes.sizeof(ctypes.c_uint64)
    made = _check(libc.syscall(_CREATE, ctypes.byref(attributes), size, 0))
    try:
        for rights, path in rules:
            _allow(libc, made, rights, path)
    except OSError:
        os.close(made)
        raise
    return made


def confine(rulesets: tuple[int, ...], code: bytes) -> None:
    """Take the rules and the filter; this process and all it starts are bound from now on.

    Without a filter, what is started next will take one itself, and needs its rights until then.
    """
    libc = _libc()
    if code and os.geteuid() == 0:  # root in a jail must not be root any more
        for number in range(_CAPABILITIES):
            libc.prctl(_CAP_DROP, number, 0, 0, 0)
    _check(libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
    for made in rulesets:
        _check(libc.syscall(_RESTRICT, made, 0))
    if not code:
        return
    program = _Program(len(code) // 8, code)
    _check(libc.prctl(_SECCOMP, _FILTER, ctypes.byref(program), 0, 0))


def _allow(libc: ctypes.CDLL, ruleset: int, rights: int, path: str) -> None:
    try:
        parent = os.open(path, _PATH)
    except OSError:  # what is not there, or not ours to see, needs no right
        return
    try:
        rule = _Beneath(rights, parent)
        if libc.syscall(_ADD, ruleset, _BENEATH, ctypes.byref(rule), 0):
            rule.rights &= _FOR_FILES
            _check(libc.syscall(_ADD, ruleset, _BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(parent)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise SandboxRefused(number, os.strerror(number))
    return result


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
