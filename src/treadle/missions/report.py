"""Lend a host agent the task of its next step, and take its reports."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NamedTuple

from treadle.errors import BlockedError, NotFoundError, UsageError
from treadle.ids import HUMAN, TREADLE, utc
from treadle.missions import adopt, gates, state
from treadle.missions import mission as missions
from treadle.missions.mission import Mission
from treadle.missions.next import (
    ask_again,
    blocked_task,
    decide_step,
    guarded,
    kept_for,
    stuck,
    uncommitted_tasks,
    waiting,
    waits_for_answer,
)
from treadle.missions.prompt import last_issued_step, parse_step
from treadle.missions.state import GATED, PHASES, TASK_PHASES, At, Decision, Halt, Result, State
from treadle.store.questions import LEAVE, Action, Subject
from treadle.store.store import Store
from treadle.store.tasks import MissionStepRow, StepTry, WorkRow
from treadle.tasks import claim, lanes, questions
from treadle.tasks.claim import Holder
from treadle.tasks.lanes import HELD, WALK, Lane
from treadle.tasks.questions import Question
from treadle.tasks.task import Note, find_task, moved_record, write_views

_LANES = {"implement": ("planned", *HELD, "blocked"), "review": ("for_review", "in_review")}
_JUDGED = ("implement", "accept")
_REFUTED = ("claim_refuted", "nothing_changed")
# Whoever asks over and over is written down now and then.
_AGAIN = timedelta(minutes=10)
# Others may be faster; each time another task is the next one.
_TRIES = 8
_TRIES_KEPT = 10


class Report(NamedTuple):
    """What an agent says of a step; without a name, of the one it was given last.

    `task` is the one that a failed acceptance sends back. `no_change` says that a task needed none.
    """

    result: Result
    note: str | None = None
    step: str | None = None
    task: str | None = None
    no_change: bool = False


# Holds a reported success against what can be seen; running commands loads far more than asking.
Judge = Callable[[State, Store, At, Report], WorkRow | Halt]


def lend(found: State, store: Store, lease: timedelta) -> Decision:
    """Say what to do now; a task that this is about is the agent's until its lease is over."""
    return guarded(found, lambda: _lend(found, store, lease))


def report(
    found: State,
    store: Store,
    word: Report,
    lease: timedelta,
    judge: Judge,
    accept: Callable[[State], None],
) -> Decision:
    """Take a report on a step, then say what to do now.

    Nothing in the work tree changes, except that to `accept` a mission is a commit.
    What is handed out with it is lent for a short time: nobody has asked for it yet.
    """
    found.board.require_sound()
    found = _settle(found, store)
    at = _reported(found, word)
    _require_open(found, at, word)
    if at.phase == "review" and not word.task and (others := found.reviewers(at.id or "")):
        raise BlockedError(kept_for(found, at, others), code="own_work", fix=[ask_again(found)])
    is_good, lease = word.result == "success", min(lease, claim.LEASE)
    shut = _shut_gate(found, at) if is_good else None
    if shut:
        return shut
    place = found.layout.task_root(at.task_id) if at.task_id else found.layout.root
    adopt.require_committed(place, _own_files(found, at))
    claim.renew_all(store, found.agent, found.now)
    seen = judge(found, store, at, word) if is_good and at.phase in _JUDGED else None
    if isinstance(seen, Halt):
        return _refute(found, store, at, seen)
    is_accepted = at.phase == "accept" and is_good
    if is_accepted:
        accept(found.again(store))
    moved = store.write(lambda tx: _take_report(_named(found, tx), tx, at, word, seen))
    _show_moves(store, found.mission, moved)
    head = gates.read_head([found.mission]) if is_accepted else found.head
    # A step that has become stuck comes first, then whatever else can be done.
    after = found._replace(head=head).again(store)
    return stuck(after, at) if after.is_stuck(at.key) else lend(after, store, lease)


