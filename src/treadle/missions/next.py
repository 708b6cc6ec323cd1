"""Tell a host agent what to do now, with a prompt; lend it the task, take its reports."""

import binascii
import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from treadle.contract import Criterion
from treadle.errors import BlockedError, FormatError, UsageError, argument
from treadle.files import atomic
from treadle.ids import HUMAN, utc
from treadle.missions import gates, state
from treadle.missions import mission as missions
from treadle.missions.mission import Mission, TaskFile
from treadle.missions.state import (
    GATED,
    NOT_RESOLVABLE,
    PHASES,
    TASK_PHASES,
    At,
    Decision,
    Halt,
    NextStep,
    Result,
    State,
)
from treadle.store.questions import Subject
from treadle.store.store import Reader, Store
from treadle.store.tasks import MissionStepRow
from treadle.tasks import claim, lanes, questions
from treadle.tasks.claim import Holder
from treadle.tasks.lanes import HELD, WALK, Lane
from treadle.tasks.questions import Question
from treadle.tasks.task import Note, find_task, moved_record, write_views
from treadle.text import block, line, quoted

_LANES = {"implement": ("planned", *HELD, "blocked"), "review": ("for_review", "in_review")}
# Others may be faster; each time another task is the next one.
_TRIES = 8


class Report(NamedTuple):
    """What an agent says of a step; without a name, of the one it was given last."""

    result: Result
    note: str | None = None
    step: str | None = None


def decide(found: State, store: Reader) -> Decision:
    """Say what to do now; a prompt file is all that is written."""
    return _guarded(found, lambda: _decide(found, store))


def query(found: State) -> Decision:
    """Say where a mission stands, without a prompt."""
    return _guarded(found, lambda: _standing(found))


def lend(found: State, store: Store, lease: timedelta) -> Decision:
    """Say what to do now; a task that this is about is the agent's until its lease is over."""
    return _guarded(found, lambda: _lend(found, store, lease))


def report(found: State, store: Store, word: Report, lease: timedelta) -> Decision:
    """Take a report on a step, then say what to do now; nothing in the work tree changes."""
    at = _reported(found, word)
    shut = _shut_gate(found, at) if word.result == "success" else None
    if shut:
        return shut
    missions.require_committed(found.layout.root, _own_files(found, at))
    change = _succeed if word.result == "success" else _fall_short
    moved = store.write(lambda tx: change(found, tx, at, word))
    _show_moves(store, found.mission, moved)
    # A step that has become stuck comes first, then whatever else can be done.
    after = found.again(store)
    return _stuck(after, at) if after.is_stuck(at.key) else lend(after, store, lease)


def retry(found: State, store: Store, lease: timedelta) -> Decision:
    """Let everything that failed or was blocked be tried again."""
    moved = store.write(lambda tx: _forget(found, tx))
    _show_moves(store, found.mission, moved)
    return lend(found.again(store), store, lease)


def _guarded(found: State, answer: Callable[[], Decision]) -> Decision:
    try:
        return answer()
    except FormatError as error:  # of a task: whatever comes before has been read
        return _unreadable(found.at("tasks"), error)


def _decide(found: State, store: Reader) -> Decision:
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


def _lend(found: State, store: Store, lease: timedelta) -> Decision:
    """Take the task before the prompt is written: it is asked for once, whoever was faster."""
    is_taken = found.agent == HUMAN
    for _ in range(_TRIES):
        at = state.current(found)
        if is_taken or at is None or at.phase != "implement" or found.is_stuck(at.key):
            break
        is_taken = _take(found, store, at.id or "", lease)
        found = found.again(store)
    return _decide(found, store)


def _take(found: State, store: Store, id_: str, lease: timedelta) -> bool:
    """Let the agent have a task, or have it for longer; False if another was faster."""
    task_id, now, agent = found.mission.task_id(id_), found.now, found.agent
    task = store.task(task_id)
    try:
        if task and task.owner == agent and claim.is_held(task, now):
            return claim.renew(store, task_id, task.claim_id or "", now, lease)
        missions.adopt_tasks(store, found.mission, [id_], now)
        claim.claim(store, task_id, agent, now, lease)
    except BlockedError:
        return False
    return True


