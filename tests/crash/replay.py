"""Follow a recorded trace on a model of the file system."""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.crash import trace
from tests.crash.model import DERIVED, Entry, Model, Node, Resize, Said, Sync
from tests.crash.trace import Begun, Done
from tests.crash.tree import Place, Tree, Unmodelled

_VARIABLE = re.compile(r"[0-9a-f]{6,}|[0-9]+|(?<=tmp[-_])\w+")
_STARTERS = ("clone", "clone3", "fork", "vfork")


class Opened:
    """An open file description: where the next plain write goes."""

    def __init__(self, inode: int, appends: bool) -> None:
        self.inode, self.appends, self.offset = inode, appends, 0


class Replay:
    """The state of a trace's processes while it is read: folders they stand in, open files."""

    def __init__(self, world: Path, output: Path) -> None:
        self.tree = Tree(world)
        self.world, self.output = str(world), str(output)
        self.begun: dict[int, tuple[int, int | None]] = {}
        self.opened: dict[tuple[int, int], Opened] = {}
        self.latest: dict[int, Opened] = {}
        self.cwd: dict[int, list[str]] = {}
        self.cloning: dict[int, list[str]] = {}
        self.handlers: dict[str, Callable[[Done], None]] = {
            **dict.fromkeys(("open", "openat", "openat2", "creat"), self._open),
            **dict.fromkeys(("write", "writev"), self._write),
            **dict.fromkeys(("pwrite64", "pwritev", "pwritev2"), self._write_at),
            **dict.fromkeys(("sendfile", "copy_file_range"), self._copy),
            **dict.fromkeys(("truncate", "ftruncate", "fallocate"), self._resize),
            **dict.fromkeys(("rename", "renameat", "renameat2"), self._rename),
            **dict.fromkeys(("link", "linkat"), self._link),
            **dict.fromkeys(("unlink", "unlinkat", "rmdir"), self._unlink),
            **dict.fromkeys(("mkdir", "mkdirat"), self._mkdir),
            **dict.fromkeys(("symlink", "symlinkat"), self._symlink),
            **dict.fromkeys(("fsync", "fdatasync", "sync", "syncfs"), self._sync),
            **dict.fromkeys(_STARTERS, self._clone),
            **dict.fromkeys(("chdir", "fchdir"), self._chdir),
            **dict.fromkeys(("mknod", "mknodat", "splice", "msync"), self._refuse),
            "lseek": self._seek,
            "mmap": self._map,
        }

    def follow(self, events: Iterable[Begun | Done], cwd: Path) -> Model:
        """Replay all events of a run that started in `cwd`."""
        tree = self.tree
        folders = {inode: dict(names) for inode, names in tree.folders.items()}
        contents = {inode: bytes(content) for inode, content in tree.contents.items()}
        for event in events:
            self._know(event.pid, cwd)
            if isinstance(event, Begun):
                self._begin(event)
            elif handler := self.handlers.get(event.name):
                handler(event)
                self.begun.pop(event.pid, None)
        return Model(tree.nodes, folders, contents, tree.operations)

    # Processes.

    def _know(self, pid: int, cwd: Path) -> None:
        """Place a process; a child may show up before its parent's clone returns."""
        if pid in self.cwd:
            return
        places = {box[0] for box in self.cloning.values()} if self.cwd else {str(cwd)}
        if len(places) != 1:
            raise Unmodelled(f"process {pid} has no known parent")
        self.cwd[pid] = [places.pop()]

    def _begin(self, event: Begun) -> None:
        if event.name in _STARTERS:
            self.cloning[event.pid] = self.cwd[event.pid]
        inode = None
        if event.name in ("fsync", "fdatasync", "write", "pwrite64", "writev"):
            inode = self._inode_of(event.args[0])
        self.begun[event.pid] = (len(self.tree.operations), inode)

    def _clone(self, event: Done) -> None:
        self.cloning.pop(event.pid, None)
        box = self.cwd[event.pid]
        if any("CLONE_FS" in arg for arg in event.args):
            self.cwd[event.result] = box
        else:
            self.cwd.setdefault(event.result, [box[0]])

    def _chdir(self, event: Done) -> None:
        if event.name == "fchdir":
            self.cwd[event.pid][0] = trace.descriptor(event.args[0]).path
        else:
            self.cwd[event.pid][0] = self._absolute(event.pid, None, event.args[0])

    # Paths.

    def _absolute(self, pid: int, folder: str | None, text: str) -> str:
        name = os.fsdecode(trace.data(text))
        base = trace.descriptor(folder).path if folder is not None else ""
        return os.path.normpath(Path(base or self.cwd[pid][0], name))

    def _inode_of(self, arg: str) -> int | None:
        """Return the inode behind a descriptor, or None outside the world or deleted."""
        path = trace.descriptor(arg).path
        place = self.tree.find(path, follow=False) if path.startswith("/") else None
        return place[2] if place else None

    def _target(self, event: Done, follow: bool = True) -> Place | None:
        """Find what a call with one path is about."""
        at = event.name.endswith(("at", "at2"))
        text = event.args[1] if at else event.args[0]
        path = self._absolute(event.pid, event.args[0] if at else None, text)
        return self.tree.find(path, follow)

    def _targets(self, event: Done) -> list[Place | None]:
        """Find what a call with two paths is about."""
        pairs: list[tuple[str | None, str]]
        if event.name in ("rename", "link"):
            pairs = [(None, event.args[0]), (None, event.args[1])]
        else:
            pairs = [(event.args[0], event.args[1]), (event.args[2], event.args[3])]
        return [self.tree.find(self._absolute(event.pid, *pair), follow=False) for pair in pairs]

    # Names.

    def _open(self, event: Done) -> None:
        flags = _flags(event)
        place = self._target(event, "O_NOFOLLOW" not in flags)
        if place is None:
            return
        if "O_TMPFILE" in flags:
            raise Unmodelled("O_TMPFILE")
        folder, name, inode = place
        if inode is None:
            inode = self.tree.create(folder, name, Node("file", _mode(event.args[-1])))
        elif "O_TRUNC" in flags and self.tree.contents.get(inode):
            self.tree.do(Resize(inode, 0))
        opened = Opened(inode, "O_APPEND" in flags)
        self.opened[event.pid, event.result] = opened
        if "O_WRONLY" in flags or "O_RDWR" in flags:
            self.latest[inode] = opened

    def _mkdir(self, event: Done) -> None:
        place = self._target(event)
        if place:
            self.tree.create(place[0], place[1], Node("folder", _mode(event.args[-1])))

    def _symlink(self, event: Done) -> None:
        target = os.fsdecode(trace.data(event.args[0]))
        place = self._target(event._replace(args=event.args[1:]), follow=False)
        if place:
            self.tree.create(place[0], place[1], Node("link", 0o777, target))

    def _link(self, event: Done) -> None:
        source, target = self._targets(event)
        if target and source:
            self.tree.do(Entry(((target[0], target[1], source[2]),)))
        elif target:
            raise Unmodelled(f"a hard link from outside: {event.args}")

    def _unlink(self, event: Done) -> None:
        place = self._target(event, follow=False)
        if place:
            self.tree.do(Entry(((place[0], place[1], None),)))

    def _rename(self, event: Done) -> None:
        source, target = self._targets(event)
        if source is None and target is None:
            return
        if source is None or target is None or "RENAME_EXCHANGE" in event.args[-1]:
            raise Unmodelled(f"a rename that exchanges or crosses the border: {event.args}")
        gone = (source[0], source[1], None)
        come = (target[0], target[1], source[2])
        flushes = source[2] if target[2] is not None else None
        if source[0] == target[0]:
            self.tree.do(Entry((gone, come), flushes))
        else:
            self.tree.do(Entry((come,), flushes))
            self.tree.do(Entry((gone,), needs=len(self.tree.operations) - 1))

    # Bytes.

    def _write(self, event: Done) -> None:
        if trace.descriptor(event.args[0]).path == self.output:
            text = trace.data(event.args[1])[: event.result].decode(errors="replace")
            self.tree.do(Said(text))
            return
        opened = self._opened(event, event.args[0])
        if opened:
            self._put(opened, trace.data(event.args[1])[: event.result])

    def _write_at(self, event: Done) -> None:
        inode = self._inode_of(event.args[0])
        if inode is not None:
            data = trace.data(event.args[1])[: event.result]
            self.tree.write(inode, int(event.args[3]), data)

    def _copy(self, event: Done) -> None:
        sends = event.name == "sendfile"
        into, source = (event.args[0], event.args[1]) if sends else (event.args[2], event.args[0])
        opened = self._opened(event, into)
        if opened is None:
            return
        start = event.args[2] if sends else event.args[1]
        offset = int(start[1 : start.index("]")]) if start.startswith("[") else 0
        reader = self.opened.get((event.pid, trace.descriptor(source).number or 0))
        if start == "NULL" and reader:
            offset, reader.offset = reader.offset, reader.offset + event.result
        self._put(opened, self._source(source)[offset : offset + event.result])

    def _source(self, arg: str) -> bytes:
        inode = self._inode_of(arg)
        if inode is not None:
            return bytes(self.tree.contents[inode])
        return Path(trace.descriptor(arg).path).read_bytes()

    def _resize(self, event: Done) -> None:
        if event.name == "truncate":
            place = self._target(event)
            inode = place[2] if place else None
        else:
            inode = self._inode_of(event.args[0])
        if inode is None or "KEEP_SIZE" in event.args[1]:
            return
        present = len(self.tree.contents[inode])
        if event.name == "fallocate":
            size = max(int(event.args[2]) + int(event.args[3]), present)
        else:
            size = int(event.args[1])
        if size != present:
            self.tree.do(Resize(inode, size))

    def _opened(self, event: Done, arg: str) -> Opened | None:
        """Find the description behind a descriptor, however it got there (dup, fork, socket)."""
        started = self.begun.get(event.pid)
        inode = started[1] if started and started[1] is not None else self._inode_of(arg)
        if inode is None:
            return None
        own = self.opened.get((event.pid, trace.descriptor(arg).number or 0))
        if own and own.inode == inode:
            return own
        return self.latest.setdefault(inode, Opened(inode, appends=False))

    def _put(self, opened: Opened, data: bytes) -> None:
        offset = len(self.tree.contents[opened.inode]) if opened.appends else opened.offset
        self.tree.write(opened.inode, offset, data)
        opened.offset = offset + len(data)

    def _seek(self, event: Done) -> None:
        opened = self._opened(event, event.args[0])
        if opened:
            opened.offset = event.result

    def _map(self, event: Done) -> None:
        shared = "MAP_SHARED" in event.args[3] and "PROT_WRITE" in event.args[2]
        path = trace.descriptor(event.args[4]).path if shared else ""
        if path.startswith(self.world + "/") and not path.endswith(DERIVED):
            raise Unmodelled(f"{path} is written through a mapping")

    # Durability.

    def _sync(self, event: Done) -> None:
        covers, inode = self.begun.get(event.pid, (len(self.tree.operations), None))
        if event.name in ("sync", "syncfs"):
            self.tree.do(Sync(None, covers, event.name))
            return
        inode = inode if inode is not None else self._inode_of(event.args[0])
        if inode is not None:
            path = trace.descriptor(event.args[0]).path[len(self.world) + 1 :]
            self.tree.do(Sync(inode, covers, _VARIABLE.sub("*", path) or "."))

    def _refuse(self, event: Done) -> None:
        spelled = re.findall(r"(?:\\x[0-9a-f]{2})+", " ".join(event.args))
        if any(os.fsdecode(trace.unhex(text)).startswith(self.world) for text in spelled):
            raise Unmodelled(f"{event.name} {event.args}")


def _flags(event: Done) -> str:
    if event.name == "creat":
        return "O_WRONLY|O_CREAT|O_TRUNC"
    return event.args[1] if event.name == "open" else event.args[2]


def _mode(arg: str) -> int:
    return int(arg, 8) & ~0o022 if arg.startswith("0") else 0o644
