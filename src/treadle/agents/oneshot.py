"""Drive a command-line tool: prompt on stdin, events on stdout, one repair of its answer."""

import functools
import json
import os
import re
import tomllib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from treadle.agents import answer, backend, login, prompt
from treadle.agents.answer import Answer
from treadle.agents.backend import (
    MAX_LINE,
    AgentResult,
    AgentSpec,
    Ask,
    Event,
    Heard,
    Launch,
    Remark,
    Tool,
    Usage,
    hear,
    parse_event,
    read_events,
    total_usage,
)
from treadle.contract import Role, StepError, messages
from treadle.contract.messages import AgentRequest
from treadle.errors import FormatError
from treadle.files import beneath, walk
from treadle.ids import utc
from treadle.layout import PROMPT, SCORECARD, VERDICT_JSON
from treadle.sandbox.mask import Mask

_TROUBLE = tomllib.loads((resources.files("treadle.agents") / "trouble.toml").read_text())
KINDS = {StepError(name): kind for name, kind in _TROUBLE["kinds"].items()}
_PATTERNS = tuple(
    (error, re.compile("|".join(kind["words"]), re.IGNORECASE))
    for error, kind in KINDS.items()
    if "words" in kind
)
_BY_STATUS = {status: e for e, kind in KINDS.items() for status in kind.get("statuses", ())}
_STATUS = re.compile(r"(?:status|code|error|http)\D{0,20}\b([45]\d\d)\b", re.IGNORECASE)
# Words that also stand in answers with a telling status.
_VAGUE = frozenset({StepError.NETWORK, StepError.SERVER_ERROR})
_PARTS = re.compile(r"(\d+)\s*(d|h|m|s)", re.IGNORECASE)
_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}


class Trouble(NamedTuple):
    """One kind of failure, and for a usage limit when it is over."""

    error: StepError
    resume_at: datetime | None = None


def classify(text: str, status: int | None, now: datetime) -> Trouble:
    """Return what the tool's own words and an HTTP status amount to."""
    for error, pattern in _PATTERNS:
        if pattern.search(text):
            if error in _VAGUE and status:
                break
            return Trouble(error, reset_time(text, now) if error == "usage_limit" else None)
    if status is None and (found := _STATUS.search(text)):
        status = int(found[1])
    return Trouble(_by_status(status))


def reset_time(text: str, now: datetime) -> datetime | None:
    """Read from a tool's words when its limit is over, in UTC."""
    for pattern, read in _TIMES:
        if found := pattern.search(text):
            return read(found, now)
    return None


def _by_status(status: int | None) -> StepError:
    if status is None:
        return StepError.AGENT_EXIT
    if status >= 500:
        return StepError.SERVER_ERROR
    return _BY_STATUS.get(status, StepError.REQUEST_REFUSED)


def _epoch(found: re.Match[str], now: datetime) -> datetime | None:
    seconds = int(found[1]) / (1000 if len(found[1]) > 10 else 1)
    return datetime.fromtimestamp(seconds, UTC)


def _seconds(found: re.Match[str], now: datetime) -> datetime | None:
    return now + timedelta(seconds=int(found[1]))


def _duration(found: re.Match[str], now: datetime) -> datetime | None:
    parts = {_UNITS[unit.lower()]: int(value) for value, unit in _PARTS.findall(found[1])}
    return now + timedelta(**parts)


def _date(found: re.Match[str], now: datetime) -> datetime | None:
    words = f"{found[1][:3].title()} {found[2]} {found[3]} {found[4].upper().replace(' ', '')}"
    try:
        local = datetime.strptime(words, "%b %d %Y %I:%M%p")
        return local.replace(tzinfo=now.astimezone().tzinfo).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _clock(found: re.Match[str], now: datetime) -> datetime | None:
    hour = int(found[1]) % 12 + (12 if found[3].lower() == "pm" else 0)
    there = now.astimezone(_zone(found[4]))
    then = there.replace(hour=hour, minute=int(found[2] or 0), second=0, microsecond=0)
    return (then if then > there else then + timedelta(days=1)).astimezone(UTC)


def _zone(name: str | None) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


_LONGEST = 400
_TAIL = 4000  # characters of stderr that may hold the reason
_MAX_VERDICT = 8 << 20


