"""Drive any server of the Agent Client Protocol over stdio."""

import contextlib
import functools
import itertools
import json
import os
import select
import threading
import time
from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path

from msgspec.structs import replace

from treadle.agents import answer, claude, codex, copilot, gemini, oneshot, opencode, trouble
from treadle.agents import answer as prompts
from treadle.agents.answer import Answer
from treadle.agents.backend import (
    AgentResult,
    AgentSpec,
    Ask,
    Heard,
    Launch,
    Meter,
    Remark,
    Tool,
    Usage,
    at,
    counted,
    items_at,
    money_at,
    number_at,
    parse_event,
    text_at,
    total_usage,
    turn_usage,
)
from treadle.agents.backend import run_child as run_child
from treadle.config import agents
from treadle.config.schema import AgentConfig
from treadle.contract.events import StepError
from treadle.contract.messages import AgentRequest
from treadle.errors import FormatError
from treadle.sandbox.mask import Mask

Decide = Callable[[object], str | None]

_LOOK = 0.01
_WAIT = 0.05
_CHUNK = 1 << 16
_VERSION = 1
_NO_METHOD = -32601
_BEGUN = ("agent_message_chunk", "agent_thought_chunk", "tool_call")


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
        self.is_begun = False  # whether the model has said or done anything
        self._said: list[str] = []

    def open(self, cwd: Path, meta: Mapping[str, object]) -> None:
        """Greet the server and begin a session in a folder; `meta` is for this server only.

        It gets a name, if it takes one: else a server may ask its model for it, unasked and untold.
        """
        none = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        greeted = self._ask("initialize", protocolVersion=_VERSION, clientCapabilities=none)
        begun = self._ask("session/new", cwd=str(cwd), mcpServers=[], **meta)
        self.session = text_at(begun, "sessionId")
        if at(greeted, "agentCapabilities", "sessionCapabilities", "title") is not None:
            with contextlib.suppress(FormatError):
                self._ask("session/set_title", sessionId=self.session, title="treadle")

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
            raise FormatError("the server does not read its input")

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
        self.is_begun |= at(update, "sessionUpdate") in _BEGUN
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
    return _option(params, "allow_once") or _option(params, "allow")


def _result(message: Mapping[str, object]) -> Mapping[str, object]:
    if "error" in message:
        details, code = at(message, "error", "data"), number_at(message, "error", "code")
        words = text_at(message, "error", "message") or "the server refused"
        status = f"status {code}: " if 400 <= code < 600 else ""  # of the service, passed on
        raise FormatError(f"{status}{words} {json.dumps(details) if details else ''}".strip())
    found = message.get("result")
    return found if isinstance(found, dict) else {}


_PARTING = 3.0  # seconds between the end of a conversation and the end of the server
_CHANGES = ("edit", "delete", "move")
_ERROR = "Error: "  # how a server says in a message that its service failed


# The tools whose servers are known: a server shares its tool's state and isolation.
PRESETS = {
    tool.name: tool for tool in (gemini.TOOL, opencode.TOOL, copilot.TOOL, codex.TOOL, claude.TOOL)
}
# A server of the user's own: nothing is known about its state or logins.
_OWN = Tool(name="acp", home="", state_variable="", tell=lambda event: iter(()))


def preset(config: AgentConfig) -> Tool:
    """Return what is known about an agent's server."""
    return PRESETS[config.preset] if config.preset else _OWN


def run(spec: AgentSpec, request: AgentRequest, prompt: str, step_dir: Path) -> AgentResult:
    """Hold one conversation: the prompt, and one repair if the answer cannot be used."""
    tool, role = preset(spec.config), request.step.role
    turn = functools.partial(_converse, request, prompt)
    return oneshot.lend_login(tool, spec, role, step_dir, turn)


def launch(ask: Ask) -> Launch:
    """Return how to start the server; presets stand apart, away from settings."""
    known = preset(ask.spec.config)
    start = known.launch(ask)
    program = known.server(ask) or agents.argv(ask.spec.root, ask.spec.config)
    argv = (*program, *ask.spec.config.extra_args)
    cwd = ask.apart if known.acp else start.cwd
    return replace(start, argv=argv, cwd=cwd, env={**start.env, **known.adapter(ask)})


