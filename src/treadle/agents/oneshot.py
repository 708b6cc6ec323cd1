"""Drive a command-line tool: prompt on stdin, events on stdout, one repair of its answer."""

import functools
import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from treadle.agents import answer, backend, login, settings, trouble
from treadle.agents.answer import Answer
from treadle.agents.backend import (
    MAX_LINE,
    AgentResult,
    AgentSpec,
    Ask,
    Event,
    Heard,
    Launch,
    Meter,
    Remark,
    Tool,
    Usage,
    hear,
    parse_event,
    read_events,
    turn_usage,
)
from treadle.contract import Role, messages
from treadle.contract.events import StepError
from treadle.contract.messages import AgentRequest
from treadle.errors import FormatError
from treadle.files import beneath, walk
from treadle.ids import utc
from treadle.layout import GROWTH, PROMPT, SCORECARD, VERDICT_JSON
from treadle.sandbox.mask import Mask

_LONGEST = 400
_MAX_VERDICT = 8 << 20
_COUNT_EVERY = 0.5
_SELDOM = 10  # times what a count takes: the record of a long conversation is read again each time


class Live(Struct):
    """Turns the tool's stdout into `agent_event` lines, as far as it has come."""

    stdout: Path
    events: Path
    tell: Callable[[Event], Iterator[Remark]]
    mask: Mask
    at: int = 0
    meter: Meter = field(default_factory=Meter)

    def catch_up(self) -> None:
        """Append what the tool has said in whole lines since the last time."""
        if not self.stdout.is_file():
            return
        found: list[Remark] = []
        with self.stdout.open("rb") as stream:
            stream.seek(self.at)
            while (line := stream.readline(MAX_LINE)).endswith(b"\n") or len(line) == MAX_LINE:
                self.at += len(line)
                found += self.tell(parse_event(line) or {})
        for note in found:
            self.meter.add(note)
        if told := [note for note in found if note.text or note.kind != "usage"]:
            add_events(self.events, told, self.mask)


def add_events(path: Path, notes: list[Remark], mask: Mask) -> None:
    """Append notes to a step's events, without secrets: others read them at once."""
    now = utc(datetime.now(UTC))
    with path.open("a", encoding="utf-8", errors="backslashreplace") as stream:
        for note in notes:
            line = {
                "ts": now,
                "type": "agent_event",
                "kind": note.kind,
                "message": _short(mask.text(note.text)),
            }
            stream.write(json.dumps(line, ensure_ascii=False) + "\n")


def run(
    tool: Tool, spec: AgentSpec, request: AgentRequest, prompt: str, step_dir: Path
) -> AgentResult:
    """Take one turn; success is the tool's own word for it and a valid answer."""
    turn = functools.partial(_turn, tool, request, prompt)
    return lend_login(tool, spec, request.step.role, step_dir, turn)


def lend_login(
    tool: Tool, spec: AgentSpec, role: Role, step_dir: Path, turn: Callable[[Ask], AgentResult]
) -> AgentResult:
    """Take a turn with the user's login, and return what the tool has made of that."""
    if why := settings.refusal(tool, spec.config, spec.environment):
        message = f"agent {spec.name} ({tool.name}): {why}"
        return AgentResult(error=StepError.AUTH_FAILED, message=message)
    with login.lend(tool, spec.environment, spec.config) as lent:
        spec = replace(spec, environment={**spec.environment, **lent.env})
        result = turn(ask(spec, role, step_dir, lent.folder))
        if result.error == StepError.AUTH_FAILED:
            return replace(result, may_retry=lent.is_outdated)
        return result if result.error else replace(result, login=lent.refreshed())


def ask(spec: AgentSpec, role: Role, step_dir: Path, state: Path) -> Ask:
    """Return the first call of a turn."""
    return Ask(
        spec=spec,
        role=role,
        step_dir=step_dir,
        state=state,
        scratch=spec.stdout.parent,
        edits=role in ("do", "act") and spec.config.edits is not False,
        session=str(uuid.uuid4()),
    )


def prepare(asked: Ask, launch: Launch, text: str) -> tuple[AgentSpec, Path]:
    """Write what the tool finds when it starts; return its surroundings and the prompt's file."""
    for name, content in launch.files.items():
        beneath.write(asked.state, name, content.encode())
    apart = {}
    if launch.cwd == asked.apart:
        if not walk.is_folder(asked.apart):
            beneath.remove_tree(asked.apart)
            asked.apart.mkdir()
        # A user may keep the home itself in git.
        apart = {"GIT_CEILING_DIRECTORIES": str(asked.state)}
    prompt = asked.scratch / PROMPT
    prompt.write_text(text, errors="backslashreplace")
    spec = replace(
        asked.spec,
        workspace=launch.cwd,
        environment={**asked.spec.environment, **apart, **launch.env},
        writable=(*asked.spec.writable, asked.state),
    )
    return spec, prompt


