"""Say why there is nothing to do now, and which commands change that."""

from treadle.errors import FormatError, argument
from treadle.missions import state
from treadle.missions.decision import NOT_RESOLVABLE, Halt, Where
from treadle.missions.mission import Mission
from treadle.missions.state import GATED, At, State
from treadle.store.task_reader import TaskReader
from treadle.tasks import lanes


def where(mission: Mission, at: At) -> Where:
    """Name a step."""
    return Where(mission.slug, at.phase, mission.task_id(at.id) if at.id else None)


def nothing_to_do(found: State, store: TaskReader, at: At | None) -> Halt:
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
    name = where(found.mission, at).task_id or at.phase
    unblock = [retry_command(found.mission)]
    if row.is_blocked:
        reason = f"{name} is blocked, {row.who} says: {note}"
        return Halt("blocked", where(found.mission, at), reason, "reported_blocked", tuple(unblock))
    if at.id:
        unblock.append(f'treadle task move {name} --to canceled --reason "why"')
    reason = f"{name} failed {row.failures} times; {row.who} said at last: {note}"
    place = where(found.mission, at)
    return Halt("decision_required", place, reason, "failed_too_often", tuple(unblock))


def gate(found: State, at: At) -> Halt | None:
    """Hold a finished phase against its gate; None lets it pass."""
    mission, place = found.mission, where(found.mission, at)
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


def query(found: State) -> Halt:
    """Tell where a mission stands."""
    at = state.current(found)
    counts = ", ".join(f"{number} {lane}" for lane, number in found.board.counts().items())
    now = at.name if at else "nothing to do now"
    reason = f"{found.mission.slug}: {now}; tasks: {counts or 'none'}"
    place = where(found.mission, at or At(state.phase(found)))
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


def _blocked_task(found: State, store: TaskReader, id_: str) -> Halt:
    """Tell why a task is in the lane blocked: a question on the desk, or its last move."""
    task_id = found.mission.task_id(id_)
    place = where(found.mission, At("implement", id_))
    for item in store.questions():
        if item.task_id == task_id:
            fix = (f'treadle answer {item.question_id} "your answer"', *item.fix)
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