@dataclass
class Live:
    """Turns the tool's stdout into `agent_event` lines, as far as it has come."""

    stdout: Path
    events: Path
    tell: Callable[[Event], Iterator[Remark]]
    mask: Mask
    at: int = 0

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
        if found:
            add_events(self.events, found, self.mask)


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
    with login.lend(tool, spec.environment) as lent:
        result = turn(ask(spec, role, step_dir, lent.folder))
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
    prompt = asked.scratch / PROMPT
    prompt.write_text(text, errors="backslashreplace")
    spec = replace(
        asked.spec,
        workspace=launch.cwd,
        environment={**asked.spec.environment, **launch.env},
        writable=(*asked.spec.writable, asked.state),
    )
    return spec, prompt


def failed(tool: Tool, spec: AgentSpec, heard: Heard, result: AgentResult) -> AgentResult:
    """Say why the tool did not finish, in its own words and with what to do."""
    words = heard.error or walk.tail(spec.stderr, _TAIL).strip()
    found = classify(words, heard.status, datetime.now(UTC))
    advice = KINDS[found.error]["advice"].format(name=spec.name, log_in=tool.log_in or "the tool")
    said = " ".join(words.split())[:300] or result.message
    return replace(
        result,
        error=found.error,
        message=f"agent {spec.name} ({tool.name}): {said}; {advice}",
        may_retry=KINDS[found.error].get("passing", False),
        resume_at=found.resume_at,
    )


def read_answer(heard: Heard, request: AgentRequest, step_dir: Path) -> Answer | str:
    """Return the answer, or what is wrong with it or with the files its role must leave."""
    try:
        found = answer.find(heard.text, step_dir, heard.structured)
        if isinstance(found, Answer) and found.response.status == "ok":
            _check_files(found, request, step_dir)
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
    for name in (spec.stdout.name, spec.stderr.name, PROMPT):
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
        result, heard = _call(tool, asked, text)
        calls.append(heard.usage)
        spent += result.output_bytes
        found = None if result.error else read_answer(heard, request, step_dir)
        if not isinstance(found, str) or asked.resume or not heard.session:
            break
        keep_attempt(spec, f"the answer could not be used: {found}")
        asked, text, complaint = replace(asked, resume=heard.session), prompt.repair(found), found
    if found is not None:
        result = replace(answer.result(spec, result, found), repaired=complaint)
    used = total_usage(calls, tool.cumulative, spec.config.prices)
    return replace(result, usage=used, output_bytes=spent)


def _call(tool: Tool, asked: Ask, text: str) -> tuple[AgentResult, Heard]:
    """Run the tool once and hear it out."""
    launch = tool.launch(asked)
    spec, stdin = prepare(asked, launch, text)
    mask = Mask(asked.spec.environment)
    live = Live(spec.stdout, asked.events, tool.tell, mask)

    def tick(elapsed: float) -> None:
        live.catch_up()
        spec.on_tick(elapsed)

    ended, result = backend.run_child(replace(spec, on_tick=tick), launch.argv, stdin)
    if not ended.vouched:
        return result, Heard()
    live.catch_up()
    heard = hear(tool, read_events(spec.stdout), asked)
    if ended.reason not in ("exit", "signal", "lost"):
        return result, heard
    if heard.is_done and ended.reason == "exit":
        return AgentResult(message="answered", output_bytes=result.output_bytes), heard
    return failed(tool, spec, heard, result), heard


def _check_files(found: Answer, request: AgentRequest, step_dir: Path) -> None:
    for name in found.response.files:
        if not os.path.lexists(step_dir / name):  # whatever its length
            raise FormatError(f"files: {name!r} is not in {step_dir}")
    if request.step.role == "check":
        ids = [item.id for item in request.norma.acceptance_criteria]
        data = walk.read(step_dir / VERDICT_JSON, max_bytes=_MAX_VERDICT)
        messages.parse_verdict(data, source=VERDICT_JSON, asked=ids)
        if not walk.read(step_dir / SCORECARD, max_bytes=_MAX_VERDICT).strip():
            raise FormatError("scorecard.md is empty")


_READERS = {
    "epoch": _epoch,
    "seconds": _seconds,
    "duration": _duration,
    "date": _date,
    "clock": _clock,
}
_TIMES = [(re.compile(words, re.I), _READERS[kind]) for kind, words in _TROUBLE["times"].items()]
