"""Give up rights for good, on the calling thread and in whatever it starts.

The shim loads this module, so it imports nothing that takes time to start.
"""

import ctypes
import os

_NO_NEW_PRIVS, _SECCOMP, _FILTER, _CAP_DROP = 38, 22, 2, 24  # <linux/prctl.h>, <linux/seccomp.h>
_CREATE, _ADD, _RESTRICT = 444, 445, 446  # Landlock, the same numbers on every architecture
_VERSION, _BENEATH = 1, 1
_CAPABILITIES = 64
_PATH = os.O_PATH | os.O_CLOEXEC if hasattr(os, "O_PATH") else 0
_FOR_FILES = 0b0100_0000_0000_0111  # execute, write, read, truncate


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


def ruleset(access: int, scope: int, rules: list[tuple[int, bytes]]) -> int:
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


def _allow(libc: ctypes.CDLL, ruleset: int, rights: int, path: bytes) -> None:
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
