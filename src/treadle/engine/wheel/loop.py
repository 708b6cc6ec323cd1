"""Turn the wheel: take one committed step after the other until the run is over."""

from collections.abc import Iterator
from functools import partial

import msgspec
from msgspec.structs import replace

from treadle.agents import login
from treadle.agents.backend import AgentResult
from treadle.contract import Role, follows, messages
from treadle.contract.events import EventType, StepError
from treadle.engine import letters, prompt
from treadle.engine.checks import looks, observe
from treadle.engine.checks.observe import Observation
from treadle.engine.run import confinement, held, night, outage, step_folder
from treadle.engine.run.memory import Moment, Progress, next_role
from treadle.engine.run.run import Archive, Run, reach
from treadle.engine.run.step_folder import (
    Stage,
    close_stage,
    discard_contents,
    lay_out,
    open_stage,
    set_apart,
)
from treadle.engine.wheel import ask, change, commit, decide, end, judge
from treadle.engine.wheel.commit import Finished
from treadle.engine.wheel.decide import Turn
from treadle.engine.wheel.judge import Finding
from treadle.errors import GitError
from treadle.sandbox.outside import View
from treadle.store.runs import RunRow


def drive_run(run: Run) -> RunRow:
    """Take steps until the run has passed, failed or stopped; return its row."""
    for role in turns(run):
        try:
            record_step(run, take_step(run, role))
        except GitError as error:
            stop_run(run, error)
    return finish_run(run)


def turns(run: Run) -> Iterator[Role]:
    """Yield whose turn it is as long as the run goes on."""
    role = "do" if run.order.script else next_role(run.tools.store.steps(run.id))
    if run.memory.held:  # what was approved is held no more
        role = run.memory.held.role
    while run.row.status == "running" and not _stopped_between_steps(run):
        role = next(iter(run.memory.ahead), role)
        yield role
        role = follows(role)


def take_step(run: Run, role: Role) -> Finished:
    """Take the next step of `run` in this role, up to the moment in which the store is told."""
    stage = open_stage(run, role)
    show(run, "step", f"{role} begins", stage)
    reach("after_stage")
    observation = _observe(run, stage)
    events = run.events(observation.happened)
    news = letters.news(run, role)
    request = prompt.build_request(run, stage, observation, news.text)
    data = messages.encode(request)
    lay_out(stage, data, has_outbox=bool(run.order.message))
    before = judge.look_outside(run, stage)
    reply = ask.ask(run, stage, request, observation, partial(_tick, run, stage))
    result, stage = reply.result, replace(stage, started=stage.started + reply.paused)
    events = run.renumbered(events)  # a role may have got another agent
    events += run.events(reply.happened, events)
    finding = _found(run, stage, result, observation, before)
    if reply.used and not result.error:  # with its login given back, others may ask the tool
        outage.settle(run.tools, outage.service_of(run.tools, run.order.agent(role)))
    events += run.events(finding.happened, events)
    finding = replace(finding, message=run.tools.mask.text(finding.message))
    if not finding.keeps_files:
        discard_contents(stage)
    entries = close_stage(stage, data, _output(result), run.tools.mask)
    turn = Turn(stage, result, finding, observation.rows, events, news.given, reply.used)
    found = decide.manifest(run, turn)
    done = commit.put_in_place(run, stage, entries, found, finding.built_in)
    return done._replace(told=_told(finding))


def stop_run(run: Run, error: GitError) -> None:
    """Stop a run in whose step git could not work; the step is taken again when it goes on."""
    step_folder.remove_staged(run.folder)
    run.end("stopped", error.code, error.message)


def record_step(run: Run, done: Finished, archive: Archive | None = None) -> None:
    """Tell the store of a step, then whoever it wrote to, then the onlooker."""
    commit.record(run, done, archive)
    run.tools.counted.pop(run.id, None)
    letters.deliver(run, done.stage.final, done.stage.role)
    show(run, "committed", done.told, done.stage)


