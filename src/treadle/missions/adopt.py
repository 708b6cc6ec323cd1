"""Bring the tasks of missions into the store as their files say, and look at their checkout."""

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath

from treadle.errors import BlockedError, FormatError, UsageError
from treadle.git import repo
from treadle.git.repo import Repo
from treadle.ids import TREADLE, is_run_id, utc
from treadle.layout import SNAPSHOT, Layout, MailLayout, find_work_tree
from treadle.missions import mission as missions
from treadle.missions.mission import Mission, SaidLane, find, find_all
from treadle.missions.taskfile import (
    TaskFile,
    forgotten,
    is_news,
    lane_now,
    lane_trouble,
    read_with_needed,
    task_names,
)
from treadle.store.store import Reader, Store
from treadle.store.tasks import TaskRow
from treadle.tasks import claim, lanes
from treadle.tasks.files import recall
from treadle.tasks.lanes import Lane
from treadle.tasks.task import Note, moved_record, write_views

SNAPSHOT_PATTERN = f"**/.kittify/dossiers/*/{SNAPSHOT}"
_SHOWN = 20
_SHORT = r"(?i)WP\d{2,}"
_LONG = r"(.+)\.(WP\d{2,})"


def is_mission_task(word: str, slug: str | None) -> bool:
    """Tell whether a word on the command line means a mission's task."""
    return slug is not None or bool(re.fullmatch(_SHORT, word) or re.fullmatch(_LONG, word))


def resolve_task(layout: Layout, store: Store, word: str, slug: str | None, now: datetime) -> str:
    """Return the id of the task that is meant; a mission's is brought up to date first."""
    if not is_mission_task(word, slug) or (slug is None and store.task(word) and "." not in word):
        return word
    mission, id_ = _find_task(layout, word, slug)
    adopt_tasks(store, mission, [id_], now)
    return mission.task_id(id_)


def require_clean_tree(layout: Layout, store: Store, task_id: str) -> None:
    """Refuse to move a mission's task while the work tree is not clean."""
    row = store.task(task_id)
    if row and row.mission:
        require_committed(layout.task_root(task_id))


def adopt_tasks(
    store: Store, mission: Mission, ids: Iterable[str], now: datetime
) -> dict[str, TaskFile]:
    """Bring these tasks and all they depend on into the store as their files describe them."""
    if mission.trouble:
        raise mission.trouble
    files = read_with_needed(mission, ids)
    lost = _forgotten(store, mission)
    for id_ in lost:
        with contextlib.suppress(FormatError):  # it stops its own task
            files |= read_with_needed(mission, [id_])
    status = missions.status_lanes(mission)
    said = _said_here(mission, status)
    # A moment ago: the time of a task that has been moved since is another one.
    at = utc(now - timedelta(microseconds=1))
    rows = [_task_row(mission, file, _first_lane(file, said), at) for file in files.values()]
    name = mission.task_id
    links = [(name(it.id), name(needed)) for it in files.values() for needed in it.dependencies]

    def bring(tx: Store) -> list[tuple[str, str]]:
        renamed = _name(tx, mission, now)
        for row in (row for row in rows if lost and row.lane not in lanes.FINAL):
            recall(tx, store.mail, row, now)
        tx.adopt_tasks(rows, links)
        return renamed

    _show_names(store, store.write(bring))
    for id_ in status.keys() & files.keys():
        settle_lane(store, mission, id_, status[id_], now)
    return files


def name_mission(store: Store, mission: Mission, now: datetime) -> None:
    """Let the store know a mission by the name of its folder: a renamed one keeps all it has."""
    if _forgotten(store, mission):
        with contextlib.suppress(FormatError):  # said where its tasks are asked for
            adopt_tasks(store, mission, (), now)
    elif mission.mission_id and store.mission_names().get(mission.id) != mission.slug:
        _show_names(store, store.write(lambda tx: _name(tx, mission, now)))


def _forgotten(store: Store, mission: Mission) -> list[str]:
    return forgotten(store, mission, store.mail) if isinstance(store, Store) else []


def _name(store: Store, mission: Mission, now: datetime) -> list[tuple[str, str]]:
    known = store.mission_names().get(mission.id)
    if mission.trouble or not mission.mission_id or known == mission.slug:
        return []
    for row in store.mission_tasks(known) if known else ():
        if is_run_id(row.claim_id or "") and claim.is_held(row, now):
            raise _still_run(mission, row)
    return store.name_mission(mission.id, mission.slug)


def _show_names(store: Store, renamed: Sequence[tuple[str, str]]) -> None:
    """Let the files of tasks follow their new names; within a transaction they follow later."""
    for old, new in renamed if isinstance(store, Store) else ():
        for ending in ("status", "owner", "checks"):
            store.mail.task(old, ending).unlink(missing_ok=True)
        write_views(store, store.mail, new)


