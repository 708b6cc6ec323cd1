"""A scripted model: one loopback server that speaks the four protocols of the real tools.

A script is a function from what the tool just sent to what the model says. The server is
stateless; it reads role, step folder and workspace from the prompt, and counts tool results.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

KEY = "sk-test-0123456789abcdefghijklmnop"
ROLES = {
    "You are the planner": "plan",
    "You are the one who does": "do",
    "You are the checker": "check",
    "You are the one who puts": "act",
}


@dataclass(frozen=True)
class Turn:
    """What a tool sent: the words of the conversation, and how far its own work has come."""

    protocol: str
    text: str
    tools: tuple[str, ...]
    results: int
    number: int

    @property
    def role(self):
        found = [(self.text.rfind(words), role) for words, role in ROLES.items()]
        return max(found)[1] if max(found)[0] >= 0 else None

    @property
    def step(self):
        return re.findall(r"Your step folder is `(.*?)`", self.text)[-1]

    @property
    def workspace(self):
        return re.findall(r"The repository is `(.*?)`", self.text)[-1]

    @property
    def is_repair(self):
        return "Your answer could not be used" in self.text


@dataclass(frozen=True)
class Shell:
    """Call the tool's shell."""

    command: str


@dataclass(frozen=True)
class Say:
    """End the turn with these words."""

    text: str


@dataclass(frozen=True)
class Fail:
    """Answer with an HTTP error."""

    status: int
    message: str = "scripted failure"
    kind: str = "error"
    resets_at: int | None = None


@dataclass(frozen=True)
class Hang:
    """Accept and never answer; with `headers`, stall in mid-stream."""

    headers: bool = False


Script = Callable[[Turn], Shell | Say | Fail | Hang]


def answer(summary="done", files=(), status="ok") -> str:
    body = {"version": 1, "status": status, "summary": summary, "files": list(files)}
    return json.dumps({**body, "next_actions": [], "errors": []})


