"""Run a command and rule on each write-type call of its whole process tree: go on, fail, or die."""

import ctypes
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

from tests.crash import seccomp
from tests.crash.calls import Shape, write_calls

Victim = Literal["group", "root", "caller"]
_SUBREAPER = 36
_GRACE = 10.0
_HERE = -100 & 0xFFFFFFFF


class Command(NamedTuple):
    """What to start, and where."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]


class Call(NamedTuple):
    """One write-type call, numbered in the order in which the tree made them."""

    number: int
    name: str
    path: str
    pid: int


class Ending(NamedTuple):
    """How a supervised command ended; `code` is None when the instrument killed it."""

    code: int | None
    printed: str
    calls: list[Call]
    survivors: int = 0
    hung: bool = False


class Kill(NamedTuple):
    """A ruling: kill the whole tree, the command's own process, or only the caller."""

    victim: Victim = "group"


Judge = Callable[[Call], "Kill | int"]


def let_all(_: Call) -> int:
    """Let every call go on."""
    return 0


def supervise(
    command: Command, world: Path, output: Path, judge: Judge = let_all, timeout: float = 200.0
) -> Ending:
    """Run the command; ask `judge` about each call below `world`: 0, an errno, or a Kill."""
    seccomp.libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    ours, theirs = socket.socketpair()
    root = os.fork()
    if root == 0:
        _become(command, theirs, output)
    theirs.close()
    listener = seccomp.take_descriptor(ours)
    ours.close()
    if listener is None:
        raise OSError("the kernel offers no seccomp listener here")
    try:
        return _Supervision(root, listener, world, judge).watch(timeout, output)
    finally:
        os.close(listener)


def run(command: Command, output: Path, timeout: float = 200.0, is_killed: bool = False) -> Ending:
    """Run a command unwatched; `is_killed` says that the timeout is the experiment."""
    seccomp.libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    root = os.fork()
    if root == 0:
        _become(command, None, output)
    deadline = time.monotonic() + timeout
    while True:
        done, status = os.waitpid(root, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return Ending(code, _read(output), [], kill_tree())
        if time.monotonic() > deadline:
            kill_tree()
            return Ending(None, _read(output), [], hung=not is_killed)
        time.sleep(0.002)


def kill_tree() -> int:
    """Kill every descendant of this process; return how many there were."""
    killed: set[int] = set()
    while alive := descendants():
        for pid in alive:
            _signal(pid)
        killed |= alive
        _reap()
    return len(killed)


def descendants() -> set[int]:
    """Return the pids of everything below this process that is not a zombie."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := _read(entry / "stat")):
            state, parent = stat.rpartition(")")[2].split()[:2]
            if state not in "ZX":
                parents[int(entry.name)] = int(parent)
    found, grown = {os.getpid()}, True
    while grown:
        children = {pid for pid, parent in parents.items() if parent in found} - found
        grown = bool(children)
        found |= children
    return found - {os.getpid()}


def _become(command: Command, channel: socket.socket | None, output: Path) -> NoReturn:
    """Turn the forked child into the command; nothing of the parent may run on."""
    try:
        sink = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        source = os.open(os.devnull, os.O_RDONLY)
        for descriptor, target in ((source, 0), (sink, 1), (sink, 2)):
            os.dup2(descriptor, target)
        os.chdir(command.cwd)
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if channel is not None:
            seccomp.send_descriptor(channel, seccomp.install(seccomp.program(write_calls())))
        os.execvpe(command.argv[0], list(command.argv), dict(command.env))
    finally:
        os._exit(127)


class _Supervision:
    """The watch over one command."""

    def __init__(self, root: int, listener: int, world: Path, judge: Judge) -> None:
        self.root, self.listener, self.judge = root, listener, judge
        self.world = str(world)
        self.calls: list[Call] = []
        self.code: int | None = None
        self.killed = False
        self.is_over = False
        self.names = {shape.number: (name, shape) for name, shape in write_calls().items()}

    def watch(self, timeout: float, output: Path) -> Ending:
        poll = select.poll()
        poll.register(self.listener, select.POLLIN)
        deadline = time.monotonic() + timeout
        while (now := time.monotonic()) < deadline:
            events = poll.poll(100)
            if any(event & select.POLLIN for _, event in events):
                self._rule()
            elif events:
                self.is_over = True
                break
            if self._root_is_gone():
                deadline = min(deadline, now + _GRACE)
        hung = not self._settled()
        killed = kill_tree()
        # The listener hangs up when nobody is left under the filter, though some may still exit.
        survivors = 0 if hung or self.is_over else killed
        code = None if self.killed else self.code
        return Ending(code, _read(output), self.calls, survivors, hung)

    def _settled(self) -> bool:
        settle = time.monotonic() + 60.0
        while not self._root_is_gone() and time.monotonic() < settle:
            time.sleep(0.001)
        return self.code is not None

    def _root_is_gone(self) -> bool:
        while self.code is None:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return False
            if pid == self.root:
                self.code = os.waitstatus_to_exitcode(status)
        return True

    def _rule(self) -> None:
        held = seccomp.receive(self.listener)
        if held is None:
            return
        name, shape = self.names[held.number]
        ruling = self._judged(name, _path(held, shape), held.pid)
        if not isinstance(ruling, Kill):
            seccomp.answer(self.listener, held, ruling)
            return
        self._kill(ruling.victim, held)

    def _judged(self, name: str, path: str, pid: int) -> "Kill | int":
        if path != self.world and not path.startswith(self.world + "/"):
            return 0
        call = Call(len(self.calls) + 1, name, path[len(self.world) + 1 :], pid)
        self.calls.append(call)
        return self.judge(call)

    def _kill(self, victim: Victim, held: seccomp.Held) -> None:
        """Nobody can write meanwhile: every other writer waits for its own ruling."""
        caller = _process(held.pid)
        self.killed |= victim != "caller" or caller == self.root
        if victim == "group":
            kill_tree()
            self.code = -signal.SIGKILL
            return
        _signal(caller if victim == "caller" else self.root)
        if victim == "root" and caller != self.root:
            seccomp.answer(self.listener, held)


def _path(held: seccomp.Held, shape: Shape) -> str:
    """Spell the file that a held call is about (the last one it names)."""
    if shape.descriptor is not None:
        return _link(f"/proc/{held.pid}/fd/{held.args[shape.descriptor] & 0xFFFFFFFF}")
    folder, at = shape.paths[-1]
    name = _text(held.pid, held.args[at])
    if name.startswith("/"):
        return os.path.normpath(name)
    base = _HERE if folder is None else held.args[folder] & 0xFFFFFFFF
    where = f"/proc/{held.pid}/" + ("cwd" if base == _HERE else f"fd/{base}")
    return os.path.normpath(f"{_link(where)}/{name}")


def _text(pid: int, address: int) -> str:
    """Read a path from the memory of another process."""
    buffer = ctypes.create_string_buffer(4096)
    # Read to the end of the page first: the next one may not be mapped.
    for size in (4096 - address % 4096, 4096):
        local = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), size)
        remote = (ctypes.c_uint64 * 2)(address, size)
        seccomp.libc.process_vm_readv(pid, local, 1, remote, 1, 0)
        if 0 < buffer.raw.find(b"\0") < size:
            break
    return os.fsdecode(buffer.value)


def _link(where: str) -> str:
    try:
        return str(Path(where).readlink())
    except OSError:
        return ""


def _process(thread: int) -> int:
    for line in _read(Path(f"/proc/{thread}/status")).splitlines():
        if line.startswith("Tgid:"):
            return int(line.split()[1])
    return thread


def _signal(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
