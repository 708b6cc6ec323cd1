"""A task: add it, see whether it is tested, change it by compare-and-swap, show it in files."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from treadle.contract import Criterion
from treadle.errors import BlockedError, UsageError
from treadle.files import atomic
from treadle.ids import HUMAN, TREADLE, hint, is_criterion_id, is_task_id, utc
from treadle.layout import MailLayout
from treadle.store.runs import CheckRow
from treadle.store.store import NO_MAIL, Reader, Store
from treadle.store.tasks import MoveRow, TaskRow
from treadle.tasks import lanes

TESTS_PASSED = "tests_passed"
PEER_REVIEWED = "peer_reviewed"

_REVIEWED = ("approved", "done")


class Note(NamedTuple):
    """Who changes a task, and why."""

    who: str
    reason: str | None = None
    forced: bool = False


class Checks(NamedTuple):
    """The four lines of a task's `.checks` file, in order."""

    tests_passed: bool
    coverage_threshold_met: bool
    peer_reviewed: bool
    ready_for_merge: bool


def standing(store: Reader, task: TaskRow) -> Checks:
    """Return how a task stands now."""
    tested = tests_passed(store, task) is True
    covered = _coverage(task, store.task_checks(task.task_id), tested)
    claimed = store.task_claims(task.task_id).get(PEER_REVIEWED)
    reviewed = task.lane in _REVIEWED or (claimed is not None and claimed.value)
    return Checks(tested, covered, reviewed, tested and covered and reviewed)


def tests_passed(store: Reader, task: TaskRow) -> bool | None:
    """Tell whether the task's tests passed; None when nobody has seen or said anything."""
    if seen := store.task_checks(task.task_id):
        wanted = {item.id for item in task.criteria if item.verify}
        passed = {row.criterion_id for row in seen if row.passed}
        return wanted <= passed and len(passed) == len(seen)
    if any(item.verify for item in task.criteria):
        return None
    claimed = store.task_claims(task.task_id).get(TESTS_PASSED)
    return claimed.value if claimed else None


def _require_tested(store: Reader, task: TaskRow, note: Note) -> None:
    """Refuse to complete untested work; a person's word stands in for tests nobody has run.

    A mission's tasks have their reviews instead.
    """
    if task.mission or note.forced or note.who == TREADLE:
        return
    found = tests_passed(store, task)
    if found or (found is None and note.who == HUMAN):
        return
    why = "its tests do not pass" if found is False else "nobody has seen its tests pass"
    id_ = task.task_id
    raise BlockedError(
        f"{id_} cannot be completed while tests_passed is false: {why}",
        code="tests_not_passed",
        fix=[
            f"treadle run {id_}",
            f"treadle mail send --intent test_results --status completed --task {id_}"
            f" --from TESTER --to {task.owner or 'human'}",
            f'treadle task move {id_} --to done --force --reason "why"',
        ],
        details={"task_id": id_, "lane": task.lane, "owner": task.owner},
    )


def _coverage(task: TaskRow, seen: list[CheckRow], tested: bool) -> bool:
    """Tell whether what names coverage holds; where nothing does, the tests speak for it."""
    named = {item.id for item in task.criteria if "coverage" in item.text.lower()}
    found = [row.passed for row in seen if row.criterion_id in named]
    return all(found) if found else tested


def criteria_from_flags(
    goal: str, texts: Sequence[str], verify: Sequence[str]
) -> tuple[Criterion, ...]:
    """Number the criteria and attach their commands; without any, AC1 is the goal."""
    criteria: dict[str, Criterion] = {}
    for number, raw in enumerate(texts or [goal], 1):
        id_, text = _split_id(raw, f"AC{number}")
        if id_ in criteria:
            raise UsageError(f"criterion {id_} is given twice; give each --ac its own id")
        criteria[id_] = Criterion(id_, text)
    for id_, command in map(_split_verify, verify):
        if id_ not in criteria:
            near = hint(id_, criteria, or_all=True)
            raise UsageError(f"--verify {id_}: no such criterion{near}")
        if criteria[id_].verify is not None:
            raise UsageError(f"--verify {id_} is given twice")
        criteria[id_] = criteria[id_]._replace(verify=command)
    return tuple(criteria.values())


