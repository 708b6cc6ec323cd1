"""Ask the agent of a step: what it may use, and how often it is tried."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from treadle.agents import table
from treadle.agents.backend import AgentResult, AgentSpec, AgentUsage
from treadle.agents.oneshot import keep_attempt
from treadle.config.schema import dotted
from treadle.contract import messages
from treadle.contract.events import EventType, NewEvent, StepError
from treadle.contract.messages import AgentRequest
from treadle.engine import prompt
from treadle.engine.checks.observe import Observation
from treadle.engine.run import (
    ceiling,
    confinement,
    fallback,
    order,
    outage,
    patience,
    step_folder,
)
from treadle.engine.run.order import exceeded_budget
from treadle.engine.run.patience import NextTry, Tries
from treadle.engine.run.run import Run
from treadle.engine.run.step_folder import Stage
from treadle.engine.wheel import change, decide
from treadle.git import build, workspace
from treadle.layout import STDERR, STDOUT, WORKSPACE_DIFF
from treadle.proc.keeper import Limits

_PART = 8  # of what a prompt holds at most, where the whole was too long for the model
# Without a budget of its own a single step may still not fill the disk with words.
_MAX_OUTPUT = 64 << 20
# What a step may leave in its folder and its folder for temporary files while it works.
_MAX_DISK = 4 << 30


class Reply(NamedTuple):
    """How a turn ended, and what happened until then."""

    result: AgentResult
    happened: tuple[NewEvent, ...] = ()
    paused: float = 0.0  # seconds that it waited for the tool's service
    used: Sequence[AgentUsage] = ()  # by each try


def ask(
    run: Run,
    stage: Stage,
    request: AgentRequest,
    observation: Observation,
    on_tick: Callable[[float], None],
) -> Reply:
    """Let the agent take its turn, unless what was observed makes that useless."""
    if observation.stopped:
        return Reply(AgentResult(error=StepError.INTERRUPTED, message=observation.stopped))
    if observation.foregone:
        return Reply(observation.foregone)
    if stage.role == "check" and observation.failing and run.order.checks.skip_agent_on_fail:
        spec = _spec(run, stage, on_tick)
        return Reply(table.BACKENDS["builtin"](spec, request, "", stage.folder))
    fallback.skip_broken(run, stage.role)
    reply = _until_answered(run, stage, request, on_tick)
    happened = [*reply.happened, *ceiling.untold(run, reply.used, reply.result)]
    if why := reply.result.repaired:
        happened.append(NewEvent(EventType.ANSWER_REPAIRED, f"asked again: {why}"))
    return reply._replace(happened=tuple(happened))


def _until_answered(
    run: Run, stage: Stage, request: AgentRequest, on_tick: Callable[[float], None]
) -> Reply:
    """Return the first answer, or how the last try ended; every failed try is kept.

    Each try gets what the ones before have left of its limits; a pause takes nothing of them.
    """
    spec, tried, words = _spec(run, stage, on_tick), Tries(), None
    while True:
        words = words or prompt.build(run, stage, request, spec.config)
        result = tried.add(spec.name, _try(run, stage, spec, request, words, tried))
        again = _after_try(run, tried.working(stage), spec, tried, result)
        is_moved, shorter = _move_on(run, stage, result), None
        if result.error == StepError.CONTEXT_TOO_LONG and tried.shortens:
            shorter = tried.shorten(words, prompt.build(run, stage, request, spec.config, _PART))
        if not (is_moved or shorter) and not (again and again.is_waited_for):
            result = replace(_explained(run, spec, result), resume_at=again.at if again else None)
            return Reply(result, tuple(tried.happened), tried.paused, tried.used)
        _set_back(run, stage, spec, request, result.message)
        tried.note(result)
        if is_moved:
            spec, words = _spec(run, stage, on_tick), None
            tried.ask_another()
        elif shorter:
            words = shorter
        elif again and (cut := tried.pause(run, stage, spec, result, again)):
            return Reply(cut, tuple(tried.happened), tried.paused, tried.used)


def _try(
    run: Run, stage: Stage, spec: AgentSpec, request: AgentRequest, words: str, tried: Tries
) -> AgentResult:
    limited = replace(
        spec,
        limits=_limits(run, tried.working(stage), tried.printed),
        on_usage=partial(ceiling.count, run, tried.working(stage), spec.name, tried.used),
        budget_usd=ceiling.left_usd(run, tried.used),
    )
    return table.BACKENDS[spec.config.type](limited, request, words, stage.folder)


def _move_on(run: Run, stage: Stage, result: AgentResult) -> bool:
    """Let another agent take the role if this one is missing, or out of its limit or login."""
    is_broken = result.error in (*outage.LASTS, StepError.AGENT_MISSING)
    if not is_broken or result.is_overtaken:
        return False
    return fallback.take_next(run, stage.role, str(result.error), result.message)


def _after_try(
    run: Run, stage: Stage, spec: AgentSpec, tried: Tries, result: AgentResult
) -> NextTry | None:
    """Take note of a tool that does not work; return when it is asked again after a failure."""
    now, is_down = run.tools.now(), outage.is_down(result)
    is_over = exceeded_budget(run.order.budgets, decide.spent_after(run, stage, result))
    if is_over and result.error == StepError.TIMEOUT:
        return None  # the limit was max_minutes, and says nothing of the tool
    again = patience.next_try(spec.config, result, tried.failures, tried.waited, now)
    if again and is_down:
        outage.note(run, spec, result, again.at, stops=not again.is_waited_for)
    if again and (is_over or (is_down and run.tools.gives_way(run.id))):
        return again._replace(is_waited_for=False)
    return again


def _explained(run: Run, spec: AgentSpec, result: AgentResult) -> AgentResult:
    """Add which denial of the sandbox an agent met that gave up."""
    if result.error != StepError.AGENT_EXIT:
        return result
    logs, table_ = (spec.stderr, spec.stdout), "routines" if run.order.script else "agents"
    told = confinement.denied(run, logs, spec.policy, dotted((table_, spec.name)))
    return replace(result, message=f"{result.message} ({told})") if told else result


def _spec(run: Run, stage: Stage, on_tick: Callable[[float], None]) -> AgentSpec:
    """Return the agent with everything it may use this time."""
    agent = run.order.agent(stage.role)
    config = agent.config if run.tools.worker else order.equipped(agent, run.tools.today)
    confinement.open_scratch(run)
    return AgentSpec(
        name=agent.name,
        config=config,
        root=run.tools.layout.root,
        workspace=run.place / config.path if config.path else run.place,
        environment=confinement.for_agent(run, table.variables(config, run.tools.env))
        | confinement.fetched(run)
        | config.env
        | step_folder.message_environment(run, stage)
        # Where `treadle mail send` leaves letters until the step is committed, and from whom.
        | {"TREADLE_LETTERS": str(stage.outbox), "TREADLE_AGENT": agent.name},
        stdout=stage.live / STDOUT,
        stderr=stage.live / STDERR,
        limits=_limits(run, stage),
        keeper=run.tools.keeper,
        should_stop=confinement.stopper(run),
        on_tick=on_tick,
        policy=confinement.for_role(run, stage.role, stage.folder),
        images=tuple(run.folder.images / name for name in run.order.images),
        tier=confinement.tier(run),
    )


def _limits(run: Run, stage: Stage, printed: int = 0) -> Limits:
    """Return what is left for the agent after it has printed so many bytes."""
    config, budgets = run.order.agent(stage.role).config, run.order.budgets
    wall, output = float(config.timeout), _MAX_OUTPUT
    if budgets.max_minutes is not None:
        left = budgets.max_minutes - run.spent.minutes
        wall = min(wall, max(left * 60 - stage.seconds(), 0.1))
    if budgets.max_output_mb is not None:
        left = budgets.max_output_mb - run.spent.output_mb
        output = min(output, max(int(left * 2**20) - printed, 1))
    limits = Limits(
        wall=wall,
        idle=table.idle_limit(config),
        output_bytes=output,
        disk_bytes=_MAX_DISK,
        disk=(stage.folder, confinement.scratch(run)),
    )
    return confinement.capped(limits, run.order.sandbox, (run.workspace.path,))


def _set_back(run: Run, stage: Stage, spec: AgentSpec, request: AgentRequest, why: str) -> None:
    """Keep what the try left, and bring workspace and step folder back to where it began."""
    kept = keep_attempt(spec, why)
    change.mend_workspace(run)
    if changes := workspace.changes(run.workspace):
        build.write_patch(run.workspace, run.head, kept / WORKSPACE_DIFF, changes)
        workspace.restore(run.workspace, run.head)
    step_folder.discard_contents(stage)
    step_folder.lay_out(stage, messages.encode(request), has_outbox=bool(run.order.message))
