"""Have the kernel hand chosen system calls of a child to its parent, by seccomp notification."""

import array
import ctypes
import errno
import fcntl
import os
import socket
import struct
from collections.abc import Mapping
from typing import NamedTuple

from tests.crash.calls import Shape, architecture, seccomp_number

_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_NOTIFY, _ALLOW = 0x7FC00000, 0x7FFF0000
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_NEW_LISTENER, _WAIT_KILLABLE = 1 << 3, 1 << 5
_CREATES = os.O_CREAT | os.O_TRUNC | (getattr(os, "O_TMPFILE", 0) & ~os.O_DIRECTORY)
_NO_NEW_PRIVILEGES = 38
_CONTINUE = 1

libc = ctypes.CDLL(None, use_errno=True)


class Held(NamedTuple):
    """One call that waits for its ruling."""

    key: int
    pid: int
    number: int
    args: tuple[int, ...]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def program(shapes: Mapping[str, Shape]) -> bytes:
    """Build the filter: hold these calls (opens only if they create or empty), allow the rest."""
    code = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, architecture()), (_RETURN, 0, 0, _ALLOW)]
    code.append((_LOAD, 0, 0, 0))
    for shape in shapes.values():
        code += _held(shape)
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in code)


def _held(shape: Shape) -> list[tuple[int, int, int, int]]:
    if shape.flags is None:
        return [(_EQUAL, 0, 1, shape.number), (_RETURN, 0, 0, _NOTIFY)]
    return [
        (_EQUAL, 0, 4, shape.number),
        (_LOAD, 0, 0, 16 + 8 * shape.flags),
        (_ANY_BIT, 0, 1, _CREATES),
        (_RETURN, 0, 0, _NOTIFY),
        (_RETURN, 0, 0, _ALLOW),
    ]


def install(filter_: bytes) -> int:
    """Put this process and all it will start under the filter; return the listener."""
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    packed = _Program(len(filter_) // 8, filter_)
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
        listener = libc.syscall(seccomp_number(), 1, flags, ctypes.byref(packed))
        if listener >= 0:
            return int(listener)
    raise OSError(ctypes.get_errno(), "seccomp")


def send_descriptor(channel: socket.socket, descriptor: int) -> None:
    """Pass an open descriptor to the process at the other end."""
    rights = array.array("i", [descriptor])
    channel.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def take_descriptor(channel: socket.socket) -> int | None:
    """Receive a descriptor, or None when the other end gave up."""
    _, messages, _, _ = channel.recvmsg(1, socket.CMSG_SPACE(4))
    for _, _, packed in messages:
        return int(array.array("i", packed[:4])[0])
    return None


def receive(listener: int) -> Held | None:
    """Take the next held call, or None when its thread died meanwhile."""
    record = bytearray(80)
    try:
        fcntl.ioctl(listener, _RECEIVE, record)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINTR):
            return None
        raise
    key, pid, _, number, _, _, *args = struct.unpack("=QIIiIQ6Q", record)
    return Held(key, pid, number, tuple(args))


def answer(listener: int, held: Held, failure: int = 0) -> None:
    """Let a held call go on, or make it fail with an errno."""
    record = bytearray(struct.pack("=QqiI", held.key, 0, -failure, 0 if failure else _CONTINUE))
    try:
        fcntl.ioctl(listener, _SEND, record)
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise
