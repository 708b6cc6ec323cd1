"""Tasks and what was reported of missions, to be read; `task_changes` has how they change."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from treadle.contract import Criterion
from treadle.ids import is_task_id
from treadle.store.transaction import Reading, kept_in


def _criteria(text: str) -> tuple[Criterion, ...]:
    return tuple(Criterion(*item) for item in json.loads(text))


@kept_in("tasks", criteria=_criteria)
class TaskRow(NamedTuple):
    """One task; whoever knows `claim_id` holds it until `lease_until`."""

    task_id: str
    goal: str
    text: str | None = None
    criteria: tuple[Criterion, ...] = ()
    lane: str = "planned"
    owner: str | None = None
    claim_id: str | None = None
    lease_until: str | None = None
    mission: str | None = None
    source: str | None = None
    created_at: str = ""
    updated_at: str = ""
    position: int = 0


class StepTry(NamedTuple):
    """How a try at a mission's step ended, in the words of whoever tried."""

    step: str
    result: str
    who: str
    note: str | None
    at: str


def _tries(text: str) -> tuple[StepTry, ...]:
    return tuple(StepTry(*item) for item in json.loads(text))


@kept_in("mission_steps", is_blocked=bool, tries=_tries)
class MissionStepRow(NamedTuple):
    """What was reported of a mission's step that is not done: failures, or what blocks it.

    `tries` are kept until the step succeeds, whoever lets it go on meanwhile.
    """

    mission: str
    step: str
    failures: int
    is_blocked: bool
    note: str | None
    who: str
    at: str
    tries: tuple[StepTry, ...] = ()


class SeenCommand(NamedTuple):
    """What a criterion's command showed when its task was said to be done; `claimed` if not run."""

    id: str
    command: str
    state: str
    log: str = ""


def _seen(text: str) -> tuple[SeenCommand, ...]:
    return tuple(SeenCommand(*item) for item in json.loads(text))


@kept_in("mission_work", observed=_seen)
class WorkRow(NamedTuple):
    """The commits between which a mission's task was worked on, and what was seen at the end."""

    mission: str
    task: str
    base: str
    head: str | None
    observed: tuple[SeenCommand, ...]
    said: str | None
    at: str


ENDINGS = ("owner", "status", "checks")  # of the files in TASKS/ that tell how a task stands


class TaskReader(Reading):
    """Answer questions about tasks."""

    def task(self, task_id: str) -> TaskRow | None:
        """Return one task."""
        return self.first(TaskRow, "task", task_id=task_id)

    def tasks(self, lane: str | None = None) -> list[TaskRow]:
        """Return the tasks, or those in one lane, in order."""
        return self.records(TaskRow, "tasks_in_lane" if lane else "tasks", lane=lane)

    def tasks_to_renew(self, owner: str, now: str, soon: str) -> list[TaskRow]:
        """Return an owner's tasks whose lease ends soon."""
        return self.records(TaskRow, "tasks_to_renew", owner=owner, now=now, soon=soon)

    def task_ids(self) -> list[str]:
        """Return every task's id."""
        return [row[0] for row in self.all("task_ids")]

    def ready_tasks(self, now: str) -> list[TaskRow]:
        """Return the planned tasks that nobody holds and that wait for nothing, in order."""
        return self.records(TaskRow, "ready_tasks", now=now)

    def dependencies(self, task_id: str) -> list[TaskRow]:
        """Return the tasks that must be done before this one."""
        return self.records(TaskRow, "dependencies", task_id=task_id)

    def dependents(self, task_id: str) -> list[TaskRow]:
        """Return the tasks that wait for this one."""
        return self.records(TaskRow, "dependents", task_id=task_id)

    def task_links(self) -> list[tuple[str, str]]:
        """Return every task that waits for another, with that one."""
        return [(task_id, depends_on) for task_id, depends_on in self.all("task_links")]

    def last_move(self, task_id: str, *lanes: str) -> tuple[str, str | None] | None:
        """Return who moved a task last, or last into these lanes, and why."""
        rows = self.all("ends_of_moves", task_id=task_id)
        said = [(who, why) for lane, who, why in rows if not lanes or lane in lanes]
        return said[-1] if said else None

    def task_checks(self, task_id: str) -> tuple[SeenCommand, ...]:
        """Return what treadle itself saw in the last check of a task's work."""
        rows = self.all("checks_of_task", task_id=task_id)
        return tuple(SeenCommand(id_, it, "passed" if ok else "failed") for id_, it, ok in rows)

    def passed_work(self, task_id: str) -> tuple[str, str | None, str] | None:
        """Return where a task's last passed run began and ended: two commits, and the time."""
        row = self.one("passed_work", task_id=task_id)
        return (row[0] or "", row[1], row[2] or "") if row else None

    def unseen_tasks(self, folder: Path) -> set[str]:
        """Return the tasks whose files nobody has read as they are now, or do not show them."""
        found = {row[0] for row in self.all("lagging_tasks")}
        known = {name: looks for name, *looks in self.all("looks_of_task_files")}
        seen = _state_files(folder)
        return found | {
            task_id for task_id, entry in seen if known.get(entry.name) != _looks(entry)
        }

    def mission_tasks(self, mission: str) -> list[TaskRow]:
        """Return the tasks of a mission."""
        return self.records(TaskRow, "mission_tasks", mission=mission)

    def tasks_of_mission(self, mission_id: str, slug: str) -> list[TaskRow]:
        """Return the tasks of a mission by its id, whatever its name; without one by the name."""
        return self.records(TaskRow, "tasks_of_mission", mission_id=mission_id, slug=slug)

    def mission_names(self) -> dict[str, str]:
        """Return the name that each mission with an id goes by: its folder's, when last seen."""
        return {mission_id: slug for mission_id, slug in self.all("mission_names")}

    def mission_steps(self, mission: str) -> list[MissionStepRow]:
        """Return what was reported of a mission's steps that are not done."""
        return self.records(MissionStepRow, "mission_steps", mission=mission)

    def mission_work(self, mission: str) -> dict[str, WorkRow]:
        """Return what is known of the work on a mission's tasks, by the task's short id."""
        rows = self.records(WorkRow, "mission_work", mission=mission)
        return {row.task: row for row in rows}

    def mission_agents(self, mission: str) -> dict[str, str]:
        """Return who asked for work on a mission, each with when they last did."""
        return {agent: at for agent, at in self.all("mission_agents", mission=mission)}


def _state_files(folder: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    try:
        entries = os.scandir(folder)
    except OSError:
        return
    with entries:
        for entry in entries:
            task_id, _, ending = entry.name.rpartition(".")
            if ending in ENDINGS and is_task_id(task_id):
                yield task_id, entry


def _looks(entry: os.DirEntry[str]) -> list[int]:
    try:
        state = entry.stat(follow_symlinks=False)
    except OSError:
        return [0, -1]  # as if it were not there
    return [state.st_mtime_ns, state.st_size]
