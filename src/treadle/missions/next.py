"""Tell a host agent what to do now, with a prompt, or why there is nothing to do."""

from collections.abc import Callable, Sequence

from treadle.errors import FormatError, TreadleError, argument
from treadle.ids import HUMAN
from treadle.missions import state
from treadle.missions.prompt import write_prompt
from treadle.missions.state import NOT_RESOLVABLE, NOWHERE, At, Decision, Halt, NextStep, State
from treadle.store.questions import WorkReader
from treadle.tasks import lanes
from treadle.text import name_some

_NAMED = 10


def unchosen(error: TreadleError, agent: str) -> Halt:
    """Answer whoever asks where there is no mission, or several; anything else stays an error."""
    who = "" if agent == HUMAN else f" --agent {agent}"
    if error.code == "no_mission":
        return Halt("blocked", NOWHERE, error.message, "no_mission", tuple(error.fix))
    slugs = error.details.get("missions")
    if not isinstance(slugs, list):
        raise error
    commands = tuple(f"treadle next --json --mission {slug}{who}" for slug in slugs)
    return Halt("blocked", NOWHERE, error.message, "several_missions", commands)


def decide(found: State, store: WorkReader) -> Decision:
    """Say what to do now; a prompt file is all that is written."""
    return guarded(found, lambda: decide_step(found, store))


def query(found: State) -> Decision:
    """Say where a mission stands, without a prompt."""
    return guarded(found, lambda: _standing(found))


def guarded(found: State, answer: Callable[[], Decision]) -> Decision:
    try:
        found.board.require_sound()
    except FormatError as error:
        return _unreadable(found.at("specify"), error)
    try:
        return answer()
    except FormatError as error:  # of a task: whatever comes before has been read
        return _unreadable(found.at("tasks"), error)


def decide_step(found: State, store: WorkReader) -> Decision:
    at = state.current(found)
    if at is None or found.is_stuck(at.key):
        return _nothing_to_do(found, store, at)
    try:
        return NextStep(at, write_prompt(found, at))
    except OSError:
        return _no_prompt(found, at)
    except FormatError as error:
        is_missing = error.code == NOT_RESOLVABLE
        return _no_prompt(found, at) if is_missing else _unreadable(at, error)


def _nothing_to_do(found: State, store: WorkReader, at: At | None) -> Halt:
    """Say why no step can be given."""
    if at:
        return stuck(found, at)
    if found.canceled:
        slug, place = found.mission.slug, found.at(state.phase(found))
        again = () if found.agent != HUMAN else (f"treadle mission reopen tasks --mission {slug}",)
        look = f"treadle mission status --mission {slug}"
        reason = state.canceled_words(found)
        return Halt("blocked", place, reason, "mission_canceled", (*again, look))
    if state.is_complete(found):
        reason = f"all tasks of {found.mission.slug} are done"
        return Halt("complete", found.at("accept"), reason, "mission_complete")
    reported = [id_ for id_ in found.board.names if found.is_stuck(id_)]
    if reported:
        in_review = found.board.lane(reported[0]) in lanes.REVIEW
        return stuck(found, found.at("review" if in_review else "implement", reported[0]))
    blocked = found.board.in_lane("blocked")
    if blocked:
        return blocked_task(found, store, blocked[0])
    for id_ in found.board.in_lane("for_review", "in_review"):
        place, others = found.at("review", id_), found.reviewers(id_)
        if others:
            why = kept_for(found, place, others)
            return Halt("blocked", place, why, "review_waits", (ask_again(found),))
    for id_, error in found.board.problems().items():
        return _unreadable(found.at("implement", id_), error)
    return uncommitted_tasks(found) or waiting(found)


def kept_for(found: State, at: At, others: Sequence[str]) -> str:
    return f"{at.task_id} is {found.agent}'s own work; its review is for {' or '.join(others)}"


def ask_again(found: State) -> str:
    who = "" if found.agent == HUMAN else f" --agent {found.agent}"
    return f"treadle next --json --mission {found.mission.slug}{who}"


def stuck(found: State, at: At) -> Halt:
    """Tell what was reported of a step that now waits for somebody's word."""
    row, name = found.reports[at.key], at.task_id or at.phase
    note = row.note or "no reason was given"
    if row.is_blocked:
        reason = f"{name} is blocked, {row.who} says: {note}"
        return Halt("blocked", at, reason, "reported_blocked", _ways_on(found, at))
    reason = f"{name} failed {row.failures} times; {row.who} said at last: {note}"
    return Halt("decision_required", at, reason, "failed_too_often", _ways_on(found, at))


