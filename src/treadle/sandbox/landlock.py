"""Hold a child in from inside: rules for Landlock and a filter of system calls."""

import errno
import functools
import os
import platform
import struct
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from treadle.proc import confine
from treadle.proc.command import Jail
from treadle.sandbox.policy import Layer, Policy, layers, settled

_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_CALL, _ARCHITECTURE, _FIRST, _SECOND, _THIRD = 0, 4, 16, 24, 32  # offsets in struct seccomp_data
_UPPER_HALF = 4
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM = _ERROR | errno.EPERM
_UNKNOWN = 463  # from here on calls are newer than this list; those of x32 are far above
_NAMESPACES = 0x7E020000  # every CLONE_NEW flag that clone takes
# TIOCSTI, TIOCLINUX, TIOCSETD and TIOCCONS: typing into, or taking over, the user's terminal.
_TERMINAL = (0x5412, 0x541C, 0x5423, 0x541D)
_FIOSETOWN, _SIOCSPGRP = 0x8901, 0x8902
_F_SETOWN, _F_SETOWN_EX, _F_SETLEASE = 8, 15, 1024
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _SEQPACKET, _KIND = 1, 5, 0xF

# Families of requests that change attributes of a file which is only open for reading, or make
# volumes in a folder; and the ones among them that only read, or need a file to write in.
_ATTRIBUTES = (0x6600, 0x5800, 0x7600, 0x9400)
_HARMLESS = (0x80086601, 0xC020660B, 0x801C581F, 0x80087601, 0x40049409, 0x4020940D)

# Calls that may name another process, and what their first arguments are for the caller itself.
_ON_ONESELF = {
    "ioprio_set": (1, 0),
    "sched_setaffinity": (0,),
    "sched_setattr": (0,),
    "sched_setparam": (0,),
    "setpriority": (0, 0),
}
_SCHED_OTHER = 0
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # as the kernel calls them


def has_filter() -> bool:
    """Tell whether there is a filter for this kind of processor."""
    return platform.machine() in _AUDIT


@functools.cache
def seccomp_filter(
    *, network: bool, unix_sockets: bool, alone: bool = False, machine: str | None = None
) -> bytes:
    """Return the filter as the kernel reads it.

    Who is `alone` has its own processes, its own IPC and no file outside that it could change.
    """
    machine = machine or platform.machine()
    calls = _calls(machine)
    code = [
        _op(_LOAD, _ARCHITECTURE),
        _op(_EQUAL, _AUDIT[machine], 1, 0),
        _op(_RETURN, _KILL),
        _op(_LOAD, _CALL),
        *_refuse(_AT_LEAST, _UNKNOWN, errno.ENOSYS),
        *_refuse_each(calls["refused"].values()),
        *_refuse_each(calls["missing"].values(), errno.ENOSYS),
    ]
    if not alone:
        code += _refuse_each(calls["shared"].values())
        code += _spare_others(calls["on_others"])
    own = calls["looked_into"]
    code += _when(own["clone"], [_op(_LOAD, _FIRST), *_refuse(_ANY_BIT, _NAMESPACES, errno.EPERM)])
    code += _when(own["fcntl"], _of_files(alone=alone))
    code += _when(own["ioctl"], _of_devices(alone=alone))
    code += _sockets(own, network=network, unix_sockets=unix_sockets)
    return b"".join([*code, _op(_RETURN, _ALLOW)])


def _calls(machine: str) -> dict[str, dict[str, int]]:
    """Return the numbers of system calls, in their groups."""
    groups = tomllib.loads(Path(__file__).with_name("syscalls.toml").read_text())
    column = list(_AUDIT).index(machine)
    return {
        group: {name: numbers[column] for name, numbers in calls.items() if numbers[column] >= 0}
        for group, calls in groups.items()
    }


def _spare_others(calls: Mapping[str, int]) -> list[bytes]:
    """Let limits and priorities be set for the caller alone; limits may be read of anybody."""
    code = []
    for name, arguments in _ON_ONESELF.items():
        offsets = zip((_FIRST, _SECOND), arguments, strict=False)
        code += _when(calls[name], [op for at, it in offsets for op in _only(at, (it,))])
    own = [_op(_LOAD, _FIRST), *_answer(_EQUAL, 0, _ALLOW)]
    reads = [*_only(_THIRD, (0,)), *_only(_THIRD + _UPPER_HALF, (0,))]
    # Threads, those of notebooks for one, ask by their own number for what they have anyway and
    # give up without it: they are told that it is done, and it is not.
    usual = [_op(_LOAD, _SECOND), *_answer(_EQUAL, _SCHED_OTHER, _ERROR), _op(_RETURN, _EPERM)]
    code += _when(calls["sched_setscheduler"], [*own, *usual])
    return [*code, *_when(calls["prlimit"], [*own, *reads])]


def _of_files(*, alone: bool) -> list[bytes]:
    """Refuse leases, which make others wait, and signals on behalf of a file."""
    commands = (_F_SETLEASE,) if alone else (_F_SETLEASE, _F_SETOWN, _F_SETOWN_EX)
    return [_op(_LOAD, _SECOND), *_refuse_each(commands)]


def _of_devices(*, alone: bool) -> list[bytes]:
    code = [_op(_LOAD, _SECOND), *_refuse_each(_TERMINAL)]
    if alone:
        return code
    code += _refuse_each((_FIOSETOWN, _SIOCSPGRP))
    code += [op for request in _HARMLESS for op in _answer(_EQUAL, request, _ALLOW)]
    return [*code, _op(_AND, 0xFF00), *_refuse_each(_ATTRIBUTES)]


