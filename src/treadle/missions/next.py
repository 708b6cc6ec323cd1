"""Tell a host agent what to do now, lend it the task, take its reports."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from treadle.errors import BlockedError, FormatError, UsageError, argument
from treadle.ids import HUMAN, utc
from treadle.missions import prompt, state, taskfile
from treadle.missions.mission import Mission
from treadle.missions.state import (
    GATED,
    NOT_RESOLVABLE,
    Asking,
    At,
    Decision,
    Halt,
    Result,
    State,
    Step,
    Where,
)
from treadle.store.questions import Subject
from treadle.store.store import Reader, Store
from treadle.store.tasks import MissionStepRow
from treadle.tasks import claim, lanes, questions, worktree
from treadle.tasks.claim import Holder, release
from treadle.tasks.lanes import HELD, WALK, Lane, parse
from treadle.tasks.questions import Question


def where_of(mission: Mission, at: At) -> Where:
    """Name a step."""
    return Where(mission.slug, at.phase, mission.task_id(at.id) if at.id else None)


def nothing_to_do(found: State, store: Reader, at: At | None) -> Halt:
    """Say why no step can be given."""
    if at:
        return stuck(found, at)
    if state.is_complete(found):
        reason = f"all tasks of {found.mission.slug} are done"
        return Halt("complete", Where(found.mission.slug, "accept"), reason, "mission_complete")
    reported = [id_ for id_ in found.board.names if found.is_stuck(id_)]
    if reported:
        in_review = found.board.lane(reported[0]) in lanes.REVIEW
        return stuck(found, At("review" if in_review else "implement", reported[0]))
    blocked = found.board.in_lane("blocked")
    return _blocked_task(found, store, blocked[0]) if blocked else _waiting(found)


def stuck(found: State, at: At) -> Halt:
    """Tell what was reported of a step that now waits for somebody's word."""
    row = found.reports[at.key]
    note = row.note or "no reason was given"
    name = where_of(found.mission, at).task_id or at.phase
    unblock = [retry_command(found.mission)]
    if row.is_blocked:
        reason = f"{name} is blocked, {row.who} says: {note}"
        return Halt(
            "blocked", where_of(found.mission, at), reason, "reported_blocked", tuple(unblock)
        )
    if at.id:
        unblock.append(f'treadle task move {name} --to canceled --reason "why"')
    reason = f"{name} failed {row.failures} times; {row.who} said at last: {note}"
    place = where_of(found.mission, at)
    return Halt("decision_required", place, reason, "failed_too_often", tuple(unblock))


def shut_gate(found: State, at: At) -> Halt | None:
    """Hold a finished phase against its gate; None lets it pass."""
    mission, place = found.mission, where_of(found.mission, at)
    if at.phase in GATED:
        shut = found.gate(at.phase)
        if shut.reason is None:
            return None
        return Halt("blocked", place, shut.reason, f"{shut.kind}_not_ready", _opens(found, at))
    if at.phase == "tasks" and not found.board.names:
        folder = mission.name(mission.files.tasks)
        command = f"treadle mission tasks --mission {mission.slug}"
        return Halt("blocked", place, no_tasks(found), "no_tasks", (command, f"ls {folder}"))
    return None


def no_tasks(found: State) -> str:
    """Return the sentence for a mission without tasks."""
    folder = found.mission.name(found.mission.files.tasks)
    return f"{folder} has no task yet; write {folder}/WP01-name.md or a list of tasks in plan.md."


def unreadable(place: Where, error: FormatError) -> Halt:
    """Tell which file of a mission cannot be read."""
    unblock = error.fix or (f"treadle mission status --mission {place.mission_slug}",)
    return Halt("blocked", place, error.message, error.code, unblock)


def no_prompt(found: State, place: Where) -> Halt:
    """Tell that a step has no prompt, which makes it no step."""
    folder = argument(str(found.layout.prompts))
    unblock = (f"ls -ld {folder}/.. {folder}", "treadle doctor")
    return Halt("blocked", place, NOT_RESOLVABLE, NOT_RESOLVABLE, unblock)