def _reported(found: State, word: Report) -> At:
    """Return the step a report is about, and refuse one that cannot be."""
    if word.step is not None:
        at = parse_step(found, word.step)
        if at is None:
            raise UsageError(
                f"--step {word.step!r}: mission {found.mission.slug} has no such step; steps are"
                " specify, plan, tasks, implement:WP01, review:WP01 and accept"
            )
        return at
    at = last_issued_step(found) or state.current(found)
    if at is None:
        raise BlockedError(
            f"mission {found.mission.slug} has no step to report on now",
            code="no_step",
            fix=[f"treadle next --json --mission {found.mission.slug}"],
        )
    return at


def _succeed(found: State, tx: Store, at: At, word: Report) -> list[str]:
    """Move what was reported onward; repeating a report changes nothing."""
    board, moved, goal = found.board, list[str](), "done"
    if at.phase == "accept":
        moved = board.in_lane("approved")
    elif at.id and board.lane(at.id) in _LANES[at.phase]:
        moved, goal = [at.id], "for_review" if at.phase == "implement" else "approved"
    for id_ in moved:
        lane = board.lane(id_)
        first = WALK.index("claimed" if lane == "blocked" else lanes.parse(lane)) + 1
        for next_lane in WALK[first : WALK.index(lanes.parse(goal)) + 1]:
            _move(found, tx, id_, next_lane)
    if tx.clear_step(found.mission.slug, at.key):
        _close_questions(found, tx, at.key)
    return moved


def _fall_short(found: State, tx: Store, at: At, word: Report) -> list[str]:
    """Count a failure, or note what is in the way; the lane and the desk say it too."""
    lane = found.board.lane(at.id) if at.id else ""
    if at.id and lane not in _LANES[at.phase]:
        raise BlockedError(
            f"{found.mission.task_id(at.id)} is {lane}; the step {at.name} is over",
            code="step_over",
            fix=[f"treadle next --json --mission {found.mission.slug}"],
        )
    goal: Lane | None = None
    if at.phase == "review" and word.result == "failed":
        goal = "planned"
    elif at.phase == "implement" and word.result == "blocked" and lane != "blocked":
        goal = "blocked"
    if at.id and goal:
        _move(found, tx, at.id, goal, word.note or f"reported as {word.result}")
    before = found.reports.get(at.key)
    failures = (before.failures if before else 0) + (word.result == "failed")
    blocked, who, now = word.result == "blocked", found.agent, found.now
    row = MissionStepRow(found.mission.slug, at.key, failures, blocked, word.note, who, utc(now))
    tx.report_step(row)
    if failures >= state.MAX_FAILURES:
        _ask(found, tx, at, _stuck(found._replace(reports={at.key: row}), at))
    return [at.id] if at.id and goal else []


def _forget(found: State, tx: Store) -> list[str]:
    """Clear what was reported, and plan blocked tasks again."""
    for step in found.reports:
        tx.clear_step(found.mission.slug, step)
    _close_questions(found, tx)
    blocked = found.board.in_lane("blocked")
    for id_ in blocked:
        _move(found, tx, id_, "in_progress", "retry")
        _move(found, tx, id_, "planned")
    return blocked


def _move(found: State, tx: Store, id_: str, to: Lane, reason: str | None = None) -> None:
    """Take a task to another lane by the rules, as a part of what a report changes."""
    missions.adopt_tasks(tx, found.mission, [id_], found.now)
    before = find_task(tx, found.mission.task_id(id_))
    after = claim.moved(tx, before, to, Holder(found.agent), found.now, reason)
    after = after._replace(updated_at=utc(found.now))
    tx.swap_task(before, after, moved_record(before, after, Note(found.agent, reason)))


def _show_moves(store: Store, mission: Mission, moved: Sequence[str]) -> None:
    for id_ in moved:
        write_views(store, store.mail, mission.task_id(id_))


def _ask(found: State, tx: Store, at: At, stuck: Halt) -> None:
    """Put a step that waits for a decision on the desk, with the commands that decide."""
    question = Question(
        kind="question",
        summary=stuck.reason,
        subject=Subject("mission", found.mission.slug),
        look=stuck.unblock,
        matter=at.key,
        task_id=stuck.where.task_id,
    )
    questions.ask(tx, question, found.now)


def _close_questions(found: State, tx: Store, matter: str | None = None) -> None:
    """Take off the desk what was asked about a step, or about all of a mission's steps."""
    subject = Subject("mission", found.mission.slug)
    questions.close(tx, subject, "the work goes on", found.now, matter)