def with_configured_commands(
    criteria: Sequence[Criterion], commands: Mapping[str, str]
) -> tuple[Criterion, ...]:
    """Attach configured commands to criteria whose text contains their key."""
    return tuple(
        item if item.verify is not None else item._replace(verify=_configured(item, commands))
        for item in criteria
    )


def _configured(item: Criterion, commands: Mapping[str, str]) -> str | None:
    return next((command for key, command in commands.items() if key in item.text), None)


def _split_id(raw: str, default: str) -> tuple[str, str]:
    head, colon, rest = raw.partition(":")
    if colon and rest.strip() and is_criterion_id(head.strip()) and head.strip()[-1].isdigit():
        return head.strip(), rest.strip()
    if not raw.strip():
        raise UsageError("an --ac must not be empty")
    return default, raw.strip()


def _split_verify(raw: str) -> tuple[str, str]:
    id_, equals, command = raw.partition("=")
    if not equals or not command.strip():
        raise UsageError(f'--verify {raw!r}: write it as --verify "AC1=command"')
    return id_.strip(), command.strip()


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def write_views(store: Reader, mail: MailLayout, task_id: str) -> None:
    """Bring a task's files up to date.

    Each is dated with the change it shows, so that a file that lags behind can be told from
    one that somebody edited. Two writers may overtake each other: look again afterwards.
    A worker on another machine has none of them.
    """
    written = None
    while mail is not NO_MAIL and (task := store.task(task_id)) is not None and task != written:
        mail.tasks.mkdir(parents=True, exist_ok=True)
        for ending, text in view_texts(store, task).items():
            _put(mail.task(task_id, ending), text, view_stamp(task))
        written = task


def view_texts(store: Reader, task: TaskRow) -> dict[str, str | None]:
    """Return what the files should say; None for one that should not be there."""
    moves = store.task_moves(task.task_id)
    seen = standing(store, task)._asdict()
    return {
        "status": _status_text(task, moves),
        "owner": _owner_text(task, moves),
        "checks": _lines({name: str(value).lower() for name, value in seen.items()}),
    }


def define(mail: MailLayout, task: TaskRow) -> None:
    """Write what a task is, once; what people make of the file later stays."""
    if mail is NO_MAIL:
        return
    mail.tasks.mkdir(parents=True, exist_ok=True)
    path = mail.task(task.task_id, "md")
    if not path.exists():
        _put(path, definition(task), view_stamp(task))


def definition(task: TaskRow) -> str:
    """Return a task as markdown from which it can be read again."""
    text = f"\n{task.text.strip()}\n" if task.text else ""
    body = "\n".join(
        f"- {item.id}: {item.text}{f': `$ {item.verify}`' if item.verify else ''}"
        for item in task.criteria
    )
    return f"# {task.goal}\n{text}\n## Acceptance Criteria\n{body}\n"


def view_stamp(task: TaskRow) -> int:
    """Return the moment of a task's last change, in nanoseconds."""
    moment = datetime.fromisoformat(task.updated_at)
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000


def _put(path: Path, text: str | None, mtime_ns: int) -> None:
    if text is None:
        path.unlink(missing_ok=True)
    else:
        atomic.write(path, text.encode(), durable=False, mtime_ns=mtime_ns)


def _status_text(task: TaskRow, moves: Sequence[MoveRow]) -> str:
    started = next((item.at for item in moves if item.to_lane in lanes.HELD), None)
    return _lines(
        {
            "task_id": task.task_id,
            "status": lanes.status(task.lane),
            "owner": task.owner,
            "started_at": _second(started),
            "updated_at": _second(task.updated_at),
        }
    )


def _owner_text(task: TaskRow, moves: Sequence[MoveRow]) -> str | None:
    if task.owner is None:
        return None
    claimed = [item.at for item in moves if item.to_lane in lanes.HELD]
    return _lines(
        {"owner": task.owner, "claimed_at": _second(claimed[-1] if claimed else task.updated_at)}
    )


def _lines(values: dict[str, str | None]) -> str:
    return "".join(f"{key}: {value}\n" for key, value in values.items() if value is not None)


def _second(moment: str | None) -> str | None:
    return f"{moment[:19]}Z" if moment else None


class Changed(NamedTuple):
    """A task before and after."""

    before: TaskRow
    after: TaskRow