def standing(found: State) -> Halt:
    """Tell where a mission stands."""
    at = state.current(found)
    counts = ", ".join(f"{number} {lane}" for lane, number in found.board.counts().items())
    now = at.name if at else "nothing to do now"
    reason = f"{found.mission.slug}: {now}; tasks: {counts or 'none'}"
    place = where_of(found.mission, at or At(state.phase(found)))
    unblock = (f"treadle next --json --mission {found.mission.slug}",)
    return Halt("query", place, reason, "query", unblock)


def _opens(found: State, at: At) -> tuple[str, ...]:
    mission, slug = found.mission, found.mission.slug
    if at.phase == "plan":
        return (f"treadle mission setup-plan --mission {slug}",)
    name = mission.name(mission.files.spec)
    return (
        f"git add {name}",
        f'git commit -m "Specify {slug}" -- {name}',
        f"treadle mission setup-plan --mission {slug}",
    )


def _blocked_task(found: State, store: Reader, id_: str) -> Halt:
    """Tell why a task is in the lane blocked: a question on the desk, or its last move."""
    task_id = found.mission.task_id(id_)
    place = where_of(found.mission, At("implement", id_))
    for item in store.questions():
        if item.task_id == task_id:
            answer = f'treadle answer {item.question_id} "your answer"'
            fix = (answer, *questions.commands(item))
            return Halt("decision_required", place, item.summary, "question_open", fix)
    moves = store.task_moves(task_id)
    why = f": {moves[-1].reason}" if moves and moves[-1].reason else ""
    unblock = (retry_command(found.mission), f"treadle task show {task_id}")
    return Halt("blocked", place, f"{task_id} is blocked{why}", "task_blocked", unblock)


def _waiting(found: State) -> Halt:
    board, slug = found.board, found.mission.slug
    place = Where(slug, "implement")
    circle = board.circle()
    if circle:
        return Halt("blocked", place, circle.message, circle.code, circle.fix)
    held = [
        f"{found.mission.task_id(id_)} is {board.lane(id_)}, held by {board.holder(id_)}"
        for id_ in board.in_lane(*lanes.HELD)
    ]
    waits = [f"{slug}.{id_} waits for {', '.join(them)}" for id_, them in board.waiting().items()]
    reason = "; ".join((*held[:5], *waits[:5])) or f"no task of {slug} can be begun"
    return Halt("blocked", place, reason, "waiting", (f"treadle mission status --mission {slug}",))


def retry_command(mission: Mission) -> str:
    """Return the command that lets everything be tried again."""
    return f"treadle next --json --mission {mission.slug} --retry"


def decide(asking: Asking, store: Reader) -> Decision:
    """Say what to do now; a prompt file is all that is written."""
    try:
        found = state.read(asking, store)
        at = state.current(found)
        if at is None or found.is_stuck(at.key):
            return nothing_to_do(found, store, at)
        return _step(found, at)
    except FormatError as error:  # of a task: whatever comes before has been read
        return unreadable(Where(asking.mission.slug, "tasks"), error)


def query(asking: Asking, store: Reader) -> Decision:
    """Say where a mission stands, without a prompt."""
    try:
        return standing(state.read(asking, store))
    except FormatError as error:  # of a task: whatever comes before has been read
        return unreadable(Where(asking.mission.slug, "tasks"), error)


def is_lent(asking: Asking, store: Reader, found: Decision, lease: timedelta) -> bool:
    """Tell whether nothing is to be lent: no task, no name to lend it to, or it has it for long."""
    agent = asking.agent
    if agent == HUMAN or not isinstance(found, Step) or found.where.phase != "implement":
        return True
    task = store.task(found.where.task_id or "")
    is_own = task is not None and task.owner == agent and task.claim_id is not None
    return is_own and task is not None and (task.lease_until or "") > utc(asking.now + lease / 2)


