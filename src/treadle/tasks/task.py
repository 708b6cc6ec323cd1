"""A task: add it, see whether it is tested, change it by compare-and-swap, show it in files."""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from treadle.contract import Criterion
from treadle.errors import BlockedError, UsageError
from treadle.files import atomic
from treadle.ids import HUMAN, TREADLE, hint, is_criterion_id, is_task_id, utc
from treadle.layout import MailLayout
from treadle.store.store import NO_MAIL, Reader, Store, Transaction
from treadle.store.task_changes import MoveRow, TaskClaimRow, TaskFileRow
from treadle.store.tasks import TaskRow
from treadle.tasks import lanes, statefile

TESTS_PASSED = "tests_passed"
COVERED = "coverage_threshold_met"
PEER_REVIEWED = "peer_reviewed"
COVERAGE = "coverage"
LETTER = "letter"  # where a task came from
FILES = "TASKS"  # where a task came from, or who says so of its checks: files of another program

_REVIEWED = ("approved", "done")

# What is written in the same transaction as a task's change.
Also = Callable[[Transaction], None]


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
    claims = store.task_claims(task.task_id)
    tested = tests_passed(store, task) is True
    covered = _coverage(store, task, claims, tested)
    claimed = claims.get(PEER_REVIEWED)
    reviewed = _is_reviewed(store, task) or (claimed is not None and claimed.value)
    if claimed and _is_adopted(claimed) and not store.task_moves(task.task_id):
        reviewed = claimed.value
    return Checks(tested, covered, reviewed, tested and covered and reviewed)


def _is_reviewed(store: Reader, task: TaskRow) -> bool:
    """Tell whether a task is approved; a mission's only by somebody else than did the work."""
    if task.lane not in _REVIEWED or not task.mission:
        return task.lane in _REVIEWED
    who = {move.to_lane: move.who for move in store.task_moves(task.task_id)}
    return "approved" not in who or who["approved"] != who.get("for_review")


def tests_passed(store: Reader, task: TaskRow) -> bool | None:
    """Tell whether the task's tests passed; None when nobody has seen or said anything."""
    if seen := _seen(store, task):
        wanted = {item.id for item in task.criteria if item.verify}
        return wanted <= seen.keys() and all(seen.values())
    claimed = store.task_claims(task.task_id).get(TESTS_PASSED)
    if any(item.verify for item in task.criteria) and not _is_adopted(claimed):
        return None
    return claimed.value if claimed else None


def _seen(store: Reader, task: TaskRow) -> dict[str, bool]:
    """Return what the commands of a task showed: for an agent of a mission, or in its last run."""
    work = store.mission_work(task.mission) if task.mission else {}
    told = work.get(task.task_id.rpartition(".")[2])
    if told and told.observed:
        return {item.id: item.state == "passed" for item in told.observed}
    return {item.id: item.state == "passed" for item in store.task_checks(task.task_id)}


def _is_adopted(claimed: TaskClaimRow | None) -> bool:
    """Tell whether a check was found in a file; those of a lost store are all there is."""
    return claimed is not None and claimed.claimed_by == FILES


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
            f" --from tester --to {task.owner or 'human'}",
            f'treadle task move {id_} --to done --force --reason "it works"',
        ],
        details={"task_id": id_, "lane": task.lane, "owner": task.owner},
    )


def names_coverage(task: TaskRow) -> set[str]:
    """Return the criteria that ask for coverage."""
    return {item.id for item in task.criteria if COVERAGE in item.text.lower()}


def _coverage(
    store: Reader, task: TaskRow, claims: Mapping[str, TaskClaimRow], tested: bool
) -> bool:
    """Tell whether what names coverage was judged and holds; where nothing does, the tests do."""
    named, claimed, seen = names_coverage(task), claims.get(COVERED), _seen(store, task)
    if found := [passed for id_, passed in seen.items() if id_ in named]:
        return all(found)
    has_command = any(item.verify for item in task.criteria if item.id in named)
    if claimed and (not seen if _is_adopted(claimed) else named and not has_command):
        return claimed.value
    return tested and not named