def read_answer(heard: Heard, request: AgentRequest, step_dir: Path) -> Answer | str:
    """Return the answer, or what is wrong with it or with the files its role must leave."""
    try:
        found = answer.find(heard.text, step_dir, heard.structured)
        if isinstance(found, Answer) and found.response.status == "ok":
            _check_files(request, step_dir)
    except FormatError as error:
        return error.message
    return found


def keep_attempt(spec: AgentSpec, why: str) -> Path:
    """Put what a call left behind under `attempts/`, so that the next one starts clean."""
    attempts = spec.stdout.parent / "attempts"
    attempts.mkdir(exist_ok=True)
    folder = attempts / str(len(walk.names(attempts)) + 1)
    folder.mkdir()
    (folder / "reason.txt").write_text(why + "\n", errors="backslashreplace")
    for name in (spec.stdout.name, spec.stderr.name, PROMPT, GROWTH):
        path = spec.stdout.with_name(name)
        if path.exists():
            path.rename(folder / name)
    return folder


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _turn(tool: Tool, request: AgentRequest, text: str, asked: Ask) -> AgentResult:
    spec, step_dir, complaint = asked.spec, asked.step_dir, None
    calls: list[Usage | None] = []
    spent = 0
    while True:
        result, heard = _call(tool, asked, text, calls)
        calls.append(heard.usage)
        spent += result.output_bytes
        found = None if result.error else read_answer(heard, request, step_dir)
        if not isinstance(found, str) or asked.resume or not heard.session:
            break
        keep_attempt(spec, f"the answer could not be used: {found}")
        asked, text, complaint = replace(asked, resume=heard.session), answer.repair(found), found
    if found is not None:
        result = replace(answer.result(spec, result, found, heard.text), repaired=complaint)
    if isinstance(found, str):
        result = trouble.refused(spec, heard.text, result)
    used = turn_usage(calls, tool.cumulative, spec.config)
    return replace(result, usage=used, output_bytes=spent)


class Ceiling(Struct):
    """Ends a turn that has used too much; counts now and then."""

    spec: AgentSpec
    count: Callable[[], Usage | None]
    over: str = ""
    counts_at: float = 0.0

    def look(self) -> str | None:
        """Count what is used by now; return why that must end the turn."""
        if time.monotonic() < self.counts_at:
            return self.over or None
        began = time.thread_time()
        if found := self.count():
            self.over = self.over or self.spec.on_usage(found) or ""
        pause = max(_COUNT_EVERY, (time.thread_time() - began) * _SELDOM)
        self.counts_at = time.monotonic() + pause
        return self.over or None

    def exceeded(self, tool: Tool, result: AgentResult) -> AgentResult:
        """Say that this is why the turn ended."""
        text = f"agent {self.spec.name} ({tool.name}) was stopped: {self.over}"
        return replace(result, error=StepError.BUDGET_EXCEEDED, message=text)


def _call(
    tool: Tool, asked: Ask, text: str, before: Sequence[Usage | None]
) -> tuple[AgentResult, Heard]:
    """Run the tool once and hear it out."""
    launch = tool.launch(asked)
    spec, stdin = prepare(asked, launch, text)
    mask = Mask(asked.spec.environment)
    live = Live(spec.stdout, asked.events, tool.tell, mask)

    def count() -> Usage | None:
        calls = [*before, live.meter.usage(tool, asked)]
        return turn_usage(calls, tool.cumulative, spec.config)

    ceiling = Ceiling(asked.spec, count)

    def tick(elapsed: float) -> None:
        live.catch_up()
        spec.on_tick(elapsed)

    def stop() -> str | None:
        return ceiling.look() or spec.should_stop()

    watched = replace(spec, on_tick=tick, should_stop=stop)
    ended, result = backend.run_child(watched, launch.argv, stdin)
    if not ended.vouched:
        return result, Heard(usage=live.meter.usage(tool, asked))
    live.catch_up()
    heard = hear(tool, read_events(spec.stdout), asked)
    if ceiling.over and ended.reason == "stopped":
        return ceiling.exceeded(tool, result), heard
    if ended.reason not in ("exit", "signal", "lost"):
        is_mute = ended.reason == "timeout" and not (heard.is_begun or asked.resume)
        return replace(result, may_retry=is_mute), heard
    if heard.is_done and ended.reason == "exit":
        if ended.exit_code:
            words = f"it is done, with exit code {ended.exit_code}"
            add_events(asked.events, [Remark("warning", words)], mask)
        return AgentResult(message="answered", output_bytes=result.output_bytes), heard
    return trouble.named(tool, spec, heard, result), heard


def _check_files(request: AgentRequest, step_dir: Path) -> None:
    if request.step.role == "check":
        ids = [item.id for item in request.norma.acceptance_criteria]
        data = walk.read(step_dir / VERDICT_JSON, max_bytes=_MAX_VERDICT)
        messages.parse_verdict(data, source=VERDICT_JSON, asked=ids)
        if not walk.read(step_dir / SCORECARD, max_bytes=_MAX_VERDICT).strip():
            raise FormatError("scorecard.md is empty")
