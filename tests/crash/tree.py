"""Hold the live view of a modelled folder: change it step by step, compare it with the disk."""

import os
from pathlib import Path

from tests.crash.model import DERIVED, ROOT, Entry, Node, Operation, Resize, Write, apply

Place = tuple[int, str, int | None]


class Unmodelled(Exception):
    """A trace holds something that the model cannot follow."""


class Tree:
    """Inodes, names and bytes below one folder, with the history of their changes."""

    def __init__(self, world: Path) -> None:
        self.world = str(world)
        self.nodes: dict[int, Node] = {}
        self.folders: dict[int, dict[str, int]] = {}
        self.contents: dict[int, bytearray] = {}
        self.operations: list[Operation] = []
        self.derived: set[int] = set()
        self._adopt(world)

    def do(self, op: Operation) -> None:
        """Note an operation and let it happen."""
        if not self._is_derived(op):
            self.operations.append(op)
        if isinstance(op, Entry):
            for folder, name, inode in op.changes:
                if inode is None:
                    self.folders[folder].pop(name, None)
                else:
                    self.folders[folder][name] = inode
        elif isinstance(op, Write | Resize):
            apply(op, self.contents[op.inode])

    def create(self, folder: int, name: str, node: Node) -> int:
        """Make a new inode under a name."""
        inode = self._new(node)
        self.do(Entry(((folder, name, inode),)))
        return inode

    def write(self, inode: int, offset: int, data: bytes) -> None:
        """Put bytes into a file."""
        grows = offset + len(data) > len(self.contents[inode])
        self.do(Write(inode, offset, data, grows))

    def find(self, path: str, follow: bool = True) -> Place | None:
        """Return (folder, name, inode) of a path below the world, or None for one outside."""
        for _ in range(20):
            if path != self.world and not path.startswith(self.world + "/"):
                return None
            folder, name, inode, path = self._step(path, follow)
            if not path:
                return folder, name, inode
        raise Unmodelled("a loop of symbolic links")

    def check(self) -> None:
        """Compare with the real folder, byte by byte, and take over the real modes."""
        self._compare(Path(self.world), ROOT)

    def _is_derived(self, op: Operation) -> bool:
        """Tell whether an operation is about a file whose loss means nothing."""
        if isinstance(op, Entry) and all(name.endswith(DERIVED) for _, name, _ in op.changes):
            self.derived |= {inode for _, _, inode in op.changes if inode is not None}
            return True
        return isinstance(op, Write | Resize) and op.inode in self.derived

    def _step(self, path: str, follow: bool) -> tuple[int, str, int | None, str]:
        """Walk down to the end or to the first link, whose replacement path is returned."""
        parts = path[len(self.world) + 1 :].split("/") if path != self.world else []
        folder, inode, name = ROOT, ROOT, ""
        for at, name in enumerate(parts):
            folder = inode
            found = self.folders.get(folder, {}).get(name)
            last = at == len(parts) - 1
            if found is None:
                if last:
                    return folder, name, None, ""
                raise Unmodelled(f"{path} is not in the model")
            node = self.nodes[found]
            if node.kind == "link" and (follow or not last):
                here = Path(self.world, *parts[:at])
                rest = here.joinpath(node.target, *parts[at + 1 :])
                return folder, name, None, os.path.normpath(rest)
            inode = found
        return folder, name, inode, ""

    def _adopt(self, place: Path) -> int:
        mode = place.lstat().st_mode & 0o777
        if place.is_symlink():
            return self._new(Node("link", mode, str(place.readlink())))
        if not place.is_dir():
            inode = self._new(Node("file", mode))
            self.contents[inode] = bytearray(place.read_bytes())
            return inode
        inode = self._new(Node("folder", mode))
        for child in sorted(place.iterdir()):
            self.folders[inode][child.name] = self._adopt(child)
        return inode

    def _new(self, node: Node) -> int:
        inode = len(self.nodes)
        self.nodes[inode] = node
        if node.kind == "folder":
            self.folders[inode] = {}
        elif node.kind == "file":
            self.contents[inode] = bytearray()
        return inode

    def _compare(self, place: Path, inode: int) -> None:
        names = {name for name in self.folders[inode] if not name.endswith(DERIVED)}
        real = {child.name for child in place.iterdir() if not child.name.endswith(DERIVED)}
        if names != real:
            raise Unmodelled(f"{place} holds {sorted(real)}, the model says {sorted(names)}")
        for name in names:
            child, below = place / name, self.folders[inode][name]
            node = self.nodes[below]
            if node.kind == "folder":
                self._compare(child, below)
            elif node.kind == "file":
                if child.read_bytes() != self.contents[below]:
                    raise Unmodelled(f"{child} differs from the model")
                self.nodes[below] = node._replace(mode=child.stat().st_mode & 0o777)
