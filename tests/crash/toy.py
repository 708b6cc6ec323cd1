"""Commit steps to a folder and a store, right or with a chosen flaw: a program for the instruments.

Started often, so it imports little: `python -I -S toy.py work|recover WORLD FLAW`.
"""

import hashlib
import os
import shutil
import signal
import sqlite3
import sys
from pathlib import Path

STEPS = 2


def main(verb: str, world: Path, flaw: str) -> None:
    """Work or recover, with the chosen flaw."""
    if verb == "recover":
        _recover(world, flaw)
        return
    agent = os.posix_spawn("/bin/sleep", ["sleep", "900"], {}) if flaw == "orphaning" else None
    store = open_store(world)
    done = {number for (number,) in store.execute("SELECT number FROM steps")}
    for number in range(STEPS):
        if number not in done:
            _step(world, store, number, flaw)
    if agent:
        os.kill(agent, signal.SIGTERM)


def _step(world: Path, store: sqlite3.Connection, number: int, flaw: str) -> None:
    folder = world / "steps" / f"{number}.tmp"
    (folder / "logs").mkdir(parents=True)
    _write(folder / "output", f"{number}".encode() * 700, flaw)
    _ask_child(folder / "logs" / "said")
    files = [f"{_digest(path)} {path.relative_to(folder)}" for path in _files(folder)]
    _write(folder / "manifest", "\n".join(files).encode(), flaw)
    for path in sorted(folder.rglob("*")):
        _sync(path, flaw)
    _sync(folder, flaw)
    if flaw == "early-word":
        print(number, flush=True)
    if flaw == "row-first":
        _commit(store, number, "ok", "own")
    folder.rename(folder.with_suffix(""))
    _sync(folder.parent, flaw)
    if flaw != "row-first":
        _commit(store, number, "ok", "own")
    if flaw != "early-word":
        print(number, flush=True)


def _recover(world: Path, flaw: str) -> None:
    store = open_store(world)
    rows = {number for (number,) in store.execute("SELECT number FROM steps")}
    for folder in (world / "steps").iterdir():
        if folder.suffix == ".tmp":
            shutil.rmtree(folder)
        elif int(folder.name) not in rows:
            is_good = is_whole(folder) and flaw != "demoting"
            _commit(store, int(folder.name), "ok" if is_good else "fail", "adopted")


def _ask_child(log: Path) -> None:
    """Let another process write, through a descriptor that it inherits."""
    said = os.open(log, os.O_WRONLY | os.O_CREAT)
    actions = [(os.POSIX_SPAWN_DUP2, said, 1)]
    child = os.posix_spawn("/bin/sh", ["sh", "-c", "echo a; echo b"], {}, file_actions=actions)
    os.close(said)
    if os.waitpid(child, 0)[1]:
        raise OSError("the child failed")


def _write(path: Path, data: bytes, flaw: str) -> None:
    try:
        with path.open("xb") as file:
            file.write(data)
    except OSError:
        if flaw != "deaf":
            raise


def _sync(path: Path, flaw: str) -> None:
    if flaw == "no-sync" or (flaw == "no-file-sync" and path.is_file()):
        return
    if flaw == "no-parent-sync" and path.name == "steps":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _commit(store: sqlite3.Connection, number: int, status: str, word: str) -> None:
    """Record a step; its word stands nowhere else, so only the store can keep it."""
    store.execute("BEGIN IMMEDIATE")
    store.execute("INSERT INTO steps VALUES (?, ?, ?)", (number, status, word))
    store.execute("COMMIT")


def open_store(world: Path) -> sqlite3.Connection:
    """Open the store the power-safe way."""
    store = sqlite3.connect(world / "store.db", isolation_level=None)
    store.execute("PRAGMA journal_mode=WAL")
    store.execute("PRAGMA synchronous=FULL")
    return store


def is_whole(folder: Path) -> bool:
    """Tell whether a step's folder holds what its manifest says."""
    try:
        lines = (folder / "manifest").read_text().splitlines()
        files = [line.split(" ", 1) for line in lines]
        return len(files) == 2 and all(_digest(folder / name) == digest for digest, name in files)
    except (OSError, ValueError):
        return False


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
