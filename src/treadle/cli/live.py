"""Read what the agent of a running step tells, line by line as it comes."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from treadle.cli import output


class LiveEvents:
    """The events of the step that works now; a step that ends takes its file along."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: BinaryIO | None = None
        self._rest = b""

    def show(self, as_json: bool) -> None:
        """Print what has come since the last time."""
        for line in self._lines():
            _print(line, as_json)

    def _lines(self) -> Iterator[bytes]:
        yield from self._read()
        if self._is_new():
            self._open = self._path.open("rb")
            yield from self._read()

    def _read(self) -> Iterator[bytes]:
        """Read on in the open file, even if it was moved meanwhile."""
        if self._open is None:
            return
        *whole, self._rest = (self._rest + self._open.read()).split(b"\n")
        yield from whole

    def _is_new(self) -> bool:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return False
        if self._open is None:
            return True
        return found.st_ino != os.fstat(self._open.fileno()).st_ino


def _print(line: bytes, as_json: bool) -> None:
    try:
        event = json.loads(line)
    except ValueError:
        return
    if as_json:
        output.print_json_line(event)
        return
    kind = output.paint(f"agent {event.get('kind', ''):<15}", "dim")
    output.line(event.get("ts", "")[11:19], kind, event.get("message"), flush=True)
