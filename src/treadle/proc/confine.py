"""Start a command that has given up its rights for good.

The shim loads this module, so it imports nothing that takes time to start.
"""

import _signal  # type: ignore[import-not-found]  # no stubs for the C half
import _thread
import ctypes
import marshal
import os
import struct

_NO_NEW_PRIVS, _SECCOMP, _FILTER, _CAP_DROP = 38, 22, 2, 24  # <linux/prctl.h>, <linux/seccomp.h>
_CREATE, _ADD, _RESTRICT = 444, 445, 446  # Landlock, the same numbers on every architecture
_VERSION, _BENEATH = 1, 1
_CAPABILITIES = 64
_PATH = os.O_PATH | os.O_CLOEXEC if hasattr(os, "O_PATH") else 0
_FOR_FILES = 0b0100_0000_0000_0111  # execute, write, read, truncate


_MAX_KEPT = 4
_RESET = sorted(_signal.valid_signals() - {_signal.SIGKILL, _signal.SIGSTOP})


class StartOrder:
    """A command as it came over the line: what to run, within which limits, held in by what."""

    def __init__(self, body: bytes) -> None:
        words, (self.memory, self.processes), held = marshal.loads(body)
        self.folder, self.program, self.argv, self.env = words
        self.filter, self.access, self.scope, self.rules, self.seen, self.lasting = held
        self.over = _thread.allocate_lock()
        self.over.acquire()

    @property
    def is_wrapped(self) -> bool:
        """Tell whether another program gets the filter, on descriptor 3."""
        return bool(self.filter) and not self.access


def start(order: StartOrder, fds: list[int]) -> int:
    """Start a command with these files and in its jail, if it has one; return its process id."""
    if order.access:
        return _on_thread(order, fds, order.filter, _lasting(order.seen, order.lasting))
    if not order.filter:
        return _spawn(order, fds)
    out, into = os.pipe()
    try:
        os.write(into, order.filter)
        os.close(into)
        held = [*fds, out]
        return _on_thread(order, held, b"") if order.scope else _spawn(order, held)
    finally:
        os.close(out)


def _on_thread(order: StartOrder, fds: list[int], code: bytes, *lasting: int) -> int:
    """Start a confined command from a thread of its own, so that the shim stays free.

    A wrapper dies with the thread that started it, so that one waits until all is over.
    """
    outcome: list[int | OSError] = []
    own = ruleset(order.access, order.scope, order.rules)
    done = _thread.allocate_lock()
    done.acquire()

    def work() -> None:
        try:
            confine((*lasting, own), code)
            outcome.append(_spawn(order, fds))
        except OSError as error:
            outcome.append(error)
        finally:
            done.release()
        if order.is_wrapped and isinstance(outcome[0], int):
            order.over.acquire()

    _thread.start_new_thread(work, ())
    done.acquire()
    os.close(own)
    if isinstance(outcome[0], OSError):
        raise outcome[0]
    return outcome[0]


def _lasting(seen: int, rules: tuple[tuple[int, int, str], ...]) -> int:
    """Return the rules that many commands share; the number in each says which file is meant."""
    if (seen, rules) not in _KEPT:
        for key in list(_KEPT)[: 1 - _MAX_KEPT]:
            os.close(_KEPT.pop(key))
        _KEPT[seen, rules] = ruleset(seen, 0, [(rights, path) for rights, _, path in rules])
    return _KEPT[seen, rules]


_KEPT: dict[tuple[int, tuple[tuple[int, int, str], ...]], int] = {}


def _spawn(order: StartOrder, fds: list[int]) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(fds)]
    path, argv, env = order.program, order.argv, order.env
    try:
        return os.posix_spawn(
            path, argv, env, file_actions=actions, setsid=True, setsigmask=[], setsigdef=_RESET
        )
    except NotImplementedError:  # an old C library; the keeper's session has no terminal either
        return os.posix_spawn(
            path, argv, env, file_actions=actions, setpgroup=0, setsigmask=[], setsigdef=_RESET
        )


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
    attributes = struct.pack("=QQQ", access, 0, scope) if scope else struct.pack("=Q", access)
    made = _check(libc.syscall(_CREATE, attributes, len(attributes), 0))
    try:
        for rights, path in rules:
            _allow(libc, made, rights, path)
    except OSError:
        os.close(made)
        raise
    return made


def confine(rulesets: tuple[int, ...], code: bytes) -> None:
    """Take the rules and the filter; the thread that calls this is bound until it ends.

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
        if libc.syscall(_ADD, ruleset, _BENEATH, struct.pack("=Qi", rights, parent), 0):
            for_file = struct.pack("=Qi", rights & _FOR_FILES, parent)
            _check(libc.syscall(_ADD, ruleset, _BENEATH, for_file, 0))
    finally:
        os.close(parent)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise SandboxRefused(number, os.strerror(number))
    return result


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