def _step(found: State, at: At) -> Decision:
    where = where_of(found.mission, at)
    try:
        return Step(where, prompt.write(found, at))
    except OSError:
        return no_prompt(found, where)
    except FormatError as error:
        is_missing = error.code == NOT_RESOLVABLE
        return no_prompt(found, where) if is_missing else unreadable(where, error)


def ask_about(store: Store, stuck: Halt, at: At, now: datetime) -> None:
    """Put a step that waits for a decision on the desk, with the commands that decide."""
    where = stuck.where
    question = Question(
        kind="question",
        summary=stuck.reason,
        subject=Subject("mission", where.mission_slug),
        look=stuck.unblock,
        matter=at.key,
        task_id=where.task_id,
    )
    questions.ask(store, question, now)


def close_questions(store: Store, mission: Mission, now: datetime, at: At | None = None) -> None:
    """Take off the desk what was asked about a step, or about all of a mission's steps."""
    matter = at.key if at else None
    questions.close(store, Subject("mission", mission.slug), "the work goes on", now, matter)


# Others may be faster; each time another task is the next one.
_TRIES = 8


def lend(asking: Asking, store: Store, lease: timedelta) -> Decision:
    """Say what to do now; a task that this is about is the agent's until its lease is over."""
    for _ in range(_TRIES):
        found = decide(asking, store)
        if is_lent(asking, store, found, lease):
            return found
        task_id = found.where.task_id or ""
        taskfile.adopt(store, asking.mission, [task_id.rpartition(".")[2]], asking.now)
        try:
            _take(store, task_id, asking.agent, asking.now, lease)
        except BlockedError:
            continue
    return decide(asking, store)


def _take(store: Store, task_id: str, agent: str, now: datetime, lease: timedelta) -> None:
    task = store.task(task_id)
    if task and task.owner == agent and claim.is_held(task, now):
        claim.renew(store, task_id, task.claim_id or "", now, lease)
    else:
        claim.claim(store, task_id, agent, now, lease)


_LANES = {"implement": ("planned", *HELD, "blocked"), "review": ("for_review", "in_review")}


_NAME = re.compile(r"(?P<step>[a-z]+(?:\.WP\d+)?)@(?P<agent>[^@]+)-[0-9a-f]{8}\.md")


class Report(NamedTuple):
    """What an agent says of a step; without a name, of the one it was given last."""

    result: Result
    note: str | None = None
    step: str | None = None


def report(asking: Asking, store: Store, word: Report) -> Decision:
    """Take a report on a step, then say what to do now; nothing in the work tree changes."""
    found = state.read(asking, store)
    at = _reported(found, word)
    shut = shut_gate(found, at) if word.result == "success" else None
    if shut:
        return shut
    worktree.require_clean(asking.layout.root, _own_files(found, at))
    if word.result == "success":
        _succeed(found, store, at)
    else:
        _fall_short(found, store, at, word)
    # A step that has become stuck comes first, then whatever else can be done.
    after = state.read(asking, store)
    return stuck(after, at) if after.is_stuck(at.key) else decide(asking, store)


def retry(asking: Asking, store: Store) -> Decision:
    """Let everything that failed or was blocked be tried again."""
    found = state.read(asking, store)
    mission, now, by = asking.mission, asking.now, Holder(asking.agent)
    for step in found.reports:
        store.clear_step(mission.slug, step)
    close_questions(store, mission, now)
    for id_ in found.board.in_lane("blocked"):
        taskfile.adopt(store, mission, [id_], now)
        task_id = mission.task_id(id_)
        claim.move_task(store, task_id, "in_progress", by, now, "retry")
        release(store, task_id, by, now)
    return decide(asking, store)