def _named(found: State, tx: Store) -> State:
    """Read the state again where it is changed, under the name that the mission has here."""
    adopt.name_mission(tx, found.mission, found.now)
    return found.again(tx)


def _refute(found: State, store: Store, at: At, why: Halt) -> Halt:
    """Count a success that is not believed as the failure it is, unless nothing could be seen."""
    if why.reason_code in _REFUTED:
        seen, told = found._replace(agent=TREADLE), Report("failed", why.reason)
        store.write(lambda tx: _fall_short(_named(seen, tx), tx, at, told))
        found = found.again(store)
    return stuck(found, at) if found.is_stuck(at.key) else why


def catch_up(store: Store, found: State) -> None:
    """Bring tasks into the store that are over, wherever they were finished."""
    adopt.adopt_tasks(store, found.mission, adopt.finished(found.mission), found.now)
    _settle(found.again(store), store)


def retry(found: State, store: Store, lease: timedelta, step: str | None = None) -> Decision:
    """Let a step be tried again that failed, or all that the agent reported; none is answered."""
    at = _parse(found, step) if step else None
    moved = store.write(lambda tx: _let_try_again(_named(found, tx), tx, at))
    _show_moves(store, found.mission, moved)
    after = found.again(store)
    if at and after.is_stuck(at.key):
        return stuck(after, at)
    if at and at.id and after.board.lane(at.id) == "blocked":
        return blocked_task(after, store, at.id)
    return lend(after, store, lease)


def _lend(found: State, store: Store, lease: timedelta) -> Decision:
    """Take the task before the prompt is written: it is asked for once, whoever was faster."""
    found = _settle(found, store)
    is_taken = found.agent == HUMAN
    if not is_taken and found.board.agents().get(found.agent, "") < utc(found.now - _AGAIN):
        store.see_agent(found.mission.slug, found.agent, utc(found.now))
    for _ in range(_TRIES):
        at = state.current(found)
        if is_taken or at is None or at.phase not in TASK_PHASES or found.is_stuck(at.key):
            break
        take = _take if at.phase == "implement" else _take_review
        is_taken = take(found, store, at.id or "", lease)
        found = found.again(store)
    else:
        return decide_step(found, store) if is_taken else waiting(found)
    return decide_step(found, store)


def _settle(found: State, store: Store) -> State:
    """Bring the store to what the mission's files say, of tasks that are over or not ours yet."""
    stale = found.board.stale()
    if not stale:
        return found

    def follow(tx: Store) -> list[str]:
        moved = [
            id_
            for id_, said in stale.items()
            if adopt.settle_lane(tx, found.mission, id_, said, found.now)
        ]
        for id_ in moved:
            tx.clear_step(found.mission.slug, id_)
            _close_questions(found, tx, id_)
        return moved

    _show_moves(store, found.mission, store.write(follow))
    return found.again(store)


def _take(found: State, store: Store, id_: str, lease: timedelta) -> bool:
    """Let the agent have a task, or have it for longer; False if another was faster."""
    task_id, now, agent = found.mission.task_id(id_), found.now, found.agent
    task = store.task(task_id) or found.board.row(id_)
    try:
        if task and task.owner == agent and claim.is_held(task, now):
            return claim.renew(store, task.task_id, task.claim_id or "", now, lease)
        adopt.adopt_tasks(store, found.mission, [id_], now)
        claim.claim(store, task_id, agent, now, lease)
    except (BlockedError, NotFoundError):  # another was faster, or calls the mission otherwise
        return False
    begun = adopt.head(found.mission)
    if begun:
        store.begin_work(WorkRow(found.mission.slug, id_, begun, None, (), None, utc(now)))
    return True


