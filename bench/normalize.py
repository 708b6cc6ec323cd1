"""P6: complete ten thousand messages, a third bare, a third partial, a third complete."""

import os
import sys
from pathlib import Path

from bench.harness import Bench, Command
from bench.lab import Lab
from bench.told import measured
from treadle.files import atomic
from treadle.inbox import box
from treadle.inbox import message as inbox_message
from treadle.inbox.message import place_in_name
from treadle.layout import Layout

_BODY = "Fix the type errors that the new parser has brought.\n\n- look at the log\n" * 4
_ODD = "note: 'quoted: text'\nmore: |\n  several\n  lines\n"


def benches(lab: Lab) -> list[Bench]:
    """Return the first pass against reading and rewriting, the second against reading alone."""
    number = lab.size(10_000, 600)
    done = lab.scratch / "normalized"
    make(done, number)
    candidate(done)

    def first(folder: Path) -> Command:
        make(folder, number)
        return lab.part("normalize", "candidate", folder)

    def rewrite(folder: Path) -> Command:
        make(folder, number)
        return lab.part("normalize", "rewrite", folder)

    def again(_: Path) -> Command:
        return lab.part("normalize", "again", done)

    def read(_: Path) -> Command:
        return lab.part("normalize", "read", done)

    rounds = lab.size(5, 3)
    name = f"normalize {number} messages"
    return [
        Bench("P6", name, "read, rewrite 2/3", first, rewrite, 1.3, 1.5, True, rounds),
        Bench("P6-again", f"{name} again", "read", again, read, 2.0, 8.0, False, lab.rounds),
    ]


def make(root: Path, number: int) -> None:
    """Write the messages; one in twenty has quoted and multi-line fields."""
    inbox = Layout(root).inbox
    inbox.mkdir(parents=True)
    for index in range(number):
        chain = 2025022514320000 + index
        odd = _ODD if index % 20 == 0 else ""
        fields = (
            "",
            f"chain: {chain}\nseq: 1\n{odd}",
            f"id: {chain}-1\nchain: {chain}\nseq: 1\ntype: task\nroutine: develop\n{odd}",
        )[index % 3]
        text = f"---\n{fields}---\n{_BODY}" if fields else _BODY
        (inbox / f"{chain}-1.md").write_text(text)


def candidate(root: Path) -> None:
    """Complete every message."""
    layout = Layout(root)
    with measured():
        for name in box.names(layout):
            path = f"{layout.inbox}/{name}"
            data = box.read(path)
            named = place_in_name(name, lambda _: False)
            message = inbox_message.understand(data, named, lambda: "2026010100000000").message
            new = inbox_message.complete(data, message, message.routine or "develop")
            if new != data:
                atomic.write(Path(path), new)


def again(root: Path) -> None:
    """Complete what is complete; not one file may be written."""
    inbox = Layout(root).inbox
    before = {path: path.stat().st_mtime_ns for path in inbox.iterdir()}
    candidate(root)
    if before != {path: path.stat().st_mtime_ns for path in inbox.iterdir()}:
        sys.exit("the second pass has written")


def _read(root: Path) -> None:
    inbox = Layout(root).inbox
    with measured():
        for name in sorted(os.listdir(inbox)):
            (inbox / name).read_bytes()


def _rewrite(root: Path) -> None:
    inbox = Layout(root).inbox
    with measured():
        folder = os.open(inbox, os.O_RDONLY)
        for index, name in enumerate(sorted(os.listdir(inbox))):
            data = (inbox / name).read_bytes()
            if index % 3 != 2:
                staged = inbox / f".{name}.tmp"
                descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
                os.write(descriptor, data)
                os.fsync(descriptor)
                os.close(descriptor)
                staged.rename(inbox / name)
                os.fsync(folder)


if __name__ == "__main__":
    sides = {"candidate": candidate, "again": again, "read": _read, "rewrite": _rewrite}
    sides[sys.argv[1]](Path(sys.argv[2]))
