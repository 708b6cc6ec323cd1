"""Change the course of a whole mission: give it up, go back to a phase, rename it, put it away."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from treadle.engine.run.run import reach
from treadle.errors import BlockedError, TreadleError, argument
from treadle.files import atomic
from treadle.ids import TREADLE, new_mission_id, utc
from treadle.layout import MissionLayout
from treadle.missions import accept, adopt, merge, scaffold, state
from treadle.missions import mission as missions
from treadle.missions.state import CANCELED, PHASES, REOPENED, Phase, State
from treadle.project.context import Context, patiently, require_ready
from treadle.store.store import Store
from treadle.store.tasks import MissionStepRow, StepTry
from treadle.tasks import claim, lanes
from treadle.tasks.claim import Holder
from treadle.tasks.lanes import Lane
from treadle.tasks.task import Note, find_task, moved_record, write_views

_ARCHIVE = "archive"
_BACK: dict[str, tuple[tuple[str, ...], tuple[Lane, ...]]] = {
    "implement": (lanes.REVIEW, ("planned",)),
    "review": (("approved",), ("in_progress", "for_review")),
}


class CourseChange(NamedTuple):
    """Which tasks were moved, each with who held it, and which questions are closed."""

    tasks: dict[str, str | None]
    questions: tuple[str, ...] = ()


class PutAway(NamedTuple):
    """Where a mission's folder lies now, what commits that, and what takes it back."""

    folder: Path
    commit: str
    undo: str


def cancel(found: State, store: Store, reason: str) -> CourseChange:
    """Give a mission up: what is not done is canceled, whoever holds it."""
    board, mission = found.board, found.mission
    if state.is_complete(found):
        text = f"mission {mission.slug} is complete; there is nothing left to cancel"
        fix = [f"treadle mission archive --mission {mission.slug}"]
        raise BlockedError(text, code="mission_over", fix=fix)
    ids = [id_ for id_ in board.names if board.lane(id_) not in lanes.FINAL]
    asked = [row.question_id for row in found.asked if row.is_open]

    def change(tx: Store) -> None:
        for id_ in ids:
            _move(found, tx, id_, ("canceled",), reason)
        mark = MissionStepRow(mission.slug, CANCELED, 0, True, reason, found.agent, utc(found.now))
        tx.report_step(mark)
        for question_id in asked:
            tx.answer(question_id, f"the mission was canceled: {reason}", TREADLE, found.now)

    store.write(change)
    return CourseChange(_shown(found, store, ids), tuple(asked))


def reopen(found: State, store: Store, phase: Phase, reason: str) -> CourseChange:
    """Go back to a phase: its own step comes next, or its tasks are sent back; done stays done."""
    mission, board = found.mission, found.board
    if board.accepted.at:
        raise BlockedError(
            f"mission {mission.slug} was accepted at {board.accepted.at}, which is final;"
            " what has to change is a mission of its own",
            code="mission_over",
            fix=[f"treadle mission create {mission.slug[:50]}-again"],
        )
    lanes_, way = _BACK.get(phase, ((), ()))
    ids, now_in = board.in_lane(*lanes_), state.phase(found)
    if not (ids or found.canceled) and PHASES.index(phase) > PHASES.index(now_in):
        raise BlockedError(
            f"{phase} of mission {mission.slug} has not begun: it is in the phase {now_in}",
            code="mission_open",
            fix=[f"treadle next --mission {mission.slug}"],
        )

    def change(tx: Store) -> None:
        tx.clear_step(mission.slug, CANCELED)
        for id_ in ids:
            _move(found, tx, id_, way, reason)
        for key in ids if phase in _BACK else [phase]:
            tx.report_step(_begun_anew(found, key, reason))

    store.write(change)
    return CourseChange(_shown(found, store, ids))


def _begun_anew(found: State, key: str, reason: str) -> MissionStepRow:
    """Return what is known of a step, with the wish for a change, which its prompt shows."""
    known, now = found.reports.get(key), utc(found.now)
    tries = (*(known.tries if known else ()), StepTry(key, REOPENED, found.agent, reason, now))
    return MissionStepRow(found.mission.slug, key, 0, False, reason, found.agent, now, tries)


def archive(project: Context, found: State) -> PutAway:
    """Move the folder of a mission that is over to where no mission is looked for."""
    mission = found.mission
    if not (state.is_complete(found) or found.canceled):
        raise BlockedError(
            f"mission {mission.slug} is not over: it is in the phase {state.phase(found)}",
            code="mission_open",
            fix=[
                f"treadle next --mission {mission.slug}",
                f'treadle mission cancel --mission {mission.slug} --reason "given up"',
            ],
        )
    _require_free(project, found)
    folder = mission.files.folder
    return _put(project, found, folder.parent / _ARCHIVE / folder.name, "Archive")