class _Talk:
    """A conversation in a thread of its own, while the server runs."""

    def __init__(self, ask: Ask, request: AgentRequest, prompt: str, cwd: Path) -> None:
        self._mask = Mask(ask.spec.environment)
        self._ask, self._request, self._prompt, self._cwd = ask, request, prompt, cwd
        self.line = Conversation(ask.scratch, ask.spec.stdout, self._decide, self._note)
        self._ended_at: float | None = None
        self._cancelled_at: float | None = None
        self.stopped = ""
        self.found: Answer | str | None = None
        self.repaired: str | None = None
        self.error = self.said = ""
        self.breach: StepError | None = None
        self._calls: list[Usage | None] = []
        self.ceiling = oneshot.Ceiling(ask.spec, self.used)
        self._thread = threading.Thread(target=self._hold, name="acp")

    def start(self) -> None:
        """Begin to talk; the server may come up meanwhile."""
        self._thread.start()

    def close(self) -> None:
        """Wait for the thread after the server's end."""
        self.line.hang_up()
        self._thread.join()
        self.line.close()

    def should_stop(self) -> str | None:
        """Cancel politely before a stop, and end a server that outstays its conversation."""
        over = None if self._ended_at else self.ceiling.look()
        reason, now = over or self._ask.spec.should_stop(), time.monotonic()
        if reason and self._cancelled_at is None:
            self._cancelled_at, self.stopped = now, reason
            self.line.cancel()
        if reason and (self._ended_at or now - (self._cancelled_at or now) > _PARTING):
            return reason
        if self._ended_at and now - self._ended_at > _PARTING:
            return "the conversation is over"
        return self._breach(now)

    def used(self) -> Usage | None:
        """Return what was told of the turns, or more, if the tool itself has counted it by now."""
        config, tool = self._ask.spec.config, preset(self._ask.spec.config)
        counters = ("cost", *tool.acp.get("cumulative", ()))
        told = total_usage(self._calls, counters, None)
        # The tool's own record has a name that its server chose.
        found = Meter([told] if told else []).usage(tool, replace(self._ask, session="*"))
        cost = max(found.cost_usd if found else 0.0, self.line.cost)
        known = replace(found or Usage(), cost_usd=cost)
        return turn_usage([known], (), config) if found or cost else None

    def _breach(self, now: float) -> str | None:
        """Hold the limits that the keeper cannot see, because the output is a pipe."""
        limits = self._ask.spec.limits
        if now - self.line.heard_at > limits.idle:
            self.breach = StepError.IDLE_TIMEOUT
            return f"silent for {limits.idle:g} s; raise agents.{self._ask.spec.name}.idle_timeout"
        if self.line.bytes > limits.output_bytes:
            self.breach = StepError.OUTPUT_LIMIT
            return f"printed more than {limits.output_bytes} bytes"
        return None

    def _hold(self) -> None:
        try:
            known = preset(self._ask.spec.config).acp
            self.line.open(self._cwd, {"_meta": known["meta"]} if "meta" in known else {})
            self._note(Remark("session", self.line.session or ""))
            self.found = self._turn(self._prompt)
            if isinstance(self.found, str):
                self.repaired = self.found
                self.found = self._turn(prompts.repair(self.found))
        except FormatError as error:
            self.found, self.error = None, error.message
        self._ended_at = time.monotonic()
        self.line.hang_up()

    def _turn(self, prompt: str) -> Answer | str:
        text, ended = self.line.prompt(prompt)
        self.said = text
        used = _usage(ended, self.line.cost)
        self._calls.append(used)
        reason = text_at(ended, "stopReason")
        self._note(Remark("text", text))
        self._note(Remark("done", reason))
        if reason not in ("end_turn", "max_tokens", "max_turn_requests"):
            raise FormatError(f"the turn ended with {reason or 'nothing'}")
        found = oneshot.read_answer(Heard(text=text), self._request, self._ask.step_dir)
        if isinstance(found, str) and used is None and text.strip():
            self._refuse_failure(text)
        return found

    def _refuse_failure(self, text: str) -> None:
        """Take a message for an error of the service: known servers always tell what was used."""
        if self._ask.spec.config.preset or _ERROR in text:
            raise FormatError(text[max(text.rfind(_ERROR), 0) :].strip())

    def _decide(self, params: object) -> str | None:
        """Allow what the sandbox holds in anyway; without one, only changes in the right place."""
        kind = text_at(params, "toolCall", "kind")
        if self._ask.is_held or kind not in _CHANGES:
            return allow(params)
        named = [text_at(item, "path") for item in items_at(params, "toolCall", "locations")]
        places = [Path(os.path.normpath(name)) for name in named]  # `..` leads out
        roots = self._ask.roots
        inside = places and all(any(p.is_relative_to(r) for r in roots) for p in places)
        return allow(params) if inside else None

    def _note(self, note: Remark) -> None:
        oneshot.add_events(self._ask.events, [note], self._mask)


