"""Turn the wheel: take one committed step after the other until the run is over."""

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from treadle.agents import login, table
from treadle.agents.backend import AgentResult, AgentSpec
from treadle.contract import EventType, Role, StepError, follows
from treadle.contract import messages as requests_contract
from treadle.contract.messages import AgentRequest
from treadle.engine import letters
from treadle.engine.checks import observe
from treadle.engine.checks.observe import Observation
from treadle.engine.run import confinement, step_folder
from treadle.engine.run.memory import Moment, Progress
from treadle.engine.run.run import Archive, Run, criteria_passed, reach
from treadle.engine.run.step_folder import (
    Stage,
    close_stage,
    discard_contents,
    open_stage,
    set_apart,
)
from treadle.engine.wheel import ask, change, commit, decide, end, judge
from treadle.engine.wheel.change import Accepted
from treadle.engine.wheel.commit import Finished
from treadle.engine.wheel.judge import Finding
from treadle.errors import GitError
from treadle.files import atomic
from treadle.ids import utc
from treadle.layout import INPUT_JSON
from treadle.proc.keeper import Limits
from treadle.store.runs import RunRow, StepRow

# Without a budget of its own a single step may still not fill the disk with words.
_MAX_OUTPUT = 64 << 20
# What a step may leave in its folder and its folder for temporary files while it works.
_MAX_DISK = 4 << 30


def drive_run(run: Run) -> RunRow:
    """Take steps until the run has passed, failed or stopped; return its row."""
    for role in turns(run):
        if done := take_step(run, role):
            record_step(run, done)
    return finish_run(run)


def turns(run: Run) -> Iterator[Role]:
    """Yield whose turn it is as long as the run goes on."""
    role = "do" if run.order.script else next_role(run.tools.store.steps(run.id))
    while run.row.status == "running" and not _stopped_between_steps(run):
        yield role
        role = follows(role)


def take_step(run: Run, role: Role) -> Finished | None:
    """Take the next step of `run` in this role; None if git stops the run."""
    try:
        return _take_step(run, role)
    except GitError as error:
        step_folder.remove_staged(run.folder)
        run.end("stopped", error.code, error.message)
        return None


def record_step(run: Run, done: Finished, archive: Archive | None = None) -> None:
    """Tell the store of a step, then whoever it wrote to, then the onlooker."""
    commit.record(run, done, archive)
    letters.deliver(run, done.stage.final, done.stage.role)
    show(run, "committed", done.told, done.stage)


def finish_run(run: Run) -> RunRow:
    """Tell everybody how the run ended."""
    end.end_run(run)
    if run.obstacle:
        raise run.obstacle
    show(run, "ended", run.memory.reason or "")
    return run.row


def _take_step(run: Run, role: Role) -> Finished:
    stage = open_stage(run, role)
    show(run, "step", f"{role} begins", stage)
    reach("after_stage")
    observation = _observe(run, stage)
    request = ask.build_request(run, stage, observation.seen if role == "check" else ())
    data = requests_contract.encode(request)
    atomic.create(f"{stage.folder}/{INPUT_JSON}", data)
    before = judge.look_outside(run, stage)
    result = _ask(run, stage, request, observation)
    if result.error is StepError.MAY_STILL_RUN:
        finding, accepted = _abandon(run, stage, result)
    else:
        confinement.clear_scratch(run)
        closed = step_folder.open_up(stage.folder)
        step_folder.close_outbox(stage)
        reach("after_agent")
        finding = judge.judge(run, stage, result, observation, closed)
        finding = judge.judge_outside(run, stage, before, finding)
        finding = judge.review(run, stage, finding)
        finding, accepted = change.take(run, stage, finding)
        _keep_login(run, stage, result, finding)
    finding = finding.with_message(run.tools.mask.text(finding.message))
    if not finding.keeps_files:
        discard_contents(stage)
    entries = close_stage(stage, data, _output(result), run.tools.mask)
    found = decide.manifest(
        run, stage, result=result, finding=finding, rows=observation.rows, after=accepted.after
    )
    done = commit.put_in_place(run, stage, entries, found, accepted.built_in)
    return done._replace(told=_told(finding))


def _abandon(run: Run, stage: Stage, result: AgentResult) -> tuple[Finding, Accepted]:
    """Fail a step whose agent may still be at work, without a look at anything it can change."""
    set_apart(run, stage)
    confinement.abandon_scratch(run)
    return Finding(message=result.message, error=result.error), change.unchanged(run)


def _observe(run: Run, stage: Stage) -> Observation:
    """Run the criteria's commands where this step calls for it."""
    if stage.role == "check":
        seen = observe.observe(run, stage, "check")
        observe.expose(stage)
    elif stage.role == "do" and stage.iteration == 1 and run.order.checks.before:
        seen = observe.observe(run, stage, "before")
    else:
        return observe.NOTHING
    if (seen.seen or seen.stopped) and not observe.in_clean_place(run):
        change.undo_commands(run, stage, "check")
    return seen