def _ways_on(found: State, at: At) -> tuple[str, ...]:
    """Return how a step goes on: a person answers what was asked, or it is tried again."""
    asked = [row for row in found.questions(at) if row.is_open]
    answers = [command for row in asked for command in row.every_command]
    again = f"{ask_again(found)} --retry --step {at.name}"
    return (*answers, *(() if waits_for_answer(found, at) else (again,)))


def waits_for_answer(found: State, step: At) -> bool:
    """Tell whether a person was asked something; three failures ask for no more than a retry."""
    told, asked = found.reports.get(step.key), [it for it in found.questions(step) if it.is_open]
    is_answerable = told is not None and told.is_blocked
    return any(is_answerable or it.subject_kind != "mission" for it in asked)


def uncommitted_tasks(found: State) -> Halt | None:
    """Tell which tasks nobody can be given because only this work tree has them."""
    mission, ids = found.mission, found.uncommitted()
    if not ids:
        return None
    folder = mission.name(mission.files.tasks)
    paths = [argument(f"{folder}/{found.board.names[id_]}") for id_ in ids]
    names = " ".join(paths) if len(paths) <= _NAMED else folder
    commands = (f"git add {names}", f'git commit -m "Add tasks of {mission.slug}" -- {names}')
    reason = f"the last commit does not have {name_some(paths)}; commit what is to be worked on"
    return Halt("blocked", found.at("tasks"), reason, "tasks_uncommitted", commands)


def _unreadable(place: At, error: FormatError) -> Halt:
    """Tell which file of a mission cannot be read."""
    unblock = error.fix or (f"treadle mission status --mission {place.mission_slug}",)
    return Halt("blocked", place, error.message, error.code, unblock)


def _no_prompt(found: State, place: At) -> Halt:
    """Tell that a step has no prompt, which makes it no step."""
    folder = argument(str(found.layout.prompts))
    unblock = (f"ls -ld {folder}/.. {folder}", "treadle doctor")
    return Halt("blocked", place, NOT_RESOLVABLE, NOT_RESOLVABLE, unblock)


def _standing(found: State) -> Halt:
    """Tell where a mission stands."""
    at = state.current(found)
    counts = ", ".join(f"{number} {lane}" for lane, number in found.board.counts().items())
    now = at.name if at else "nothing to do now"
    reason = f"{found.mission.slug}: {now}; tasks: {counts or 'none'}"
    place = at or found.at(state.phase(found))
    unblock = (f"treadle next --json --mission {found.mission.slug}",)
    return Halt("query", place, reason, "query", unblock)


def blocked_task(found: State, store: WorkReader, id_: str) -> Halt:
    """Tell why a task is in the lane blocked: a question on the desk, or its last move."""
    task_id = found.mission.task_id(id_)
    place = found.at("implement", id_)
    ways = _ways_on(found, place)
    for item in found.questions(place):
        if item.is_open:
            return Halt("decision_required", place, item.summary, "question_open", ways)
    last = store.last_move(task_id)
    why = f": {last[1]}" if last and last[1] else ""
    unblock = (*ways, f"treadle task show {task_id}")
    return Halt("blocked", place, f"{task_id} is blocked{why}", "task_blocked", unblock)


def waiting(found: State) -> Halt:
    board, slug = found.board, found.mission.slug
    place = found.at("implement")
    circle = board.circle()
    if circle:
        return Halt("blocked", place, circle.message, circle.code, circle.fix)
    held = [
        f"{found.mission.task_id(id_)} is {board.lane(id_)}, held by {board.holder(id_)}"
        for id_ in board.in_lane(*lanes.HELD)
    ]
    lent = {id_: found.reviewer(id_) for id_ in board.in_lane("for_review", "in_review")}
    held += [f"{slug}.{id_} is in review by {who}" for id_, who in lent.items() if who]
    waits = [f"{slug}.{id_} waits for {', '.join(them)}" for id_, them in board.waiting().items()]
    unnamed = ["say who you are with --agent if one of these is yours"] if held else []
    told = (*held[:5], *waits[:5], *(unnamed if found.agent == HUMAN else []))
    reason = "; ".join(told) or f"no task of {slug} can be begun"
    return Halt("blocked", place, reason, "waiting", (f"treadle mission status --mission {slug}",))