class Model:
    """The server, with everything it was asked."""

    def __init__(self, script: Script):
        self.script = script
        self.turns: list[Turn] = []
        self.requests: list[str] = []
        self.keys: set[str | None] = set()
        self.hosts: list[str] = []  # whom every request was for; a tool may take us for its proxy
        self.sent: list[tuple[int, int]] = []  # tokens in and out of every call that was answered
        self.seen = b""  # the last body with an image
        self.closing = threading.Event()
        self._listen(0)

    @property
    def counted(self) -> tuple[int, int]:
        """Return the tokens of all calls, in and out."""
        return sum(it[0] for it in self.sent), sum(it[1] for it in self.sent)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def _listen(self, port: int) -> None:
        handler = type("Handler", (_Handler,), {"model": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @contextmanager
    def unreachable(self):
        """Let nobody connect meanwhile."""
        self._end()
        yield
        self._listen(self._server.server_port)
        self._thread.start()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.closing.set()
        self._end()

    def _end(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    model: Model
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def parse_request(self):
        found = super().parse_request()
        if found:
            host = re.match(r"(?:https?://)?([^/?#]+)", self.path)
            self.model.hosts.append(host[1] if host else self.headers.get("host", ""))
        return found

    def do_CONNECT(self):
        """Open a tunnel, to nobody but the model itself."""
        self.send_response(200)
        self.end_headers()

    def do_GET(self):
        self.model.requests.append(f"GET {self.path}")
        self._json(404, {"error": {"message": "not here"}})

    def do_POST(self):
        path = self.path.partition("?")[0]
        self.model.requests.append(f"POST {path}")
        self.model.keys.add(self.headers.get("authorization"))
        raw = self._body()
        self.model.seen = raw if b"data:image/" in raw else self.model.seen
        body = json.loads(raw or b"{}")
        speak = next((s for s in PROTOCOLS if s.route.search(path)), None)
        if speak is None or path.endswith(("countTokens", "count_tokens")):
            self._json(200, {"totalTokens": 1, "input_tokens": 1})
            return
        turn = speak.read(body, len(self.model.turns) + 1)
        if turn.role is None or not turn.tools:
            self._reply(speak, Say("ok"), turn, body)
            return
        self.model.turns.append(turn)
        reply = self.model.script(turn)
        if isinstance(reply, Fail):
            error = {"message": reply.message, "type": reply.kind}
            error |= {"code": reply.status} if reply.kind == "error" else {}
            error |= {"resets_at": reply.resets_at} if reply.resets_at else {}
            # Some tools try again by themselves and wait as long as the service says.
            again = {"retry-after-ms": "1", "retry-after": "0"} if speak is Chat else {}
            self._json(reply.status, {"type": "error", "error": error}, again)
        elif isinstance(reply, Hang):
            self._hang(reply, speak, turn)
        else:
            self._reply(speak, reply, turn, body)

    def _reply(self, speak, reply, turn, body):
        self.model.sent.append((speak.TOKENS, 50))
        if speak in (Messages, Chat) and not body.get("stream"):
            self._json(200, speak.whole(reply, turn))
        else:
            self._stream(speak.write(reply, turn))

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        data = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def _json(self, status, document, headers=()):
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _begin(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True

    def _stream(self, events):
        self._begin()
        for event in events:
            line = event if isinstance(event, str) else json.dumps(event)
            named = isinstance(event, dict) and event.get("type")
            head = f"event: {event['type']}\n" if named else ""
            self.wfile.write(f"{head}data: {line}\n\n".encode())
        self.wfile.flush()

    def _hang(self, reply, speak, turn):
        if reply.headers:
            self._begin()
            first = next(iter(speak.write(Say("wait"), turn)))
            if speak is not PROTOCOLS[0]:
                self.wfile.write(f"data: {json.dumps(first)}\n\n".encode())
            self.wfile.flush()
        while not self.model.closing.is_set():
            time.sleep(0.05)
        self.close_connection = True


def _texts(value) -> Iterator[str]:
    """Yield every text of a conversation, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key in ("text", "content", "parts"):
            if key in value:
                yield from _texts(value[key])


def _turn(protocol, users, tools, results, number) -> Turn:
    return Turn(protocol, "\n".join(_texts(users)), tuple(filter(None, tools)), results, number)


def _since_user(items, is_user, is_result) -> int:
    """Count tool results after the last plain message of the user."""
    last = max((n for n, item in enumerate(items) if is_user(item)), default=-1)
    return sum(is_result(item) for item in items[last + 1 :])


class Responses:
    """OpenAI Responses: codex."""

    route = re.compile(r"/responses$")
    TOKENS = 1000  # of them 400 from the cache

    @staticmethod
    def read(body, number):
        items = body.get("input", [])
        users = [item for item in items if item.get("role") == "user"]
        results = _since_user(
            items,
            lambda item: item.get("role") == "user",
            lambda item: str(item.get("type")).endswith("call_output"),
        )
        tools = [tool.get("name") for tool in body.get("tools", [])]
        return _turn("responses", users, tools, results, number)

    @staticmethod
    def write(reply, turn):
        if isinstance(reply, Shell):
            arguments = json.dumps({"cmd": reply.command})
            call = {"call_id": f"c{turn.number}", "name": "exec_command", "arguments": arguments}
            item = {"type": "function_call", "id": f"fc{turn.number}", **call}
        else:
            content = [{"type": "output_text", "text": reply.text, "annotations": []}]
            item = {"type": "message", "id": f"m{turn.number}", "role": "assistant"}
            item["content"] = content
        yield {"type": "response.created", "response": {"id": f"r{turn.number}"}}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        usage = {
            "input_tokens": 1000,
            "input_tokens_details": {"cached_tokens": 400},
            "output_tokens": 50,
            "output_tokens_details": {"reasoning_tokens": 10},
            "total_tokens": 1050,
        }
        done = {"id": f"r{turn.number}", "status": "completed", "output": [item], "usage": usage}
        yield {"type": "response.completed", "response": done}


class Messages:
    """Anthropic Messages: claude."""

    route = re.compile(r"/v1/messages$")
    TOKENS = 1400  # of them 400 from the cache, which it tells apart
    USED: ClassVar = {"input_tokens": 1000, "cache_read_input_tokens": 400}

    @staticmethod
    def read(body, number):
        items = body.get("messages", [])
        users = [item for item in items if item["role"] == "user"]
        tools = [tool.get("name") for tool in body.get("tools", [])]
        results = _since_user(items, Messages._is_plain, Messages._is_result)
        return _turn("messages", users, tools, results, number)

    @staticmethod
    def _blocks(item):
        content = item.get("content")
        return content if isinstance(content, list) else [{"type": "text"}]

    @staticmethod
    def _is_result(item):
        return any(block.get("type") == "tool_result" for block in Messages._blocks(item))

    @staticmethod
    def _is_plain(item):
        return item["role"] == "user" and not Messages._is_result(item)

    @staticmethod
    def write(reply, turn):
        usage = Messages.USED | {"output_tokens": 1}
        message = {"id": f"m{turn.number}", "type": "message", "role": "assistant"}
        message |= {"model": "claude-scripted", "content": [], "stop_reason": None, "usage": usage}
        yield {"type": "message_start", "message": message}
        block, delta, stop = Messages._block(reply, turn)
        yield {"type": "content_block_start", "index": 0, "content_block": block}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        used = {"output_tokens": 50}
        yield {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": used}
        yield {"type": "message_stop"}

    @staticmethod
    def whole(reply, turn):
        block, delta, stop = Messages._block(reply, turn)
        if block["type"] == "text":
            block = {"type": "text", "text": delta["text"]}
        else:
            block |= {"input": json.loads(delta["partial_json"])}
        found = {"id": f"m{turn.number}", "type": "message", "role": "assistant"}
        found |= {"model": "claude-scripted", "content": [block], "stop_reason": stop}
        return found | {"usage": Messages.USED | {"output_tokens": 50}}

    @staticmethod
    def _block(reply, turn):
        if isinstance(reply, Shell):
            name, given = "Bash", {"command": reply.command, "description": "work"}
        elif "StructuredOutput" in turn.tools and reply.text.startswith('{"version"'):
            name, given = "StructuredOutput", json.loads(reply.text)
        else:
            return (
                {"type": "text", "text": ""},
                {"type": "text_delta", "text": reply.text},
                "end_turn",
            )
        block = {"type": "tool_use", "id": f"toolu_{turn.number}", "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(given)}
        return block, delta, "tool_use"


class Chat:
    """Chat completions: opencode, copilot."""

    route = re.compile(r"/chat/completions$")
    TOKENS = 1000  # of them 400 from the cache

    @staticmethod
    def read(body, number):
        items = body.get("messages", [])
        users = [item for item in items if item["role"] == "user"]
        tools = [tool.get("function", {}).get("name") for tool in body.get("tools") or []]
        results = _since_user(
            items, lambda item: item["role"] == "user", lambda item: item["role"] == "tool"
        )
        return _turn("chat", users, tools, results, number)

    @staticmethod
    def _message(reply, turn):
        if isinstance(reply, Say):
            return {"role": "assistant", "content": reply.text}, "stop"
        given = json.dumps({"command": reply.command, "description": "work"})
        call = {"index": 0, "id": f"call_{turn.number}", "type": "function"}
        call["function"] = {"name": "bash", "arguments": given}
        return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"

    @staticmethod
    def _usage():
        details = {"cached_tokens": 400}
        return {
            "prompt_tokens": 1000,
            "completion_tokens": 50,
            "total_tokens": 1050,
            "prompt_tokens_details": details,
        }

    @staticmethod
    def write(reply, turn):
        base = {"id": f"c{turn.number}", "object": "chat.completion.chunk", "model": "scripted"}
        message, reason = Chat._message(reply, turn)
        first = {"index": 0, "delta": message, "finish_reason": None}
        yield base | {"choices": [first]}
        yield base | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
        yield base | {"choices": [], "usage": Chat._usage()}
        yield "[DONE]"

    @staticmethod
    def whole(reply, turn):
        message, reason = Chat._message(reply, turn)
        choice = {"index": 0, "message": message, "finish_reason": reason}
        base = {"id": f"c{turn.number}", "object": "chat.completion", "model": "scripted"}
        return base | {"choices": [choice], "usage": Chat._usage()}


class Gemini:
    """Gemini: streamGenerateContent."""

    route = re.compile(r":(stream)?[gG]enerateContent$")
    TOKENS = 1000

    @staticmethod
    def read(body, number):
        items = body.get("contents", [])
        plain = [item for item in items if item.get("role") == "user" and not Gemini._result(item)]
        declared = [tool.get("functionDeclarations", []) for tool in body.get("tools", [])]
        names = [entry.get("name") for group in declared for entry in group]
        results = _since_user(items, lambda item: item in plain, Gemini._result)
        return _turn("gemini", plain, names, results, number)

    @staticmethod
    def _result(item):
        return any("functionResponse" in part for part in item.get("parts", []))

    @staticmethod
    def write(reply, turn):
        if isinstance(reply, Shell):
            given = {"command": reply.command, "description": "work"}
            call = {"id": f"f{turn.number}", "name": "run_shell_command", "args": given}
            part = {"functionCall": call}
        else:
            part = {"text": reply.text}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
        usage = {"promptTokenCount": 1000, "cachedContentTokenCount": 400}
        usage |= {"candidatesTokenCount": 50, "totalTokenCount": 1050}
        yield {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}


PROTOCOLS = (Responses, Messages, Chat, Gemini)