def _take_review(found: State, store: Store, id_: str, lease: timedelta) -> bool:
    """Let the agent have a review, or have it for longer; False if another was faster."""
    slug, name, until = found.mission.slug, found.at("review", id_).name, utc(found.now + lease)

    def lent(tx: Store) -> bool:
        again = _named(found, tx)
        if again.board.lane(id_) not in _LANES["review"] or again.reviewer(id_):
            return False
        tx.report_step(MissionStepRow(slug, name, 0, False, None, found.agent, until))
        return True

    return store.write(lent)


def _reported(found: State, word: Report) -> At:
    """Return the step a report is about, and refuse one that cannot be."""
    at = _named_step(found, word)
    if word.task is None:
        return at
    id_ = word.task.rpartition(".")[2].upper()
    if at.phase != "accept" or word.result != "failed" or id_ not in found.board.names:
        raise UsageError(
            f"--task {word.task!r}: a task of the mission is sent back with --result failed"
            " --step accept",
            fix=[f"treadle mission status --mission {found.mission.slug}"],
        )
    return found.at("review", id_)


def _named_step(found: State, word: Report) -> At:
    if word.step is not None:
        return _parse(found, word.step)
    at = last_issued_step(found) or state.current(found)
    if at is None:
        raise BlockedError(
            f"mission {found.mission.slug} has no step to report on now",
            code="no_step",
            fix=[ask_again(found)],
        )
    return at


def _parse(found: State, step: str) -> At:
    at = parse_step(found, step)
    if at is None:
        raise UsageError(
            f"--step {step!r}: mission {found.mission.slug} has no such step; steps are"
            " specify, plan, tasks, implement:WP01, review:WP01 and accept"
        )
    return at


def _require_open(found: State, at: At, word: Report) -> None:
    """Refuse a report on a step that is over or has not begun, or that somebody else is at."""
    why = _task_closed(found, at, word) if at.id else _phase_closed(found, at, word)
    why = f"is over: {state.canceled_words(found)}" if found.canceled else why
    if why:
        raise BlockedError(
            f"{at.task_id or found.mission.slug} {why}", code="step_over", fix=[ask_again(found)]
        )
    row = found.board.row(at.id or "")
    if row and claim.is_held(row, found.now) and row.owner != found.agent:
        unnamed = "; say who you are with --agent" if found.agent == HUMAN else ""
        refused = lanes.held_by_other(row)
        raise BlockedError(refused.message + unnamed, code=refused.code, fix=refused.fix)


def _task_closed(found: State, at: At, word: Report) -> str | None:
    """Say why nothing can be reported of a task's step now; None if it can."""
    lane = found.board.lane(at.id or "")
    if lane in (lanes.REVIEW if word.task else _LANES[at.phase]):
        needed = found.board.needs(at.id or "") if lane == "planned" else ()
        waits = f"waits for {', '.join(needed)}; the step {at.name} has not begun"
        return waits if needed else None
    is_early = at.phase == "review" and lane in _LANES["implement"]
    return f"is {lane}; the step {at.name} {'has not begun' if is_early else 'is over'}"


def _phase_closed(found: State, at: At, word: Report) -> str | None:
    """Say why nothing can be reported of a phase now; None if it can.

    What a phase makes is there when its success is reported, so the next one has begun then.
    """
    if at.phase == "accept":
        return None if found.board.to_accept() else "has no approved task to accept"
    shut = state.first_shut(found)
    if shut is None and at.phase == "tasks" and set(found.board.counts()) <= {"planned"}:
        shut = "tasks" if found.uncommitted() else "implement"
    now = PHASES.index(shut or "accept")
    behind = now - PHASES.index(at.phase)
    if behind == 0 or (behind == 1 and word.result == "success"):
        return None
    return f"is at {shut or 'implement'}; {at.phase} {'is over' if behind > 0 else 'has not begun'}"


def _take_report(found: State, tx: Store, at: At, word: Report, work: WorkRow | None) -> list[str]:
    """Write a report down as things stand by now: somebody may have been faster."""
    _require_open(found, at, word)
    if at.phase == "review":
        tx.clear_step(found.mission.slug, at.name)
    if word.result != "success":
        return _fall_short(found, tx, at, word)
    if work:
        tx.save_work(work)
    return _succeed(found, tx, at, word)