def _own_files(found: State, at: At) -> Sequence[str]:
    """Return what a phase is about: its gate judges it, so it may be uncommitted meanwhile."""
    mission, files = found.mission, found.mission.files
    own = {"specify": files.spec, "plan": files.plan, "tasks": files.tasks}
    return [mission.name(own[at.phase])] if at.phase in own else []


def _nothing_to_do(found: State, store: Reader, at: At | None) -> Halt:
    """Say why no step can be given."""
    if at:
        return _stuck(found, at)
    if state.is_complete(found):
        reason = f"all tasks of {found.mission.slug} are done"
        return Halt("complete", found.at("accept"), reason, "mission_complete")
    reported = [id_ for id_ in found.board.names if found.is_stuck(id_)]
    if reported:
        in_review = found.board.lane(reported[0]) in lanes.REVIEW
        return _stuck(found, found.at("review" if in_review else "implement", reported[0]))
    blocked = found.board.in_lane("blocked")
    return _blocked_task(found, store, blocked[0]) if blocked else _waiting(found)


def _stuck(found: State, at: At) -> Halt:
    """Tell what was reported of a step that now waits for somebody's word."""
    row, name = found.reports[at.key], at.task_id or at.phase
    note = row.note or "no reason was given"
    again = _retry_command(found.mission)
    if row.is_blocked:
        reason = f"{name} is blocked, {row.who} says: {note}"
        return Halt("blocked", at, reason, "reported_blocked", (again,))
    cancel = (f'treadle task move {name} --to canceled --reason "why"',) if at.id else ()
    reason = f"{name} failed {row.failures} times; {row.who} said at last: {note}"
    return Halt("decision_required", at, reason, "failed_too_often", (again, *cancel))


def _shut_gate(found: State, at: At) -> Halt | None:
    """Hold a finished phase against its gate; None lets it pass."""
    mission = found.mission
    if at.phase in GATED:
        shut = found.gate(at.phase)
        if shut.reason is None:
            return None
        return Halt("blocked", at, shut.reason, f"{shut.kind}_not_ready", _opens(mission, at))
    if at.phase == "tasks" and not found.board.names:
        folder = mission.name(mission.files.tasks)
        commands = (f"treadle mission tasks --mission {mission.slug}", f"ls {folder}")
        return Halt("blocked", at, state.no_tasks(mission), "no_tasks", commands)
    return None


def _opens(mission: Mission, at: At) -> tuple[str, ...]:
    plan = f"treadle mission setup-plan --mission {mission.slug}"
    if at.phase == "plan":
        return (plan,)
    name = mission.name(mission.files.spec)
    return (f"git add {name}", f'git commit -m "Specify {mission.slug}" -- {name}', plan)


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


def _blocked_task(found: State, store: Reader, id_: str) -> Halt:
    """Tell why a task is in the lane blocked: a question on the desk, or its last move."""
    task_id = found.mission.task_id(id_)
    place = found.at("implement", id_)
    for item in store.questions():
        if item.task_id == task_id:
            answer = f'treadle answer {item.question_id} "your answer"'
            fix = (answer, *questions.commands(item))
            return Halt("decision_required", place, item.summary, "question_open", fix)
    moves = store.task_moves(task_id)
    why = f": {moves[-1].reason}" if moves and moves[-1].reason else ""
    unblock = (_retry_command(found.mission), f"treadle task show {task_id}")
    return Halt("blocked", place, f"{task_id} is blocked{why}", "task_blocked", unblock)


def _waiting(found: State) -> Halt:
    board, slug = found.board, found.mission.slug
    place = found.at("implement")
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


def _retry_command(mission: Mission) -> str:
    return f"treadle next --json --mission {mission.slug} --retry"


_PROMPTS = Path(__file__).with_name("prompts")
_MAX_NOTE = 4 << 10
_KEPT = 7 * 24 * 60 * 60  # seconds
_PROMPT_NAME = re.compile(r"(?P<step>[a-z]+(?:\.WP\d+)?)@(?P<agent>[^@]+)-[0-9a-f]{8}\.md")


def write_prompt(found: State, at: At) -> Path:
    """Write a step's prompt under a name made of its content, and return where it lies."""
    data = prompt_text(found, at).encode(errors="replace")
    label = at.name.replace(":", ".")
    name = f"{found.mission.slug}@{label}@{found.agent}-{binascii.crc32(data):08x}.md"
    path = found.layout.prompts / name
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, data, durable=False)
    _forget_old(found)
    return path