def rename(project: Context, found: State, store: Store, slug: str) -> PutAway:
    """Give a mission's folder another name; what is known of it hangs on its id and stays.

    The id is in the file before any row is moved: after a kill the rows follow the folder.
    """
    scaffold.check_slug(project, slug, f"rename {found.mission.slug}")
    mission, meta = found.mission, found.mission.files.meta
    _require_free(project, found, [mission.name(meta)])
    new = new_mission_id(found.now, int.from_bytes(os.urandom(10)))
    known = mission._replace(mission_id=mission.mission_id or new)
    before = meta.read_bytes() if meta.exists() else None
    has_short = "slug" in missions.read_meta(mission)
    words = {"mission_id": known.id, "mission_slug": slug, **({"slug": slug} if has_short else {})}
    atomic.write(meta, accept.with_keys((before or b"{}\n").decode(), words).encode())
    try:
        adopt.name_mission(store, known, found.now)
        adopt.name_mission(store, known._replace(slug=slug), found.now)
        reach("mission_named")
        done = _put(project, found, mission.files.folder.with_name(slug), "Rename")
    except TreadleError:
        meta.unlink() if before is None else atomic.write(meta, before)
        raise
    patiently(project, ["add", "--", mission.name(done.folder / meta.name)], project.repo.place)
    return done._replace(undo=f"treadle mission rename {slug} {mission.slug}")


def _require_free(project: Context, found: State, own: Sequence[str] = ()) -> None:
    """Refuse while task branches bear the mission's name; what is merged and clean is removed.

    A spec or plan that git does not know yet moves along, and stays uncommitted.
    """
    require_ready(project)
    names = map(found.mission.name, (found.mission.files.spec, found.mission.files.plan))
    drafts = [it for it in names if not (found.head[it].is_tracked or found.head[it].content)]
    adopt.require_committed(project.layout.root, [*own, *drafts])
    left = merge.tidy(project, found, every_lane=True).kept
    if left:
        throw = [
            command
            for path, _, branch in left
            for command in (
                *([f"git worktree remove --force {argument(path)}"] if Path(path).is_dir() else []),
                f"git branch -D {branch}",
            )
        ]
        said = "; ".join(f"{path}: {reason}" for path, reason, _ in left)
        raise BlockedError(
            f"tasks of {found.mission.slug} have worktrees or branches of their own ({said});"
            " merge them, or throw them away with the commands below it",
            code="worktrees_left",
            fix=[f"treadle mission merge --mission {found.mission.slug}", *throw],
        )


def _put(project: Context, found: State, target: Path, verb: str) -> PutAway:
    mission = found.mission
    if target.exists():
        text = f"there already is {project.layout.relative(target)}"
        fix = [f"ls {argument(project.layout.relative(target))}"]
        raise BlockedError(text, code="mission_exists", fix=fix)
    old, new = mission.name(mission.files.folder), mission.name(target)
    missions.require_inside(mission._replace(files=MissionLayout(target)))
    target.parent.mkdir(exist_ok=True)
    patiently(project, ["mv", "--", old, new], project.repo.place)
    message = f"{verb} feature {mission.slug}"
    return PutAway(target, f'git commit -m "{message}" -- {old} {new}', f"git mv {new} {old}")


def _move(found: State, tx: Store, id_: str, way: Sequence[Lane], reason: str) -> None:
    """Take a task through lanes by a person's word, whoever holds it; that is recorded."""
    adopt.adopt_tasks(tx, found.mission, [id_], found.now)
    for lane in way:
        before = find_task(tx, found.mission.task_id(id_))
        by = Holder(found.agent)
        after = claim.moved(tx, before, lane, by, found.now, reason, force=True)
        note = Note(found.agent, reason, True)
        after = after._replace(updated_at=utc(found.now))
        tx.swap_task(before, after, moved_record(before, after, note))


def _shown(found: State, store: Store, ids: Sequence[str]) -> dict[str, str | None]:
    for id_ in ids:
        write_views(store, store.mail, found.mission.task_id(id_))
    held = {it: found.board.holder(it) for it in found.board.in_lane(*lanes.HELD)}
    return {found.mission.task_id(id_): held.get(id_) for id_ in ids}
