"""Write the filter of system calls that no jailed process may make."""

import errno
import functools
import platform
import struct
from typing import NamedTuple

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_CALL, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24  # offsets in struct seccomp_data
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_X32 = 0x40000000
_NAMESPACES = 0x7E020000  # every CLONE_NEW flag that clone takes
_TYPING = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX type into the user's terminal
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16

# Name: number on x86-64, number on arm64; None where it does not exist.
_REFUSED: dict[str, tuple[int, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
# Programs fall back on older calls, whose arguments a filter can see, when these are missing.
_MISSING = {
    "clone3": (435, 435),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
}


class _Machine(NamedTuple):
    column: int
    audit: int
    clone: int
    ioctl: int
    socket: int


_MACHINES = {
    "x86_64": _Machine(0, 0xC000003E, 56, 16, 41),
    "aarch64": _Machine(1, 0xC00000B7, 220, 29, 198),
}


def is_known() -> bool:
    """Tell whether there is a filter for this kind of processor."""
    return platform.machine() in _MACHINES


@functools.cache
def program(*, network: bool, unix_sockets: bool, machine: str | None = None) -> bytes:
    """Return the filter as the kernel reads it."""
    here = _MACHINES[machine or platform.machine()]
    families = [*([_INET, _INET6, _NETLINK] if network else []), *([_UNIX] if unix_sockets else [])]
    code = [
        _op(_LOAD, _ARCHITECTURE),
        _op(_EQUAL, here.audit, 1, 0),
        _op(_RETURN, _KILL),
        _op(_LOAD, _CALL),
        *_refuse(_AT_LEAST, _X32, errno.EPERM),
    ]
    for table, error in ((_REFUSED, errno.EPERM), (_MISSING, errno.ENOSYS)):
        for numbers in table.values():
            number = numbers[here.column]
            code += _refuse(_EQUAL, number, error) if number is not None else []
    code += _when(here.clone, _FIRST, _refuse(_ANY_BIT, _NAMESPACES, errno.EPERM))
    typing = [op for request in _TYPING for op in _refuse(_EQUAL, request, errno.EPERM)]
    code += _when(here.ioctl, _SECOND, typing)
    allowed = [op for family in families for op in _answer(_EQUAL, family, _ALLOW)]
    refused = _op(_RETURN, _ERROR | errno.EAFNOSUPPORT)
    code += _when(here.socket, _FIRST, [*allowed, refused])
    return b"".join([*code, _op(_RETURN, _ALLOW)])


def _op(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)


def _answer(test: int, value: int, answer: int) -> list[bytes]:
    return [_op(test, value, 0, 1), _op(_RETURN, answer)]


def _refuse(test: int, value: int, error: int) -> list[bytes]:
    return _answer(test, value, _ERROR | error)


def _when(number: int, argument: int, body: list[bytes]) -> list[bytes]:
    """Look at an argument of one call; what `body` does not refuse is allowed."""
    inner = [_op(_LOAD, argument), *body, _op(_RETURN, _ALLOW)]
    return [_op(_EQUAL, number, 0, len(inner)), *inner]