def _reported(found: State, word: Report) -> At:
    """Return the step a report is about, and refuse one that cannot be."""
    if word.step is not None:
        at = prompt.parse(word.step)
        if at is None or (at.id and at.id not in found.board.names):
            raise UsageError(
                f"--step {word.step!r}: mission {found.mission.slug} has no such step; steps are"
                " specify, plan, tasks, implement:WP01, review:WP01 and accept"
            )
        return at
    issued = _last_issued(found)
    if issued and (issued.id is None or issued.id in found.board.names):
        return issued
    current = state.current(found)
    if current is None:
        raise BlockedError(
            f"mission {found.mission.slug} has no step to report on now",
            code="no_step",
            fix=[f"treadle next --json --mission {found.mission.slug}"],
        )
    return current


def _last_issued(found: State) -> At | None:
    """Return the step whose prompt this agent was given last."""
    slug = found.mission.slug
    given = [
        (path.stat().st_mtime_ns, match["step"])
        for path in found.layout.prompts.glob(f"{slug}@*.md")
        if (match := _NAME.fullmatch(path.name.removeprefix(f"{slug}@")))
        and match["agent"] == found.agent
    ]
    return prompt.parse(max(given)[1].replace(".", ":")) if given else None


def _succeed(found: State, store: Store, at: At) -> None:
    """Move what was reported onward; repeating a report changes nothing."""
    board = found.board
    if at.phase == "accept":
        for id_ in board.in_lane("approved"):
            _walk(found, store, id_, "done")
    elif at.id and board.lane(at.id) in _LANES[at.phase]:
        goal: Lane = "for_review" if at.phase == "implement" else "approved"
        _walk(found, store, at.id, goal)
    if store.clear_step(found.mission.slug, at.key):
        close_questions(store, found.mission, found.now, at)


def _fall_short(found: State, store: Store, at: At, word: Report) -> None:
    if at.id and found.board.lane(at.id) not in _LANES[at.phase]:
        raise _over(found, at)
    before = found.reports.get(at.key)
    failures = (before.failures if before else 0) + (word.result == "failed")
    blocked, who, now = word.result == "blocked", found.agent, found.now
    row = MissionStepRow(found.mission.slug, at.key, failures, blocked, word.note, who, utc(now))
    _move_aside(found, store, at, word)
    store.report_step(row)
    if failures >= state.MAX_FAILURES:
        ask_about(store, stuck(found._replace(reports={at.key: row}), at), at, now)


def _move_aside(found: State, store: Store, at: At, word: Report) -> None:
    """Let the lane say it too: a blocked task, or one that a review sends back."""
    if at.id is None:
        return
    task_id, lane, by = found.mission.task_id(at.id), found.board.lane(at.id), Holder(found.agent)
    reason = word.note or f"reported as {word.result}"
    taskfile.adopt(store, found.mission, [at.id], found.now)
    if at.phase == "review" and word.result == "failed":
        claim.move_task(store, task_id, "planned", by, found.now, reason)
    elif at.phase == "implement" and word.result == "blocked" and lane != "blocked":
        claim.move_task(store, task_id, "blocked", by, found.now, reason)


def _walk(found: State, store: Store, id_: str, goal: Lane) -> None:
    """Take a task through every lane up to `goal`, each move by the rules."""
    taskfile.adopt(store, found.mission, [id_], found.now)
    at = found.board.lane(id_)
    first = WALK.index("claimed" if at == "blocked" else parse(at)) + 1
    for lane in WALK[first : WALK.index(goal) + 1]:
        claim.move_task(store, found.mission.task_id(id_), lane, Holder(found.agent), found.now)


def _own_files(found: State, at: At) -> Sequence[str]:
    """Return what a phase is about: its gate judges it, so it may be uncommitted meanwhile."""
    mission, files = found.mission, found.mission.files
    own = {"specify": files.spec, "plan": files.plan, "tasks": files.tasks}
    return [mission.name(own[at.phase])] if at.phase in own else []


def _over(found: State, at: At) -> BlockedError:
    task_id = found.mission.task_id(at.id or "")
    return BlockedError(
        f"{task_id} is {found.board.lane(at.id or '')}; the step {at.name} is over",
        code="step_over",
        fix=[f"treadle next --json --mission {found.mission.slug}"],
    )