def _sockets(calls: Mapping[str, int], *, network: bool, unix_sockets: bool) -> list[bytes]:
    """Allow families of sockets; a pair must be of a kind that reaches only its other half."""
    families = [*([_INET, _INET6, _NETLINK] if network else []), *([_UNIX] if unix_sockets else [])]
    code = _when(calls["socket"], _only(_FIRST, families, errno.EAFNOSUPPORT))
    if unix_sockets:
        return code
    kinds = _only(_SECOND, (_STREAM, _SEQPACKET), errno.EPERM, mask=_KIND)
    return [*code, *_when(calls["socketpair"], [*_only(_FIRST, (_UNIX,)), *kinds])]


def _op(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)


def _answer(test: int, value: int, answer: int) -> list[bytes]:
    return [_op(test, value, 0, 1), _op(_RETURN, answer)]


def _refuse(test: int, value: int, error: int) -> list[bytes]:
    return _answer(test, value, _ERROR | error)


def _refuse_each(values: Iterable[int], error: int = errno.EPERM) -> list[bytes]:
    return [op for value in values for op in _refuse(_EQUAL, value, error)]


def _only(
    argument: int, values: Sequence[int], error: int = errno.EPERM, mask: int = 0
) -> list[bytes]:
    """Refuse a call unless an argument has one of these values."""
    load = [_op(_LOAD, argument), *([_op(_AND, mask)] if mask else [])]
    tests = [_op(_EQUAL, value, len(values) - at, 0) for at, value in enumerate(values)]
    return [*load, *tests, _op(_RETURN, _ERROR | error)]


def _when(number: int, body: list[bytes]) -> list[bytes]:
    """Look at the arguments of one call; what `body` does not refuse is allowed."""
    inner = [*body, _op(_RETURN, _ALLOW)]
    return [_op(_EQUAL, number, 0, len(inner)), *inner]


OLDEST = 3  # before it, a file can be emptied that cannot be written

_EXECUTE, _WRITE, _READ, _LIST, _TRUNCATE = 1, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_ALL = (1 << 15) - 1  # everything version 3 knows: make, remove, link, rename, truncate
_LOOK = _EXECUTE | _READ | _LIST
_CHANGE = _ALL & ~_LOOK
_REFER = 1 << 13  # moving between folders: every layer must allow it
_SIGNALS, _ABSTRACT_SOCKETS = 1 << 1, 1
SCOPES = 6  # the version that can keep signals and sockets inside
# Nothing else in /dev: terminals are the user's, disks hold everything, memory there is shared.
_DEV = Path("/dev")
_DEVICES = tuple(f"{_DEV}/{name}" for name in ("null", "zero", "full", "random", "urandom"))


def jail(policy: Policy) -> Jail:
    """Return what the shim must take on for this policy: two layers, and both must agree.

    What may be read is the same for many steps; what may be written changes with every one.
    """
    rules = [(_WRITE | _TRUNCATE, device) for device in _DEVICES]
    rules += [(_CHANGE, str(path)) for path in settled(policy.writable)]
    return Jail(
        filter=seccomp_filter(network=policy.network, unix_sockets=policy.unix_sockets),
        access=_CHANGE,
        scope=scope(),
        rules=tuple(rules),
        seen=_LOOK | _REFER,
        lasting=_lasting(layers(policy._replace(hidden=(*policy.hidden, _DEV)))),
    )


def scope() -> int:
    """Return what keeps signals and abstract sockets inside, where the kernel can."""
    return _SIGNALS | _ABSTRACT_SOCKETS if version() >= SCOPES else 0


def _lasting(found: tuple[Layer, ...]) -> tuple[tuple[int, int, str], ...]:
    """Return the rules about reading: right, inode and path each."""
    secrets: dict[Layer | None, list[str]] = {None: []}
    secrets |= {item: [] for item in found if item.is_island}
    for item in found:
        if item.kind == "hidden":
            secrets[_shore(item.above)].append(item.path)
    rules = [(_LIST | _REFER, 0, "/.")]
    for island, hidden in secrets.items():
        start = island.path if island else "/"
        rules += [(_LOOK, inode, path) for path, inode in around(hidden, start)]
    rules += [(_READ, 0, device) for device in _DEVICES]
    return tuple(rules)


def _shore(layer: Layer | None) -> Layer | None:
    """Return the island that a layer lies on; None is the mainland."""
    while layer and not layer.is_island:
        layer = layer.above
    return layer


@functools.cache
def version() -> int:
    """Return which Landlock the kernel has; 0 is none."""
    return confine.landlock_version()


def around(hidden: Iterable[str], start: str = "/") -> Iterator[tuple[str, int]]:
    """Yield the fewest paths below `start` that hold all but what is hidden, and their inodes."""
    secret = set(hidden)
    ways = {way for path in secret for way in _ways(path, start)}
    if not ways:
        yield ("/.", 0) if start == "/" else (start, os.stat(start).st_ino)  # noqa: PTH116  # as text
    yield from (path for way in ways for path in _beside(way, ways | secret))


def _ways(path: str, start: str) -> Iterator[str]:
    while path != start:
        path = path.rpartition("/")[0] or "/"
        yield path


def _beside(folder: str, skip: set[str]) -> list[tuple[str, int]]:
    """List a folder without what leads to hidden things; one that may not be listed has nothing.

    A link is left out, for it may lead there too; where it leads has a path of its own.
    """
    try:
        with os.scandir(folder) as found:
            items = [item for item in found if item.path not in skip and not item.is_symlink()]
            return [(item.path, item.inode()) for item in items]
    except OSError:
        return []
