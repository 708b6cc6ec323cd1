"""Keep what a recorded run did to its files, and build the tree that a power cut could leave."""

import hashlib
import pickle
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

ROOT = 0
# SQLite rebuilds its shared-memory index; it is mapped, not written.
DERIVED = "-shm"


class Node(NamedTuple):
    """What an inode is, whatever it holds."""

    kind: Literal["folder", "file", "link"]
    mode: int = 0o644
    target: str = ""


class Entry(NamedTuple):
    """Names that come, go or change together; `flushes` is a file that replaced another.

    `needs` is the operation without which this one cannot have reached the disk.
    """

    changes: tuple[tuple[int, str, int | None], ...]
    flushes: int | None = None
    needs: int | None = None


class Write(NamedTuple):
    """Bytes put into a file; `grows` when they went past its end."""

    inode: int
    offset: int
    data: bytes
    grows: bool


class Resize(NamedTuple):
    """A file cut or stretched."""

    inode: int
    size: int


class Sync(NamedTuple):
    """A file or folder made durable, as far as operation `covers`; None means everything."""

    inode: int | None
    covers: int
    label: str


class Said(NamedTuple):
    """Words that reached the user: from here on the promise counts."""

    text: str


Operation = Entry | Write | Resize | Sync | Said


class Torn(NamedTuple):
    """A write of which only the first bytes arrived; the rest is zeros or missing."""

    operation: int
    kept: int
    zeros: bool


class State(NamedTuple):
    """A power cut before operation `point` in which the dropped operations are lost."""

    point: int
    dropped: tuple[int, ...] = ()
    torn: Torn | None = None

    @classmethod
    def read(cls, raw: Sequence[object]) -> "State":
        """Rebuild a state that travelled as JSON."""
        point, dropped, torn = raw
        return cls(point, tuple(dropped), Torn(*torn) if torn else None)  # type: ignore[arg-type, misc]


class Model(NamedTuple):
    """A recorded run: the tree before it and everything done to it."""

    nodes: dict[int, Node]
    folders: dict[int, dict[str, int]]
    contents: dict[int, bytes]
    operations: list[Operation]

    def printed(self, point: int) -> str:
        """Return what the user had seen before operation `point`."""
        return "".join(op.text for op in self.operations[:point] if isinstance(op, Said))

    def without(self, label: str) -> "Model":
        """Return the same run with one kind of sync gone: a mutant."""
        nothing = Said("")
        kept = [
            nothing if isinstance(op, Sync) and op.label == label else op for op in self.operations
        ]
        return self._replace(operations=kept)

    def signature(self, state: State) -> bytes:
        """Return a digest that is equal for equal trees."""
        digest = hashlib.sha256()
        for path, inode, content in self.tree(state):
            node = self.nodes[inode]
            digest.update(f"{path}\0{node.kind}\0{node.target}\0{len(content)}\0".encode(*_SAFE))
            digest.update(hashlib.sha256(content).digest())
        return digest.digest()

    def materialise(self, state: State, root: Path) -> None:
        """Write the tree of a state below an empty folder."""
        for path, inode, content in self.tree(state):
            node, place = self.nodes[inode], root / path
            if node.kind == "folder":
                place.mkdir(exist_ok=True)
            elif node.kind == "link":
                place.symlink_to(node.target)
            else:
                place.write_bytes(content)
            if node.kind != "link":
                place.chmod(node.mode | 0o600)

    def tree(self, state: State) -> Iterable[tuple[str, int, bytes]]:
        """Yield path, inode and content of everything that a state holds, parents first."""
        kept = self._kept(state)
        changed: dict[int, dict[str, int | None]] = {}
        written: dict[int, list[int]] = {}
        for index in kept:
            match self.operations[index]:
                case Entry(changes):
                    for folder, name, inode in changes:
                        changed.setdefault(folder, {})[name] = inode
                case Write(inode) | Resize(inode):
                    written.setdefault(inode, []).append(index)
        todo = [("", ROOT)]
        while todo:
            path, inode = todo.pop()
            if self.nodes[inode].kind != "folder":
                yield path, inode, self._content(inode, written.get(inode, ()), state.torn)
                continue
            yield path, inode, b""
            names = {**self.folders.get(inode, {}), **changed.get(inode, {})}
            for name in sorted(names, reverse=True):
                child = names[name]
                if child is not None and not name.endswith(DERIVED):
                    todo.append((f"{path}/{name}" if path else name, child))

    def _kept(self, state: State) -> list[int]:
        lost = set(state.dropped)
        kept = []
        for index in range(state.point):
            op = self.operations[index]
            if index in lost or (isinstance(op, Entry) and op.needs in lost):
                lost.add(index)
            else:
                kept.append(index)
        return kept

    def _content(self, inode: int, writes: Iterable[int], torn: Torn | None) -> bytes:
        content = bytearray(self.contents.get(inode, b""))
        for index in writes:
            apply(self.operations[index], content, torn if torn and torn[0] == index else None)
        return bytes(content)


_SAFE = ("utf-8", "surrogateescape")


def apply(op: Operation, content: bytearray, torn: Torn | None = None) -> None:
    """Do one write or resize to the bytes of a file."""
    if isinstance(op, Resize):
        del content[op.size :]
        content.extend(bytes(op.size - len(content)))
    elif isinstance(op, Write):
        data = op.data
        if torn is not None:
            rest = bytes(len(data) - torn.kept) if torn.zeros else b""
            data = data[: torn.kept] + rest
        content.extend(bytes(max(0, op.offset - len(content))))
        content[op.offset : op.offset + len(data)] = data


def save(model: Model, file: Path) -> None:
    """Keep a model for the other workers."""
    file.write_bytes(pickle.dumps(model))


def load(file: Path) -> Model:
    """Read a model that another worker recorded."""
    model: Model = pickle.loads(file.read_bytes())
    return model
