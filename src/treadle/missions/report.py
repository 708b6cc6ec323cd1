"""Take an agent's word on what it did, and say what comes next."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from treadle.errors import BlockedError, UsageError
from treadle.ids import utc
from treadle.missions import adopt, desk, halt, prompt, state
from treadle.missions.decision import Decision, Result
from treadle.missions.next import decide
from treadle.missions.state import Asking, At, State
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


def report(asking: Asking, store: TaskStore, word: Report) -> Decision:
    """Take a report on a step, then say what to do now; nothing in the work tree changes."""
    found = state.read(asking, store)
    at = _reported(found, word)
    shut = halt.gate(found, at) if word.result == "success" else None
    if shut:
        return shut
    worktree.require_clean(asking.layout.root, _own_files(found, at))
    if word.result == "success":
        _succeed(found, store, at)
    else:
        _fall_short(found, store, at, word)
    # A step that has become stuck comes first, then whatever else can be done.
    after = state.read(asking, store)
    return halt.stuck(after, at) if after.is_stuck(at.key) else decide(asking, store)


def retry(asking: Asking, store: TaskStore) -> Decision:
    """Let everything that failed or was blocked be tried again."""
    found = state.read(asking, store)
    mission, now, by = asking.mission, asking.now, Holder(asking.agent)
    for step in found.reports:
        store.clear_step(mission.slug, step)
    desk.close(store, mission, None, now)
    for id_ in found.board.in_lane("blocked"):
        adopt.adopt(store, mission, [id_], now)
        task_id = mission.task_id(id_)
        move.move(store, task_id, "in_progress", by, now, "retry")
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


def _succeed(found: State, store: TaskStore, at: At) -> None:
    """Move what was reported onward; repeating a report changes nothing."""
    board = found.board
    if at.phase == "accept":
        for id_ in board.in_lane("approved"):
            _walk(found, store, id_, "done")
    elif at.id and board.lane(at.id) in _LANES[at.phase]:
        goal: Lane = "for_review" if at.phase == "implement" else "approved"
        _walk(found, store, at.id, goal)
    if store.clear_step(found.mission.slug, at.key):
        desk.close(store, found.mission, halt.where(found.mission, at).task_id, found.now)


def _fall_short(found: State, store: TaskStore, at: At, word: Report) -> None:
    if at.id and found.board.lane(at.id) not in _LANES[at.phase]:
        raise _over(found, at)
    before = found.reports.get(at.key)
    failures = (before.failures if before else 0) + (word.result == "failed")
    blocked, who, now = word.result == "blocked", found.agent, found.now
    row = MissionStepRow(found.mission.slug, at.key, failures, blocked, word.note, who, utc(now))
    _move_aside(found, store, at, word)
    store.report_step(row)
    if failures >= state.MAX_FAILURES:
        desk.ask(store, halt.stuck(found._replace(reports={at.key: row}), at), now)


def _move_aside(found: State, store: TaskStore, at: At, word: Report) -> None:
    """Let the lane say it too: a blocked task, or one that a review sends back."""
    if at.id is None:
        return
    task_id, lane, by = found.mission.task_id(at.id), found.board.lane(at.id), Holder(found.agent)
    reason = word.note or f"reported as {word.result}"
    adopt.adopt(store, found.mission, [at.id], found.now)
    if at.phase == "review" and word.result == "failed":
        move.move(store, task_id, "planned", by, found.now, reason)
    elif at.phase == "implement" and word.result == "blocked" and lane != "blocked":
        move.move(store, task_id, "blocked", by, found.now, reason)


def _walk(found: State, store: TaskStore, id_: str, goal: Lane) -> None:
    """Take a task through every lane up to `goal`, each move by the rules."""
    adopt.adopt(store, found.mission, [id_], found.now)
    at = found.board.lane(id_)
    first = WALK.index("claimed" if at == "blocked" else parse(at)) + 1
    for lane in WALK[first : WALK.index(goal) + 1]:
        move.move(store, found.mission.task_id(id_), lane, Holder(found.agent), found.now)


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