def _succeed(found: State, tx: Store, at: At, word: Report) -> list[str]:
    """Move what was reported onward, with what the agent said of it."""
    board, moved, goal = found.board, list[str](), "done"
    if at.phase == "accept":
        moved = board.in_lane("approved")
    elif at.id:
        moved, goal = [at.id], "for_review" if at.phase == "implement" else "approved"
    for id_ in moved:
        lane = board.lane(id_)
        first = WALK.index("claimed" if lane == "blocked" else lanes.parse(lane)) + 1
        for next_lane in WALK[first : WALK.index(lanes.parse(goal)) + 1]:
            _move(found, tx, id_, next_lane, word.note if next_lane == goal else None)
    row = found.reports.get(at.key)
    if row and at.phase == "implement":  # the reviewer reads what it took, and a failure counts on
        failures = 0 if row.failures >= state.MAX_FAILURES else row.failures
        tx.report_step(row._replace(failures=failures, is_blocked=False))
    else:
        tx.clear_step(found.mission.slug, at.key)
    _close_questions(found, tx, at.key)
    return moved


def _fall_short(found: State, tx: Store, at: At, word: Report) -> list[str]:
    """Count a failure, or note what is in the way; the lane and the desk say it too."""
    lane = found.board.lane(at.id) if at.id else ""
    goal: Lane | None = None
    if at.phase == "review" and word.result == "failed":
        goal = "planned"
    elif at.phase == "implement" and word.result == "blocked" and lane != "blocked":
        goal = "blocked"
    if at.id and goal:
        _move(found, tx, at.id, goal, word.note or f"reported as {word.result}")
    row = _one_try_more(found, at, word)
    tx.report_step(row)
    after = found._replace(reports={at.key: row})
    if after.is_stuck(at.key) and (word.result == "blocked" or not row.is_blocked):
        _close_questions(found, tx, at.key, "asked again")
        _ask(after, tx, at)
    return [at.id] if at.id and goal else []


def _one_try_more(found: State, at: At, word: Report) -> MissionStepRow:
    """Return what is known of a step, with how it went this time."""
    before, who, now = found.reports.get(at.key), found.agent, utc(found.now)
    failures = (before.failures if before else 0) + (word.result == "failed")
    tries = (*(before.tries if before else ()), StepTry(at.name, word.result, who, word.note, now))
    tries = tries[-_TRIES_KEPT:]
    if before and before.is_blocked and word.result == "failed":  # what was asked still waits
        return before._replace(failures=failures, tries=tries)
    is_blocked, slug = word.result == "blocked", found.mission.slug
    return MissionStepRow(slug, at.key, failures, is_blocked, word.note, who, now, tries)


def _let_try_again(found: State, tx: Store, at: At | None) -> list[str]:
    """Forget that a step failed and plan its task again, unless a person was asked about it."""
    steps = [found.at("implement", id_) for id_ in found.board.names]
    phases = [found.at(phase) for phase in PHASES if phase not in TASK_PHASES]
    moved = []
    for step in (*phases, *steps):
        is_meant = step.key == at.key if at else _is_own(found, step)
        if not is_meant or waits_for_answer(found, step):
            continue
        tx.calm_step(found.mission.slug, step.key)
        _close_questions(found, tx, step.key)
        if step.id and found.board.lane(step.id) == "blocked":
            _move(found, tx, step.id, "in_progress", "retry")
            _move(found, tx, step.id, "planned")
            moved.append(step.id)
    return moved


def _is_own(found: State, step: At) -> bool:
    """Tell whether a step is the agent's to try again: it reported of it, or worked on it."""
    told, row = found.reports.get(step.key), found.board.row(step.id or "")
    # What treadle refuted of a task that nobody holds was claimed without a name.
    nobody = HUMAN if told and told.who == TREADLE else None
    return found.agent in (told and told.who, (row and row.owner) or nobody)


