"""Speak the Agent Client Protocol with a server: JSON-RPC, a line each way at a time.

The server's stdin and stdout are named pipes, so that it is started and killed by the same
keeper as everything else; what it says is kept in the file where other output is. That file
cannot be its stdout: servers made with asyncio write to nothing but pipes.
"""

import contextlib
import itertools
import json
import os
import select
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from treadle.agents.tool import Remark, at, items_at, money_at, number_at, parse_event, text_at
from treadle.errors import FormatError

Decide = Callable[[object], str | None]

_LOOK = 0.01
_WAIT = 0.05
_CHUNK = 1 << 16
_VERSION = 1
_NO_METHOD = -32601


class Conversation:
    """One session with one server; used by one thread, closed by another."""

    def __init__(
        self, folder: Path, kept: Path, decide: Decide, note: Callable[[Remark], None]
    ) -> None:
        self.stdin, self.stdout = folder / "acp.in", folder / "acp.out"
        self._out: int | None = _pipe(self.stdin)
        self._in = _pipe(self.stdout)
        self._kept = kept.open("wb")
        self._rest = b""
        self.heard_at, self.bytes = time.monotonic(), 0
        self._decide, self._note = decide, note
        self._ids = itertools.count(1)
        self._over = threading.Event()
        self._writing = threading.Lock()
        self.session: str | None = None
        self.cost = 0.0
        self._said: list[str] = []

    def open(self, cwd: Path) -> None:
        """Greet the server and begin a session in a folder."""
        none = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        self._ask("initialize", protocolVersion=_VERSION, clientCapabilities=none)
        begun = self._ask("session/new", cwd=str(cwd), mcpServers=[])
        self.session = text_at(begun, "sessionId")

    def prompt(self, text: str) -> tuple[str, Mapping[str, object]]:
        """Return what the agent said since it last used a tool, and how its turn ended."""
        self._said.clear()
        block = {"type": "text", "text": text}
        ended = self._ask("session/prompt", sessionId=self.session, prompt=[block])
        return "".join(self._said), ended

    def cancel(self) -> None:
        """Ask the agent to stop what it does."""
        if self.session:
            with contextlib.suppress(FormatError):
                self._send({"method": "session/cancel", "params": {"sessionId": self.session}})

    def close(self) -> None:
        """Give everything back once the server is gone and nobody talks any more."""
        self.hang_up()
        os.close(self._in)
        self._kept.close()
        self.stdin.unlink()
        self.stdout.unlink()

    def hang_up(self) -> None:
        """Close the line: the server sees the end of its input."""
        self._over.set()
        with self._writing:
            if self._out is not None:
                os.close(self._out)
                self._out = None

    def _ask(self, method: str, **params: object) -> Mapping[str, object]:
        number = next(self._ids)
        self._send({"id": number, "method": method, "params": params})
        while True:
            over = self._over.is_set()
            for line in self._lines():
                message = parse_event(line)
                if message and message.get("id") == number and "method" not in message:
                    return _result(message)
                if message:
                    self._hear(message)
            if over:
                raise FormatError("the server ended in mid-conversation")

    def _lines(self) -> list[bytes]:
        """Return the lines that have come; wait a little if there are none."""
        if not select.select([self._in], [], [], _WAIT)[0]:
            return []
        data = os.read(self._in, _CHUNK)
        self._kept.write(data)
        self._kept.flush()
        self.heard_at, self.bytes = time.monotonic(), self.bytes + len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        return whole

    def _send(self, message: dict[str, object]) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        with self._writing:
            while data and self._out is not None:
                try:
                    data = data[os.write(self._out, data) :]
                except BlockingIOError:
                    if self._over.is_set():
                        break
                    time.sleep(_LOOK)
        if data:
            raise FormatError("the server does not read what it is told")

    def _hear(self, message: Mapping[str, object]) -> None:
        method, params = message.get("method"), message.get("params")
        if method == "session/update":
            self._update(at(params, "update"))
        elif method == "session/request_permission":
            self._permit(message.get("id"), params)
        elif "id" in message and method:
            error = {"code": _NO_METHOD, "message": f"no method {method}"}
            self._send({"id": message["id"], "error": error})

    def _update(self, update: object) -> None:
        title = text_at(update, "title") or text_at(update, "toolCallId")
        match at(update, "sessionUpdate"):
            case "agent_message_chunk":
                self._said.append(text_at(update, "content", "text"))
            case "tool_call":
                self._said.clear()
                self._note(Remark("tool_start", title))
            case "tool_call_update" if at(update, "status") in ("completed", "failed"):
                self._note(Remark("tool_end", f"{text_at(update, 'status')}: {title}"))
            case "usage_update":
                self.cost = money_at(update, "cost", "amount") or self.cost

    def _permit(self, number: object, params: object) -> None:
        chosen = self._decide(params)
        title = text_at(params, "toolCall", "title")
        self._note(Remark("permission", f"{'granted' if chosen else 'refused'}: {title}"))
        outcome = {"outcome": "selected", "optionId": chosen or _option(params, "reject")}
        if outcome["optionId"] is None:
            outcome = {"outcome": "cancelled"}
        self._send({"id": number, "result": {"outcome": outcome}})


def _pipe(path: Path) -> int:
    """Make a named pipe and open it for both, so that nobody's opening waits for the other."""
    path.unlink(missing_ok=True)
    os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def _option(params: object, kind: str) -> str | None:
    options = items_at(params, "options")
    found = [option for option in options if text_at(option, "kind").startswith(kind)]
    return text_at(found[0], "optionId") if found else None


def allow(params: object) -> str | None:
    """Return the option that allows what is asked for, this once if possible."""
    options = items_at(params, "options")
    once = [option for option in options if at(option, "kind") == "allow_once"]
    return text_at(once[0], "optionId") if once else _option(params, "allow")


def _result(message: Mapping[str, object]) -> Mapping[str, object]:
    if "error" in message:
        details, code = at(message, "error", "data"), number_at(message, "error", "code")
        words = text_at(message, "error", "message") or "the server refused"
        status = f"status {code}: " if 400 <= code < 600 else ""  # of the service, passed on
        raise FormatError(f"{status}{words} {json.dumps(details) if details else ''}".strip())
    found = message.get("result")
    return found if isinstance(found, dict) else {}