def finish_run(run: Run) -> RunRow:
    """Tell everybody how the run ended."""
    end.end_run(run)
    if run.obstacle:
        raise run.obstacle
    show(run, "ended", run.memory.reason or "")
    return run.row


def _observe(run: Run, stage: Stage) -> Observation:
    """Run the criteria's commands where this step calls for it."""
    if stage.role == "check":
        seen = observe.observe(run, stage, "check")
    elif stage.role == "plan" and stage.iteration == 1 and run.order.checks.before:
        seen = looks.look(run, stage)
    else:
        return observe.NOTHING
    if (seen.seen or seen.stopped) and not observe.in_clean_place(run):
        return seen._replace(happened=(*seen.happened, *change.undo_commands(run, stage)))
    return seen


def _found(
    run: Run, stage: Stage, result: AgentResult, observation: Observation, before: View | None
) -> Finding:
    """Judge what the agent left, and bring its change in."""
    if result.error is StepError.MAY_STILL_RUN:  # so nothing that it can change is looked at
        set_apart(run, stage)
        confinement.abandon_scratch(run)
        return Finding(message=result.message, error=result.error)
    confinement.clear_scratch(run)
    reach("after_agent")
    finding = change.take(run, stage, judge.judge(run, stage, result, observation, before))
    if not (finding.error or finding.skipped):
        finding = replace(finding, held=held.hold_plan(run, stage, finding.message))
    return _keep_login(run, stage, result, finding)


def _keep_login(run: Run, stage: Stage, result: AgentResult, finding: Finding) -> Finding:
    """Let the user keep tokens that a successful step has refreshed: most work only once."""
    if not result.login or finding.error or not login.give_back(result.login, run.tools.env):
        return finding
    name, fields = result.login.path.name, list(result.login.fields)
    text = f"agent {run.order.agent(stage.role).name} refreshed {', '.join(fields)} in {name}"
    return finding.noting(EventType.LOGIN_REFRESHED, text, file=name, fields=fields)


def _tick(run: Run, stage: Stage, elapsed: float) -> None:
    show(run, "tick", "", stage, elapsed)
    end.keep_claim(run)


def _output(result: AgentResult) -> bytes | None:
    """Return `output.json`: the agent's own object where it gave one, else the response's."""
    if result.document is not None:
        body = msgspec.json.encode(result.document)
    elif result.response is not None:
        body = msgspec.json.encode(result.response)
    else:
        return None
    return msgspec.json.format(body, indent=2) + b"\n"


def _told(finding: Finding) -> str:
    """Say first what counts: the verdict, and whether the agent claimed otherwise."""
    if finding.error:
        return f"FAILED ({finding.error}): {finding.message}"
    if finding.verdict is None:
        return finding.message
    claim = f", refuted by the command of {', '.join(finding.refuted)}" if finding.refuted else ""
    return f"{finding.verdict}{claim}: {finding.message}"


def show(
    run: Run, kind: Moment, message: str, stage: Stage | None = None, elapsed: float | None = None
) -> None:
    """Tell the onlooker where the run stands."""
    total = len(run.order.criteria)
    run.tools.watch(
        Progress(
            kind=kind,
            run_id=run.id,
            message=message,
            role=stage.role if stage else None,
            iteration=stage.iteration if stage else run.row.iteration,
            max_iterations=run.order.budgets.max_iterations,
            elapsed=stage.seconds() if stage and elapsed is None else elapsed or 0.0,
            passed=total - len(run.memory.failing) if run.row.verdict else 0,
            total=total,
            name=run.name,
        )
    )


def _stopped_between_steps(run: Run) -> bool:
    stop = run.tools.interrupted() or confinement.stop_request(run)
    status, reason, message, over, happened = decide.decide_between(run.order, run.spent, stop)
    if status == "running":
        return night.stops(run)
    needed = over.needed if over else run.memory.budget_needed
    run.end(status, reason, message, *happened, budget_needed=needed)
    return True
