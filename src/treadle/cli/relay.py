"""Stand between a client and what speaks its protocol: loaded for a call, let go when idle.

The protocol's packages hold twice the memory that a waiting program should. A new speaker hears
the client's greeting again before anything else, and its answer to that stays here.
"""

import json
import os
import select
from collections.abc import Callable
from typing import Any, NamedTuple

from treadle.proc import helper

_CHUNK = 1 << 16
_INVALID_REQUEST, _INTERNAL_ERROR = -32600, -32603


class _Speaker(NamedTuple):
    pid: int
    sink: int
    source: int


class Relay:
    """Passes lines between standard input and output and a speaker that comes and goes."""

    def __init__(self, argv: tuple[str, ...], env: dict[str, str], idle: float) -> None:
        self._command = (argv, env)
        self._idle = idle
        self._speaker: _Speaker | None = None
        self._greeting: list[bytes] = []
        self._unheard = False  # the answer to a greeting that was said again
        self._open: dict[str, object] = {}  # requests without an answer
        self._rest = {"client": b"", "speaker": b""}

    def serve(self) -> None:
        """Pass lines on until the client leaves."""
        try:
            while self._turn():
                pass
        finally:
            self._end()

    def _turn(self) -> bool:
        source = [self._speaker.source] if self._speaker else []
        patience = self._idle if self._speaker and not self._open else None
        ready = select.select([0, *source], [], [], patience)[0]
        if not ready:
            self._end()
        elif ready[0] != 0 or len(ready) > 1:
            if not self._read(source[0], "speaker", self._from_speaker):
                self._end()
        elif not self._read(0, "client", self._from_client):
            return False
        return True

    def _read(self, file: int, who: str, take: Callable[[bytes], None]) -> bool:
        """Take the whole lines of what is there; False at the end."""
        data = os.read(file, _CHUNK)
        *lines, self._rest[who] = (self._rest[who] + data).split(b"\n")
        for line in lines:
            take(line + b"\n")
        return bool(data)

    def _from_client(self, line: bytes) -> None:
        said = _parsed(line)
        named = isinstance(said.get("id", 0), int | str) and isinstance(said.get("method", ""), str)
        if not named or said.get("jsonrpc") != "2.0":
            if line.strip():
                _refuse(None, _INVALID_REQUEST, "this is not a message of JSON-RPC 2.0")
            return
        if self._speaker is None:
            self._speaker = self._begin()
            self._unheard = bool(self._greeting)
            self._pass_on(b"".join(self._greeting))
        if said.get("method") == "initialize":
            self._greeting = [line]
        elif said.get("method") == "notifications/initialized":
            self._greeting.append(line)
        elif said.get("method") == "notifications/cancelled":
            params = said.get("params")
            gone = params.get("requestId") if isinstance(params, dict) else None
            self._open.pop(json.dumps(gone), None)
        if "id" in said and "method" in said:
            self._open[json.dumps(said["id"])] = said["id"]
        self._pass_on(line)

    def _from_speaker(self, line: bytes) -> None:
        said = _parsed(line)
        if "id" in said and "method" not in said:
            if self._unheard:
                self._unheard = False
                return
            self._open.pop(json.dumps(said["id"]), None)
        _write(1, line)

    def _begin(self) -> _Speaker:
        theirs, sink = os.pipe()
        source, ours = os.pipe()
        try:
            return _Speaker(helper.start(*self._command, (theirs, ours, 2)), sink, source)
        finally:
            os.close(theirs)
            os.close(ours)

    def _end(self) -> None:
        """Let the speaker go, hear it out, and answer what it cannot answer any more."""
        if self._speaker is None:
            return
        pid, sink, source = self._speaker
        os.close(sink)
        while self._read(source, "speaker", self._from_speaker):
            pass
        os.close(source)
        os.waitpid(pid, 0)
        self._speaker, self._rest["speaker"] = None, b""
        for id_ in self._open.values():
            _refuse(id_, _INTERNAL_ERROR, "treadle ended before it could answer")
        self._open.clear()

    def _pass_on(self, data: bytes) -> None:
        try:
            _write(self._speaker.sink if self._speaker else 1, data)
        except BrokenPipeError:
            self._end()


def _refuse(id_: object, code: int, message: str) -> None:
    told = {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": message}}
    _write(1, json.dumps(told).encode() + b"\n")


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