def change_task(
    store: Store, task_id: str, decide: Callable[[TaskRow], TaskRow], note: Note, now: datetime
) -> Changed:
    """Read, decide, and write unless someone came in between; then decide again."""
    while True:
        before = find_task(store, task_id)
        after = decide(before)
        if after == before:
            return Changed(before, before)
        if after.lane == "done":
            _require_tested(store, before, note)
        after = after._replace(updated_at=utc(now))
        if store.swap_task(before, after, moved_record(before, after, note)):
            write_views(store, store.mail, task_id)
            return Changed(before, after)


def find_task(store: Reader, task_id: str) -> TaskRow:
    """Return a task, or raise NotFoundError with the nearest id."""
    task = store.task(task_id)
    if task is None:
        raise lanes.unknown_task(task_id, store.task_ids())
    return task


def moved_record(before: TaskRow, after: TaskRow, note: Note) -> MoveRow | None:
    """Return the record of a change of lane or holder, or None when it is neither."""
    if before.lane == after.lane and before.claim_id == after.claim_id:
        return None
    who, reason, forced = note
    return MoveRow(after.task_id, 0, after.updated_at, who, before.lane, after.lane, reason, forced)


def add(store: Store, new: TaskRow, now: datetime) -> TaskRow:
    """Add a task at the end of the order; without an id it gets the next free one."""
    if not new.goal.strip():
        raise UsageError("a task needs a goal", fix=['treadle task add "what should be true"'])
    if new.task_id:
        check_id(new.task_id)
    at = utc(now)
    added = store.add_task(new._replace(goal=new.goal.strip(), created_at=at, updated_at=at))
    if added is None:
        raise UsageError(
            f"there already is a task {new.task_id}; give another --id",
            code="task_exists",
            fix=[f"treadle task show {new.task_id}"],
        )
    define(store.mail, added)
    write_views(store, store.mail, added.task_id)
    return added


def check_id(text: str) -> None:
    """Refuse what cannot name a task's files."""
    if not is_task_id(text):
        raise UsageError(
            f"--id {text!r}: begin with a letter, then letters and digits "
            f"joined by . _ -, at most 64"
        )


def ready(store: Reader, now: datetime) -> list[TaskRow]:
    """Return the tasks that can be run now, in order."""
    return store.ready_tasks(utc(now))


def link(store: Store, task_id: str, depends_on: Sequence[str]) -> None:
    """Make a task wait for others; circles are refused."""
    find_task(store, task_id)
    for other in depends_on:
        find_task(store, other)
        circle = store.link_task(task_id, other)
        if circle:
            raise _circular(task_id, circle)


def unlink(store: Store, task_id: str, depends_on: Sequence[str]) -> None:
    """Let a task wait no longer for others."""
    find_task(store, task_id)
    for other in depends_on:
        if not store.unlink_task(task_id, other):
            raise UsageError(
                f"{task_id} does not depend on {other}", fix=[f"treadle task show {task_id}"]
            )


def _circular(task_id: str, circle: tuple[str, ...]) -> UsageError:
    if circle == (task_id,):
        return UsageError(f"{task_id} cannot depend on itself", code="task_cycle")
    way = " → ".join((task_id, *circle))
    return UsageError(
        f"{task_id} cannot depend on {circle[0]}, that is a circle: {way}",
        code="task_cycle",
        fix=[f"treadle task link {circle[-2]} --depends-on {circle[-1]} --remove"],
    )


def brief_document(row: TaskRow) -> dict[str, object]:
    """Return one task as a list gives it."""
    return {
        "task_id": row.task_id,
        "goal": row.goal,
        "status": lanes.status(row.lane),
        "lane": row.lane,
        "owner": row.owner,
        "lease_until": row.lease_until,
        "criteria": [item._asdict() for item in row.criteria],
    }


def list_document(rows: Sequence[TaskRow]) -> dict[str, object]:
    """Return a list of tasks."""
    return {"tasks": [brief_document(row) for row in rows]}


def whole_document(store: Reader, task: TaskRow, now: datetime) -> dict[str, object]:
    """Return one task with what it waits for and what became of it."""
    id_ = task.task_id
    return brief_document(task) | {
        "depends_on": [row.task_id for row in store.dependencies(id_)],
        "needed_by": [row.task_id for row in store.dependents(id_)],
        "runs": [row._asdict() for row in store.task_runs(id_)],
        "moves": [row._asdict() for row in store.task_moves(id_)],
        "reservations": [
            row._asdict() for row in store.reservations(utc(now)) if row.task_id == id_
        ],
    }