def criteria_from_flags(
    goal: str, texts: Sequence[str], verify: Sequence[str]
) -> tuple[Criterion, ...]:
    """Number the criteria and attach their commands; without any, AC1 is the goal."""
    return with_commands(numbered(goal, texts), verify)


def numbered(goal: str, texts: Sequence[str]) -> list[Criterion]:
    """Return the criteria with their ids; without any, AC1 is the goal."""
    pairs = [_split_id(raw, f"AC{number}") for number, raw in enumerate(texts or [goal], 1)]
    ids = [id_ for id_, _ in pairs]
    for id_ in ids:
        if ids.count(id_) > 1:
            raise UsageError(f"criterion {id_} is given twice; give each --ac its own id")
    return [Criterion(id_, text) for id_, text in pairs]


def with_commands(asked: Sequence[Criterion], verify: Sequence[str]) -> tuple[Criterion, ...]:
    """Return the criteria with these commands instead of those they had."""
    known, commands = {item.id for item in asked}, dict[str, str]()
    for id_, command in map(_split_verify, verify):
        if id_ not in known:
            near = hint(id_, known, or_all=True)
            raise UsageError(f"--verify {id_}: no such criterion{near}")
        if id_ in commands:
            raise UsageError(f"--verify {id_} is given twice")
        commands[id_] = command
    return tuple(item._replace(verify=commands.get(item.id, item.verify)) for item in asked)


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


_MODE = 0o644
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def write_views(store: Store, mail: MailLayout, task_id: str) -> None:
    """Bring a task's files up to date; only the lines of our own keys change.

    Each file is dated with the change it shows, so that one that lags behind can be told from
    one that somebody edited; an edit that nobody has read yet is left for the next look. Two
    writers may overtake each other: look again afterwards. A worker elsewhere has no files.
    """
    written = None
    while mail is not NO_MAIL and (task := store.task(task_id)) is not None and task != written:
        mail.tasks.mkdir(parents=True, exist_ok=True)
        seen, moves = store.task_files(task_id), store.task_moves(task_id)
        views = _views(store, task, moves)
        if task.source == LETTER:  # one that was only read may not have been written down yet
            define(mail, task)
        store.mark_files([_show(mail, task, moves, view, seen) for view in views])
        written = task


def stamps(task: TaskRow, moves: Sequence[MoveRow]) -> set[int]:
    """Return the times that files have which treadle wrote."""
    return {stamp(at) for at in (task.created_at, task.updated_at, *(row.at for row in moves))}


class _View(NamedTuple):
    """What a file should say, None for no line; what is `kept` stands as it was first written."""

    ending: str
    values: Mapping[str, str | None]
    kept: str = ""


def _views(store: Reader, task: TaskRow, moves: Sequence[MoveRow]) -> list[_View]:
    held = [_second(row.at) for row in moves if row.to_lane in lanes.HELD]
    changed, owner = _second(task.updated_at), task.owner
    status = {
        "task_id": task.task_id,
        "status": lanes.status(task.lane),
        **({"lane": task.lane} if task.mission else {}),
        "owner": owner,
        "started_at": held[0] if held else None,
        "updated_at": changed,
    }
    claimed = {"owner": owner, "claimed_at": (held[-1] if held else changed) if owner else None}
    checks = {key: str(value).lower() for key, value in standing(store, task)._asdict().items()}
    return [
        _View("status", status, "started_at"),
        _View("owner", claimed, "" if held or not owner else "claimed_at"),
        _View("checks", checks),
    ]