def _converse(request: AgentRequest, prompt: str, ask: Ask) -> AgentResult:
    spec, start = ask.spec, launch(ask)
    prepared, _ = oneshot.prepare(ask, start, prompt)
    talk = _Talk(ask, request, prompt, start.cwd)
    prepared = replace(
        prepared,
        stdout=talk.line.stdout,
        limits=spec.limits._replace(idle=inf),
        should_stop=talk.should_stop,
    )
    talk.start()
    try:
        ended, result = run_child(prepared, start.argv, talk.line.stdin)
    finally:
        talk.close()
    result = replace(result, output_bytes=result.output_bytes + talk.line.bytes)
    return replace(_settled(spec, talk, ended.reason, result), usage=talk.used())


def _settled(spec: AgentSpec, talk: _Talk, reason: str, result: AgentResult) -> AgentResult:
    """A finished conversation counts, however the server then left, if only it is gone."""
    if result.error is StepError.MAY_STILL_RUN:
        return result
    if talk.found is not None:
        clean = AgentResult(message="answered", output_bytes=result.output_bytes)
        found = answer.result(spec, clean, talk.found, talk.said)
        found = replace(found, repaired=talk.repaired)
        return trouble.refused(spec, talk.said, found) if isinstance(talk.found, str) else found
    if talk.breach:
        return replace(result, error=talk.breach)
    if talk.ceiling.over:
        return talk.ceiling.exceeded(preset(spec.config), result)
    if talk.stopped:  # however politely the server then left
        told = f"agent {spec.name} was stopped: {talk.stopped}"
        return replace(result, error=StepError.INTERRUPTED, message=told)
    by_itself = reason in ("exit", "signal", "lost")
    if not by_itself and (reason != "stopped" or spec.should_stop()):
        return replace(result, may_retry=reason == "timeout" and not talk.line.is_begun)
    return trouble.named(preset(spec.config), spec, Heard(error=talk.error), result)


def _usage(ended: object, cost: float) -> Usage | None:
    """Return a turn's numbers: all of it, or by its models, of which only some servers tell all."""
    quota = at(ended, "_meta", "quota")
    told = [it for it in (at(ended, "usage"), at(quota, "token_count")) if it is not None]
    models = items_at(quota, "model_usage")
    by_model = total_usage([_counted(at(it, "token_count")) for it in models], (), None)
    both = filter(None, [*map(_counted, told[:1]), by_model])
    found = max(both, key=lambda it: it.input_tokens, default=None)
    name = text_at(models, 0, "model") or None
    return replace(found, model=name, cost_usd=cost) if found else None


def _counted(used: object) -> Usage:
    """Read a server's numbers; whether the input has the cached part in it only the total tells."""
    names = [
        ("inputTokens", "cachedReadTokens", "outputTokens"),
        ("inputTokens", "cachedInputTokens", "outputTokens"),
        ("input_tokens", "cached_tokens", "output_tokens"),
    ]
    read = [counted(used, *them) for them in names]
    found = max(read, key=lambda it: (it.input_tokens + it.output_tokens, it.cached_tokens))
    given = number_at(used, "totalTokens") - found.output_tokens
    return replace(found, input_tokens=max(given, found.input_tokens))