def settle_lane(store: Store, mission: Mission, id_: str, said: SaidLane, now: datetime) -> bool:
    """Move a task to where its mission's files say it stands, if they count; False if not."""
    row = store.task(mission.task_id(id_))
    lane = lane_now(row, said)
    if row is None or lane is None or lane == row.lane:
        return False
    after = claim.freed(row, lane)._replace(updated_at=utc(now))
    note = Note(said.who or TREADLE, "as the mission's files say")
    return store.swap_task(row, after, moved_record(row, after, note))


def _still_run(mission: Mission, row: TaskRow) -> BlockedError:
    return BlockedError(
        f"{row.mission} is called {mission.slug} now, but run {row.claim_id} still works on"
        f" {row.task_id}; wait for it, or stop it",
        code="mission_renamed",
        fix=[f"treadle stop {row.claim_id}"],
    )


def _said_here(mission: Mission, status: Mapping[str, SaidLane]) -> dict[str, SaidLane]:
    accepted = missions.acceptance(mission, missions.read_meta(mission))
    return missions.said_lanes(status, accepted)


def _first_lane(file: TaskFile, said: Mapping[str, SaidLane]) -> Lane:
    if trouble := lane_trouble(None, said.get(file.id)):
        raise trouble
    return lane_now(None, said.get(file.id)) or file.lane


def behind(layout: Layout) -> list[Mission]:
    """Return the missions whose files say more than the store knows: tasks are over."""
    if not (known := find_all(layout)):
        return []
    with Reader.open(layout) as store:
        return [mission for mission in known if _is_behind(store, mission, layout.mail)]


def _is_behind(store: Reader, mission: Mission, mail: MailLayout) -> bool:
    if is_news(store, mission, mail):
        return True
    with contextlib.suppress(FormatError):  # `mission list` and `next` name it
        rows = [store.task(mission.task_id(id_)) for id_ in finished(mission)]
        return any(row is None or row.lane not in lanes.FINAL for row in rows)
    return False


def finished(mission: Mission) -> list[str]:
    """Return the tasks that are over by what their mission's files say."""
    said = _said_here(mission, missions.status_lanes(mission))
    return [id_ for id_ in task_names(mission) if id_ in said and said[id_].lane in lanes.FINAL]


def _find_task(layout: Layout, word: str, slug: str | None) -> tuple[Mission, str]:
    long = re.fullmatch(_LONG, word)
    if long and slug is None:
        slug = long[1]
    id_ = (long[2] if long else word).upper()
    if slug is not None:
        mission = find(layout, slug)
        known = task_names(mission)
        if id_ not in known:
            raise lanes.unknown_task(f"{slug}.{id_}", [mission.task_id(name) for name in known])
        return mission, id_
    found = [m for m in find_all(layout) if id_ in task_names(m)]
    if len(found) == 1:
        return found[0], id_
    if not found:
        raise lanes.unknown_task(id_, [n for m in find_all(layout) for n in task_names(m)])
    slugs = ", ".join(mission.slug for mission in found)
    raise UsageError(
        f"{id_} is a task of several missions ({slugs}); say which with --mission",
        code="mission_ambiguous",
        fix=[f"treadle task show {mission.task_id(id_)}" for mission in found],
    )


def _task_row(mission: Mission, file: TaskFile, lane: Lane, now: str) -> TaskRow:
    id_, source = mission.task_id(file.id), mission.name(file.path)
    described = TaskRow(id_, file.title.strip(), file.text, file.criteria, lane)
    return described._replace(mission=mission.slug, source=source, created_at=now, updated_at=now)


def require_committed(root: Path, allowed: Sequence[str] = ()) -> None:
    """Stop if files are uncommitted; `allowed` are files or folders that may be."""
    inside = tuple(f"{path}/" for path in allowed)
    dirty = [it for it in dirty_files(root) if it not in allowed and not it.startswith(inside)]
    if not dirty:
        return
    shown = ", ".join(dirty[:_SHOWN])
    more = f" and {len(dirty) - _SHOWN} more" if len(dirty) > _SHOWN else ""
    raise BlockedError(
        f"the work tree has uncommitted changes: {shown}{more}; commit what is yours,"
        " and leave the rest to whoever made it",
        code="dirty_worktree",
        fix=["git status"],
        details={"files": dirty[:_SHOWN], "count": len(dirty)},
    )


def dirty_files(root: Path) -> list[str]:
    """Return the uncommitted files; snapshots of dossiers are derived and never count."""
    return [name for name in repo.dirty_files(root, [SNAPSHOT_PATTERN]) if not is_snapshot(name)]


def is_snapshot(name: str) -> bool:
    """Tell whether a path is a dossier's snapshot, wherever it lies."""
    parts = PurePosixPath(name).parts
    return parts[-4:-2] == (".kittify", "dossiers") and parts[-1] == SNAPSHOT


def head(mission: Mission) -> str | None:
    """Return the commit that is checked out around a mission, from the small files that name it."""
    tree = find_work_tree(mission.root)
    return repo.head(Repo(tree.top, tree.git_dir, tree.common_dir)).commit if tree else None