def _show(
    mail: MailLayout,
    task: TaskRow,
    moves: Sequence[MoveRow],
    view: _View,
    seen: Mapping[str, TaskFileRow],
) -> TaskFileRow:
    """Write one file, unless it is as it should be, or holds what nobody has read."""
    path, shown_at = mail.task(task.task_id, view.ending), task.updated_at
    found = statefile.read(path)
    is_known = found.is_as(seen.get(path.name)) or found.mtime_ns in stamps(task, moves)
    if found.error or not (is_known or found.text is None):
        return TaskFileRow(path.name, task.task_id, shown_at=shown_at)
    text = found.text or ""
    said = statefile.values(text)
    wanted = {k: v for k, v in view.values.items() if k != view.kept or k not in said}
    new = statefile.with_values(text, wanted)
    if new != text:
        _put(path, new if new.strip() else None, stamp(shown_at))
        if found.text is not None and new.strip() and found.mode != _MODE:
            path.chmod(found.mode)
        found = statefile.look(path)
    return found.row(task.task_id, shown_at)


def define(mail: MailLayout, task: TaskRow) -> None:
    """Write what a task is, once; what people make of the file later stays."""
    if mail is NO_MAIL:
        return
    mail.tasks.mkdir(parents=True, exist_ok=True)
    path = mail.task(task.task_id, "md")
    if not os.path.lexists(path):
        _put(path, definition(task), stamp(task.updated_at))


def definition(task: TaskRow) -> str:
    """Return a task as markdown from which it can be read again."""
    text = f"\n{task.text.strip()}\n" if task.text else ""
    body = "\n".join(
        f"- {item.id}: {item.text}{f': `$ {item.verify}`' if item.verify else ''}"
        for item in task.criteria
    )
    return f"# {task.goal}\n{text}\n## Acceptance Criteria\n{body}\n"


def stamp(at: str) -> int:
    """Return a moment in nanoseconds, as files are dated."""
    return (datetime.fromisoformat(at) - _EPOCH) // timedelta(microseconds=1) * 1000


def _put(path: Path, text: str | None, mtime_ns: int) -> None:
    if text is None:
        path.unlink(missing_ok=True)
    else:
        data = text.encode("utf-8", "surrogateescape")  # others' lines stay as they are
        atomic.write(path, data, durable=False, mtime_ns=mtime_ns)


def _second(moment: str | None) -> str | None:
    return f"{moment[:19]}Z" if moment else None


class Changed(NamedTuple):
    """A task before and after."""

    before: TaskRow
    after: TaskRow


def change_task(
    store: Store,
    task_id: str,
    decide: Callable[[TaskRow], TaskRow],
    note: Note,
    now: datetime,
    also: Also | None = None,
) -> Changed:
    """Read, decide, and write unless someone came in between; then decide again.

    What is `also` to be written belongs to the same transaction.
    """

    def swap(tx: Transaction) -> bool:
        done = tx.swap_task(before, after, moved_record(before, after, note))
        if done and also:
            also(tx)
        return done

    while True:
        before = find_task(store, task_id)
        after = decide(before)
        if after == before:
            return Changed(before, before)
        if after.lane == "done":
            _require_tested(store, before, note)
        after = after._replace(updated_at=utc(now))
        if store.write(swap):
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
    row = new._replace(goal=new.goal.strip(), created_at=at, updated_at=at)
    added = store.write(lambda tx: insert(tx, row))
    if added is None:
        raise UsageError(
            f"there already is a task {new.task_id}; give another --id",
            code="task_exists",
            fix=[f"treadle task show {new.task_id}"],
        )
    define(store.mail, added)
    write_views(store, store.mail, added.task_id)
    return added


def insert(
    tx: Store, row: TaskRow, files: Sequence[statefile.StateFile] = (), shown_at: str = ""
) -> TaskRow | None:
    """Add a task with what is known of its files; None if there is one of its name."""
    added = tx.add_task(row)
    if added:
        found = files or [statefile.StateFile(f"{added.task_id}.status")]
        tx.mark_files([file.row(added.task_id, shown_at) for file in found])
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
        "updated_at": task.updated_at,
        "checks": standing(store, task)._asdict(),
        "depends_on": [row.task_id for row in store.dependencies(id_)],
        "needed_by": [row.task_id for row in store.dependents(id_)],
        "runs": [row._asdict() for row in store.task_runs(id_)],
        "moves": [row._asdict() for row in store.task_moves(id_)],
        "reservations": [
            row._asdict() for row in store.reservations(utc(now)) if row.task_id == id_
        ],
    }