def _move(found: State, tx: Store, id_: str, to: Lane, reason: str | None = None) -> None:
    """Take a task to another lane by the rules, as a part of what a report changes."""
    adopt.adopt_tasks(tx, found.mission, [id_], found.now)
    before = find_task(tx, found.mission.task_id(id_))
    if before.lane == "done":  # by what has just been accepted
        return
    after = claim.moved(tx, before, to, Holder(found.agent), found.now, reason)
    after = after._replace(updated_at=utc(found.now))
    tx.swap_task(before, after, moved_record(before, after, Note(found.agent, reason)))


def _show_moves(store: Store, mission: Mission, moved: Sequence[str]) -> None:
    for id_ in moved:
        write_views(store, store.mail, mission.task_id(id_))


def _ask(found: State, tx: Store, at: At) -> None:
    """Put a step that waits for a decision on the desk, with the commands that help to decide."""
    row, slug = found.reports[at.key], found.mission.slug
    look = (
        f"treadle task show {at.task_id}" if at.id else f"treadle mission status --mission {slug}"
    )
    why = f'--reason "failed {row.failures} times"'
    cancel = f"treadle task move {at.task_id} --to canceled {why}"
    question = Question(
        kind="question",
        summary=stuck(found, at).reason,
        subject=Subject("mission", slug),
        actions=(Action("retry"), LEAVE),
        look=(look, cancel) if at.id and not row.is_blocked else (look,),
        matter=at.key,
        task_id=at.task_id,
    )
    questions.ask(tx, question, found.now)


def _close_questions(found: State, tx: Store, key: str, why: str = "the work goes on") -> None:
    """Take off the desk what was asked about a step."""
    questions.close(tx, Subject("mission", found.mission.slug), why, found.now, key)


def _own_files(found: State, at: At) -> Sequence[str]:
    """Return what a phase is about: its gate judges it, so it may be uncommitted meanwhile."""
    mission, files = found.mission, found.mission.files
    own = {"specify": files.spec, "plan": files.plan, "tasks": files.tasks}
    if at.phase == "accept":
        name = mission.name(files.meta)
        return [name] if missions.is_cut_short(mission, found.head[name].content) else []
    return [mission.name(own[at.phase])] if at.phase in own else []


def _shut_gate(found: State, at: At) -> Halt | None:
    """Hold a finished phase against its gate; None lets it pass."""
    mission = found.mission
    if at.phase in GATED:
        kind = GATED[at.phase]
        if not found.gate(at.phase):
            return None
        return Halt("blocked", at, gates.SENTENCES[kind], f"{kind}_not_ready", _opens(found, at))
    if at.phase == "tasks" and not found.board.names:
        folder = mission.name(mission.files.tasks)
        commands = (f"treadle mission tasks --mission {mission.slug}", f"ls {folder}")
        return Halt("blocked", at, state.no_tasks(mission), "no_tasks", commands)
    if at.phase == "tasks" and (left := state.uncovered(found)):
        look = (f"treadle mission status --mission {mission.slug}",)
        reason = state.not_covered(mission, left)
        return Halt("blocked", at, reason, "requirements_uncovered", look)
    return uncommitted_tasks(found) if at.phase == "tasks" else None


def _opens(found: State, at: At) -> tuple[str, ...]:
    """Return what opens a gate; a scaffold has to be written first, as the step's prompt says."""
    mission = found.mission
    plan = f"treadle mission setup-plan --mission {mission.slug}"
    if at.phase == "plan":
        return (plan,)
    if not gates.is_substantive(mission.files.spec, "spec"):
        return (ask_again(found),)
    name = mission.name(mission.files.spec)
    return (f"git add {name}", f'git commit -m "Specify {mission.slug}" -- {name}', plan)
