"""Take an agent's word on what it did, and say what comes next."""

import re
from collections.abc import Sequence
from datetime import datetime

from treadle.errors import BlockedError, UsageError
from treadle.hints import NamedTuple
from treadle.ids import utc
from treadle.layout import Layout
from treadle.missions import adopt, desk, halt, prompt, state
from treadle.missions.decision import Decision, Result
from treadle.missions.mission import Mission
from treadle.missions.next import decide
from treadle.missions.state import At, State
from treadle.store.rows.mission import MissionStepRow
from treadle.store.task_store import TaskStore
from treadle.tasks import move, worktree
from treadle.tasks.claim import Holder, release
from treadle.tasks.lanes import HELD, WALK, Lane, parse

_LANES = {"implement": ("planned", *HELD, "blocked"), "review": ("for_review", "in_review")}


_NAME = re.compile(r"(?P<step>[a-z]+(?:\.WP\d+)?)@(?P<agent>[^@]+)-[0-9a-f]{8}\.md")


class Report(NamedTuple):
    """What an agent says of a step; without a name, of the one it was given last."""

    result: Result
    note: str | None = None
    step: str | None = None


def report(
    layout: Layout, store: TaskStore, mission: Mission, agent: str, now: datetime, word: Report
) -> Decision:
    """Take a report on a step, then say what to do now; nothing in the work tree changes."""
    found = state.read(layout, store, mission, now)
    at = _reported(found, agent, word)
    shut = halt.gate(found, at) if word.result == "success" else None
    if shut:
        return shut
    worktree.require_clean(layout.root, _own_files(found, at))
    if word.result == "success":
        _succeed(found, store, at, agent, now)
    else:
        _fall_short(found, store, at, agent, now, word)
    return _answer(layout, store, mission, agent, now, at)


def retry(
    layout: Layout, store: TaskStore, mission: Mission, agent: str, now: datetime
) -> Decision:
    """Let everything that failed or was blocked be tried again."""
    found = state.read(layout, store, mission, now)
    for step in found.reports:
        store.clear_step(mission.slug, step)
    desk.close(store, mission, None, now)
    for id_ in found.board.in_lane("blocked") if found.board.names else ():
        adopt.adopt(store, mission, [id_], now)
        task_id, by = found.board.task_id(id_), Holder(agent)
        move.move(store, task_id, "in_progress", by, now, "retry")
        release(store, task_id, by, now)
    return decide(layout, store, mission, agent, now)


def _answer(
    layout: Layout, store: TaskStore, mission: Mission, agent: str, now: datetime, at: At
) -> Decision:
    """Answer a report: a step that has become stuck first, then whatever else can be done."""
    found = state.read(layout, store, mission, now)
    if found.is_stuck(at.key):
        return halt.stuck(found, at)
    return decide(layout, store, mission, agent, now)


def _reported(found: State, agent: str, word: Report) -> At:
    """Return the step a report is about, and refuse one that cannot be."""
    if word.step is not None:
        at = prompt.parse(word.step)
        if at is None or (at.id and at.id not in found.board.names):
            raise UsageError(
                f"--step {word.step!r}: mission {found.mission.slug} has no such step; steps are"
                " specify, plan, tasks, implement:WP01, review:WP01 and accept"
            )
        return at
    issued = _last_issued(found.layout, found.mission, agent)
    if issued and (issued.id is None or issued.id in found.board.names):
        return issued
    current = state.current(found, agent)
    if current is None:
        raise BlockedError(
            f"mission {found.mission.slug} has no step to report on now",
            code="no_step",
            fix=[f"treadle next --json --mission {found.mission.slug}"],
        )
    return current


def _last_issued(layout: Layout, mission: Mission, agent: str) -> At | None:
    """Return the step whose prompt this agent was given last."""
    found = [
        (path.stat().st_mtime_ns, match["step"])
        for path in layout.prompts.glob(f"{mission.slug}@*.md")
        if (match := _NAME.fullmatch(path.name.removeprefix(f"{mission.slug}@")))
        and match["agent"] == agent
    ]
    return prompt.parse(max(found)[1].replace(".", ":")) if found else None


def _succeed(found: State, store: TaskStore, at: At, agent: str, now: datetime) -> None:
    """Move what was reported onward; repeating a report changes nothing."""
    board = found.board
    if at.phase == "accept":
        for id_ in board.in_lane("approved"):
            _walk(found, store, id_, "done", agent, now)
    elif at.id and board.lane(at.id) in _LANES[at.phase]:
        goal: Lane = "for_review" if at.phase == "implement" else "approved"
        _walk(found, store, at.id, goal, agent, now)
    if store.clear_step(found.mission.slug, at.key):
        desk.close(store, found.mission, halt.where(found.mission, at).task_id, now)


def _fall_short(
    found: State, store: TaskStore, at: At, agent: str, now: datetime, word: Report
) -> None:
    if at.id and found.board.lane(at.id) not in _LANES[at.phase]:
        raise _over(found, at)
    before = found.reports.get(at.key)
    failures = (before.failures if before else 0) + (word.result == "failed")
    is_blocked = word.result == "blocked"
    row = MissionStepRow(
        found.mission.slug, at.key, failures, is_blocked, word.note, agent, utc(now)
    )
    _move_aside(found, store, at, agent, now, word)
    store.report_step(row)
    if failures >= state.MAX_FAILURES:
        desk.ask(store, halt.stuck(found._replace(reports={at.key: row}), at), now)


def _move_aside(
    found: State, store: TaskStore, at: At, agent: str, now: datetime, word: Report
) -> None:
    """Let the lane say it too: a blocked task, or one that a review sends back."""
    if at.id is None:
        return
    task_id, lane = found.board.task_id(at.id), found.board.lane(at.id)
    reason = word.note or f"reported as {word.result}"
    adopt.adopt(store, found.mission, [at.id], now)
    if at.phase == "review" and word.result == "failed":
        move.move(store, task_id, "planned", Holder(agent), now, reason)
    elif at.phase == "implement" and word.result == "blocked" and lane != "blocked":
        move.move(store, task_id, "blocked", Holder(agent), now, reason)


def _walk(found: State, store: TaskStore, id_: str, goal: Lane, agent: str, now: datetime) -> None:
    """Take a task through every lane up to `goal`, each move by the rules."""
    adopt.adopt(store, found.mission, [id_], now)
    at = found.board.lane(id_)
    first = WALK.index("claimed" if at == "blocked" else parse(at)) + 1
    for lane in WALK[first : WALK.index(goal) + 1]:
        move.move(store, found.board.task_id(id_), lane, Holder(agent), now)


def _own_files(found: State, at: At) -> Sequence[str]:
    """Return what a phase is about: its gate judges it, so it may be uncommitted meanwhile."""
    mission, files = found.mission, found.mission.files
    own = {"specify": files.spec, "plan": files.plan, "tasks": files.tasks}
    return [mission.name(own[at.phase])] if at.phase in own else []


def _over(found: State, at: At) -> BlockedError:
    task_id = found.board.task_id(at.id or "")
    return BlockedError(
        f"{task_id} is {found.board.lane(at.id or '')}; the step {at.name} is over",
        code="step_over",
        fix=[f"treadle next --json --mission {found.mission.slug}"],
    )