def _ask(run: Run, stage: Stage, request: AgentRequest, observation: Observation) -> AgentResult:
    if observation.stopped:
        return AgentResult(error=StepError.INTERRUPTED, message=observation.stopped)
    agent = run.order.agent(stage.role)
    if stage.role == "check" and observation.failing and run.order.checks.skip_agent_on_fail:
        return table.BACKENDS["builtin"](_spec(run, stage), request, "", stage.folder)
    backend = table.BACKENDS[agent.config.type]
    steps = run.tools.store.steps(run.id) if stage.index > 1 else []
    prompt = ask.build_prompt(run.tools.layout, steps, request, agent.config)
    result = ask.until_answered(
        run,
        stage,
        lambda printed: _spec(run, stage, printed),
        lambda spec: backend(spec, request, prompt, stage.folder),
    )
    if result.repaired:
        run.timeline.add(EventType.ANSWER_REPAIRED, f"asked again: {result.repaired}")
    return _explained(run, stage, result)


def _explained(run: Run, stage: Stage, result: AgentResult) -> AgentResult:
    """Add which denial of the sandbox an agent met that gave up."""
    if result.error != StepError.AGENT_EXIT:
        return result
    spec = _spec(run, stage)
    logs = (spec.stderr, spec.stdout)
    told = confinement.denied(run, logs, spec.policy, f"agents.{spec.name}")
    return replace(result, message=f"{result.message} ({told})") if told else result


def _keep_login(run: Run, stage: Stage, result: AgentResult, finding: Finding) -> None:
    """Let the user keep tokens that a successful step has refreshed: most work only once."""
    if result.login and not finding.error and login.give_back(result.login, run.tools.env):
        name, fields = result.login.path.name, list(result.login.fields)
        tool = run.order.agent(stage.role).name
        message = f"agent {tool} refreshed {', '.join(fields)} in {name}"
        run.timeline.add(EventType.LOGIN_REFRESHED, message, file=name, fields=fields)


def _spec(run: Run, stage: Stage, printed: int = 0) -> AgentSpec:
    """Return the agent with what is left of its limits after it has printed so many bytes."""
    agent = run.order.agent(stage.role)
    return AgentSpec(
        name=agent.name,
        config=agent.config,
        root=run.tools.layout.root,
        workspace=run.place / agent.config.path if agent.config.path else run.place,
        environment=confinement.for_agent(run, table.variables(agent.config))
        | step_folder.message_environment(run, stage)
        | letters.environment(stage),
        stdout=stage.stdout,
        stderr=stage.stderr,
        limits=_limits(run, stage, printed),
        keeper=run.tools.keeper,
        should_stop=confinement.stopper(run),
        on_tick=lambda elapsed: _tick(run, stage, elapsed),
        policy=confinement.for_role(run, stage.role, stage.folder),
        tier=confinement.tier(run),
    )


def _tick(run: Run, stage: Stage, elapsed: float) -> None:
    show(run, "tick", "", stage, elapsed)
    end.keep_claim(run)


def _limits(run: Run, stage: Stage, printed: int) -> Limits:
    config = run.order.agent(stage.role).config
    wall: float = config.timeout
    if run.order.budgets.max_minutes is not None:
        left = run.order.budgets.max_minutes - run.spent.minutes
        wall = min(wall, max(left * 60 - stage.seconds(), 0.1))
    output = _MAX_OUTPUT
    if run.order.budgets.max_output_mb is not None:
        left = run.order.budgets.max_output_mb - run.spent.output_mb
        output = min(output, max(int(left * 2**20) - printed, 1))
    limits = Limits(
        wall=wall,
        idle=table.idle_limit(config),
        output_bytes=output,
        disk_bytes=_MAX_DISK,
        disk=(stage.folder, confinement.scratch(run)),
    )
    return confinement.capped(limits, run.order.sandbox, (run.workspace.path,))


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
    run.tools.watch(
        Progress(
            kind=kind,
            run_id=run.id,
            message=message,
            role=stage.role if stage else None,
            iteration=stage.iteration if stage else run.row.iteration,
            max_iterations=run.order.budgets.max_iterations,
            elapsed=stage.seconds() if stage and elapsed is None else elapsed or 0.0,
            passed=criteria_passed(run),
            total=len(run.order.criteria),
        )
    )


def next_role(steps: list[StepRow]) -> Role:
    """Return whose turn it is after these steps; a step that did not finish is repeated."""
    if not steps:
        return "plan"
    last = steps[-1]
    return last.role if last.status == "fail" else follows(last.role)


def _stopped_between_steps(run: Run) -> bool:
    stop = run.tools.interrupted() or confinement.stop_request(run)
    decision = decide.decide_between(run.order, run.spent, stop)
    if decision.status == "running":
        return False
    decide.note_end(run, decision)
    run.record(
        run.cursor(status=decision.status, ended_at=utc(run.tools.now())),
        reason_code=decision.reason,
        reason=decision.message,
        budget_needed=decision.over.needed if decision.over else run.memory.budget_needed,
    )
    return True
