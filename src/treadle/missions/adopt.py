"""Tie a mission's files to the store's tasks: `WP01` of mission `auth` is the task `auth.WP01`."""

import re
from collections.abc import Iterable
from datetime import datetime

from treadle.errors import UsageError
from treadle.ids import utc
from treadle.layout import Layout
from treadle.missions import mission as missions
from treadle.missions import taskfile
from treadle.missions.mission import Mission
from treadle.missions.taskfile import TaskFile
from treadle.store.rows.task import TaskRow
from treadle.store.task_store import TaskStore
from treadle.tasks import refusal, task
from treadle.tasks.task import NewTask

_SHORT = r"(?i)WP\d{2,}"
_LONG = r"(.+)\.(WP\d{2,})"


def is_mission_task(word: str, slug: str | None) -> bool:
    """Tell whether a word on the command line means a mission's task."""
    return slug is not None or bool(re.fullmatch(_SHORT, word) or re.fullmatch(_LONG, word))


def resolve(layout: Layout, store: TaskStore, word: str, slug: str | None, now: datetime) -> str:
    """Return the id of the task that is meant; a mission's is brought up to date first."""
    if not is_mission_task(word, slug) or (slug is None and store.task(word) and "." not in word):
        return word
    mission, id_ = _find(layout, word, slug)
    adopt(store, mission, [id_], now)
    return mission.task_id(id_)


def adopt(
    store: TaskStore, mission: Mission, ids: Iterable[str], now: datetime
) -> dict[str, TaskFile]:
    """Bring these tasks and all they depend on into the store as their files describe them."""
    files = closure(mission, ids)
    rows = [_row(mission, file, utc(now)) for file in files.values()]
    links = [
        (mission.task_id(file.id), mission.task_id(needed))
        for file in files.values()
        for needed in file.dependencies
    ]
    store.adopt_tasks(rows, links)
    return files


def closure(mission: Mission, ids: Iterable[str]) -> dict[str, TaskFile]:
    """Read the files of these tasks and of all they depend on; circles are errors."""
    names = taskfile.names(mission)
    found: dict[str, TaskFile] = {}
    pending = list(ids)
    while pending:
        id_ = pending.pop()
        if id_ not in found:
            found[id_] = file = taskfile.read(mission, names[id_])
            for needed in file.dependencies:
                taskfile.require_known(mission, file, needed, names)
            pending += file.dependencies
    circle = taskfile.find_circle({id_: file.dependencies for id_, file in found.items()})
    if circle:
        raise taskfile.cycle(mission, circle)
    return {id_: found[id_] for id_ in sorted(found, key=taskfile.order)}


def _find(layout: Layout, word: str, slug: str | None) -> tuple[Mission, str]:
    long = re.fullmatch(_LONG, word)
    if long and slug is None:
        slug = long[1]
    id_ = (long[2] if long else word).upper()
    if slug is not None:
        mission = missions.find(layout, slug)
        known = taskfile.names(mission)
        if id_ not in known:
            raise refusal.unknown(f"{slug}.{id_}", [mission.task_id(name) for name in known])
        return mission, id_
    found = [m for m in missions.find_all(layout) if id_ in taskfile.names(m)]
    if len(found) == 1:
        return found[0], id_
    if not found:
        raise refusal.unknown(
            id_, [n for m in missions.find_all(layout) for n in taskfile.names(m)]
        )
    names = ", ".join(mission.slug for mission in found)
    raise UsageError(
        f"{id_} is a task of several missions ({names}); say which with --mission",
        code="mission_ambiguous",
        fix=[f"treadle task show {mission.task_id(id_)}" for mission in found],
    )


def _row(mission: Mission, file: TaskFile, now: str) -> TaskRow:
    id_, source = mission.task_id(file.id), mission.name(file.path)
    new = NewTask(file.title, file.criteria, id_, file.text, mission.slug, source)
    return task.row(new, now)._replace(lane=file.lane)