def last_issued_step(found: State) -> At | None:
    """Return the step whose prompt this agent was given last."""
    slug = found.mission.slug
    given = [
        (path.stat().st_mtime_ns, match["step"])
        for path in found.layout.prompts.glob(f"{slug}@*.md")
        if (match := _PROMPT_NAME.fullmatch(path.name.removeprefix(f"{slug}@")))
        and match["agent"] == found.agent
    ]
    return parse_step(found, max(given)[1].replace(".", ":")) if given else None


def _forget_old(found: State) -> None:
    """Delete prompts that nobody reads any more; whoever asks again gets a new one."""
    oldest = found.now.timestamp() - _KEPT
    for path in found.layout.prompts.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < oldest:
                path.unlink()


def parse_step(found: State, step: str) -> At | None:
    """Read a step's name, such as `specify` or `implement:WP01`; None if the mission has none."""
    name, _, id_ = step.partition(":")
    is_there = not id_ or id_ in found.board.names
    for phase in PHASES:
        if name == phase and is_there and bool(id_) == (phase in TASK_PHASES):
            return found.at(phase, id_)
    return None


def prompt_text(found: State, at: At) -> str:
    """Return a step's prompt: its template, without the paragraphs that have nothing to say."""
    template = (_PROMPTS / f"{at.phase}.md").read_text("utf-8")
    values = _common_values(found, at)
    if at.phase in GATED:
        values |= _gate_values(found, at)
    elif at.phase == "accept":
        values["approved"] = _approved(found)
    file = found.board.file(at.id) if at.id else None
    if file:
        values |= _task_values(found, file)
    parts = (part.strip("\n").format_map(values) for part in template.split("\n\n"))
    own = [part for part in parts if part.strip()]
    return block("\n\n".join([*own, file.text] if file else own)) + "\n"


def _common_values(found: State, at: At) -> dict[str, str]:
    mission, files = found.mission, found.mission.files
    who = "" if found.agent == HUMAN else f" --agent {found.agent}"
    return {
        "slug": mission.slug,
        "title": line(missions.title(mission)),
        "root": str(mission.root),
        "spec": mission.name(files.spec),
        "plan": mission.name(files.plan),
        "tasks": mission.name(files.tasks),
        "last_attempt": _last_attempt(found, at),
        "report": f"treadle next --json --mission {mission.slug}{who} --step {at.name}",
    }


def _gate_values(found: State, at: At) -> dict[str, str]:
    text = gates.scaffold(GATED[at.phase])
    return {
        "missing": _listed(found.gate(at.phase).missing),
        "boundary": text[text.index("## Commit Boundary") :].strip(),
    }


def _task_values(found: State, file: TaskFile) -> dict[str, str]:
    task = found.mission.task_id(file.id)
    who = "" if found.agent == HUMAN else f" --as {found.agent}"
    claim = f"Take it first, so that nobody else does:\n\n    treadle task claim {task}{who}"
    needed = f"Done before it, and yours to build on: {', '.join(file.dependencies)}."
    nothing = "The task names none: change what it needs and nothing else."
    return {
        "task": task,
        "task_title": line(file.title),
        "file": found.mission.name(file.path),
        "claim": "" if found.board.held_by(found.agent) == file.id else claim,
        "criteria": _listed(map(_in_words, file.criteria)),
        "paths": _listed(f"`{path}`" for path in file.owned_files) or nothing,
        "dependencies": needed if file.dependencies else "",
    }


def _approved(found: State) -> str:
    board, mission = found.board, found.mission
    ids = board.in_lane("approved")
    return _listed(f"{mission.task_id(id_)}: {board.file(id_).title}" for id_ in ids)


def _listed(items: Iterable[str]) -> str:
    return "\n".join(f"- {line(item)}" for item in items)


def _in_words(item: Criterion) -> str:
    check = f" (checked by `$ {item.verify}`)" if item.verify else ""
    return f"{item.id}: {item.text}{check}"


def _last_attempt(found: State, at: At) -> str:
    row = found.reports.get(at.key)
    if row is None or not row.failures:
        return ""
    note = f":\n\n{quoted(row.note, _MAX_NOTE)}" if row.note else ", without a word why"
    times = "once" if row.failures == 1 else f"{row.failures} times"
    return f"## The last attempt\n\nThis failed {times}. {row.who} reported at last{note}"
