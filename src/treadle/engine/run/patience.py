"""Decide whether a failed turn is taken again, and when; and wait until then."""

import time
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from treadle.agents import oneshot, table
from treadle.agents.backend import AgentResult, AgentSpec, AgentUsage, Remark, used_by_all
from treadle.config.schema import AgentConfig
from treadle.contract.events import EventType, NewEvent, StepError
from treadle.engine.run import outage
from treadle.engine.run.run import Run
from treadle.engine.run.step_folder import Stage
from treadle.ids import utc
from treadle.layout import EVENTS

_GROWTH = 4.0
_LONGEST = 900.0  # seconds between two tries
# How often a turn is taken at most that ended in a way which rather lies in the turn itself.
_TRIES = {StepError.AGENT_EXIT: 3, StepError.TIMEOUT: 2}
_LOOK, _TICK = 0.1, 1.0


class NextTry(NamedTuple):
    """When a tool may be asked again, and whether this turn waits for it."""

    at: datetime
    is_waited_for: bool


def next_try(
    config: AgentConfig, result: AgentResult, failures: int, since: float, now: datetime
) -> NextTry | None:
    """Return when to ask again after so many failures in so many seconds; None if never.

    What the tool said of its return counts. The last pause ends with the patience.
    """
    if not table.is_prompted(config) or result.error is None:
        return None
    pause = min(config.retry_wait * _GROWTH ** min(failures - 1, 10), _LONGEST)
    if result.error in _TRIES and not outage.is_down(result):
        is_bad = result.error == StepError.AGENT_EXIT and not result.may_retry
        is_over = is_bad or failures >= _TRIES[result.error]
        return None if is_over else NextTry(now + timedelta(seconds=pause), True)
    if result.is_overtaken:
        return NextTry(now, True)
    if not outage.is_down(result):
        return None
    left = config.patience - since
    if result.resume_at and result.resume_at > now:
        return NextTry(result.resume_at, result.resume_at <= now + timedelta(seconds=left))
    shortened = min(pause, left) if left > 0 else pause
    return NextTry(now + timedelta(seconds=shortened), left > 0)


class Tries(Struct):
    """The tries of one turn: what they used and printed, and how they failed."""

    used: list[AgentUsage] = field(default_factory=list)
    printed: int = 0
    happened: list[NewEvent] = field(default_factory=list)
    paused: float = 0.0
    failed_at: float | None = None
    failures: int = 0
    shortens: bool = True  # whether a prompt that is too long may be cut, which is done once

    def add(self, agent: str, result: AgentResult) -> AgentResult:
        """Count an agent's try; return it with what all of them used."""
        self.used.append(AgentUsage(agent, result.usage))
        self.printed += result.output_bytes
        if result.error:
            self.failures += 1
            self.failed_at = self.failed_at or time.monotonic()
        if len(self.used) == 1:
            return result
        return replace(result, output_bytes=self.printed, usage=used_by_all(self.used))

    def shorten(self, words: str, shorter: str) -> str | None:
        """Take the shorter prompt in place of one that was too long, if it is any shorter."""
        self.shortens = False
        if len(shorter) >= len(words):
            return None
        text = f"asked again with {len(shorter)} characters instead of {len(words)}"
        self.happened.append(NewEvent(EventType.HISTORY_SHORTENED, text))
        return shorter

    def ask_another(self) -> None:
        """Begin to count anew with an agent that has not failed yet."""
        self.failures, self.failed_at = 0, None

    @property
    def waited(self) -> float:
        """Return for how long the turn has been failing."""
        return time.monotonic() - self.failed_at if self.failed_at else 0.0

    def working(self, stage: Stage) -> Stage:
        """Return the step as if it had begun later by as long as it only waited."""
        return replace(stage, started=stage.started + self.paused)

    def note(self, result: AgentResult) -> None:
        """Remember how a try failed that is not the last."""
        failed = {"code": str(result.error), "attempt": len(self.used)}
        self.happened.append(NewEvent(EventType.ATTEMPT_FAILED, result.message, failed))

    def pause(
        self, run: Run, stage: Stage, spec: AgentSpec, result: AgentResult, again: NextTry
    ) -> AgentResult | None:
        """Wait for the next try; return how the turn ends instead."""
        began = time.monotonic()
        try:
            return _wait(run, self.working(stage), spec, result, again.at)
        finally:
            self.paused += time.monotonic() - began


def _wait(
    run: Run, stage: Stage, spec: AgentSpec, result: AgentResult, until: datetime
) -> AgentResult | None:
    """Wait for the next try, and say so; return how the turn ends if work must stop or gives way.

    Other work may come while it waits.
    """
    name, is_down = outage.service(spec.name, spec.config), outage.is_down(result)
    then = outage.clock(utc(until), run.tools.now())
    text = f"waiting for {name} ({result.error}), next try at {then}"
    run.tools.note(run.id, text)
    oneshot.add_events(stage.live / EVENTS, [Remark("waiting", text)], run.tools.mask)
    end = time.monotonic() + (until - run.tools.now()).total_seconds()
    told = time.monotonic()
    while (left := end - time.monotonic()) > 0:
        if reason := spec.should_stop():
            return replace(result, error=StepError.INTERRUPTED, message=reason)
        if time.monotonic() - told > _TICK:
            told = time.monotonic()
            spec.on_tick(stage.seconds())
            if is_down and not run.tools.worker and outage.is_due(run.tools, name):
                break
            if is_down and run.tools.gives_way(run.id):
                return replace(result, resume_at=until)
        time.sleep(min(left, _LOOK))
    if is_down:
        outage.try_on(run, name, _LONGEST)
    return None
