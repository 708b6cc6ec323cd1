"""How tasks change: their moves, what letters say of their checks, their files, by whom kept."""

from collections.abc import Sequence
from typing import NamedTuple

from treadle.store.tasks import MissionStepRow, TaskReader, TaskRow, WorkRow
from treadle.store.transaction import Writing, change, count_up, kept_in


@kept_in("task_moves", forced=bool)
class MoveRow(NamedTuple):
    """One change of a task's lane: who, when and why."""

    task_id: str
    seq: int
    at: str
    who: str
    from_lane: str
    to_lane: str
    reason: str | None
    forced: bool


@kept_in("task_claims", value=bool)
class TaskClaimRow(NamedTuple):
    """What a letter says about a task's checks."""

    task_id: str
    name: str
    value: bool
    claimed_by: str
    claimed_at: str


@kept_in("task_files")
class TaskFileRow(NamedTuple):
    """How a file in TASKS/ looked when it was last read or written, and which state it tells of.

    One that is not there has no size; an empty `shown_at` says that it has to be looked at.
    """

    name: str
    task_id: str
    mtime_ns: int = 0
    size: int = -1
    shown_at: str = ""


@kept_in("reservations")
class ReservationRow(NamedTuple):
    """Files that an owner keeps to one task for a while."""

    task_id: str
    owner: str
    pattern: str
    until: str


# What bears the id of a task, and what bears the name of a mission.
_NAMES_OF_TASKS = tuple(
    ["needs", "needed", "moves", "runs", "claims", "reservations", "letters", "questions", "files"]
)
_NAMES_OF_MISSIONS = ("steps", "work", "agents")


class TaskHistory(TaskReader):
    """Answer questions about what became of tasks."""

    def task_moves(self, task_id: str) -> list[MoveRow]:
        """Return how a task went from lane to lane."""
        return self.records(MoveRow, "task_moves", task_id=task_id)

    def task_claims(self, task_id: str) -> dict[str, TaskClaimRow]:
        """Return what letters say of a task, by the name of the check."""
        rows = self.records(TaskClaimRow, "task_claims", task_id=task_id)
        return {row.name: row for row in rows}

    def task_files(self, task_id: str) -> dict[str, TaskFileRow]:
        """Return how the files of a task looked at last, by name."""
        rows = self.records(TaskFileRow, "files_of_task", task_id=task_id)
        return {row.name: row for row in rows}

    def reservations(self, now: str) -> list[ReservationRow]:
        """Return the reservations that still hold."""
        return self.records(ReservationRow, "reservations", now=now)


class TaskStore(TaskHistory, Writing):
    """Change tasks."""

    @change
    def reserve_task_id(self) -> str:
        """Return a task id like `T-7` that nobody else will get."""
        while True:
            task_id = f"T-{count_up(self, 'task')}"
            if self.task(task_id) is None:
                return task_id

    @change
    def add_task(self, task: TaskRow) -> TaskRow | None:
        """Add a task at the end; an empty id gets the next free one, a taken one gives None."""
        task_id = task.task_id or self.reserve_task_id()
        added = task._replace(task_id=task_id, position=count_up(self, "position"))
        return added if self.execute("insert_task", added).rowcount else None

    @change
    def swap_task(self, before: TaskRow, after: TaskRow, move: MoveRow | None = None) -> bool:
        """Change a task's lane, owner and claim if they still are as in `before`."""
        values = after._asdict() | {
            "seen_lane": before.lane,
            "seen_claim_id": before.claim_id,
            "seen_lease_until": before.lease_until,
        }
        if not self.execute("swap_task", values).rowcount:
            return False
        if move:
            last = self.all("last_task_move", task_id=move.task_id)[0][0]
            self.execute("insert_task_move", move._replace(seq=(last or 0) + 1))
        return True

    @change
    def edit_task(self, before: TaskRow, after: TaskRow, note: MoveRow) -> bool:
        """Change what a task asks for, unless somebody has taken or moved it since `before`."""
        if not self.swap_task(before, after, note):
            return False
        self.execute("define_task", after._asdict())
        return True

    @change
    def link_task(self, task_id: str, depends_on: str) -> tuple[str, ...]:
        """Make a task wait for another; a circle is refused and returned."""
        circle = self._path(depends_on, task_id)
        if not circle:
            self.execute("link_task", {"task_id": task_id, "depends_on": depends_on})
        return circle

    def unlink_task(self, task_id: str, depends_on: str) -> bool:
        """Let a task wait no longer; False when it did not."""
        values = {"task_id": task_id, "depends_on": depends_on}
        return self.execute("unlink_task", values).rowcount > 0

    @change
    def adopt_tasks(self, tasks: Sequence[TaskRow], links: Sequence[tuple[str, str]]) -> None:
        """Make a mission's tasks be as their files describe them; lanes and claims stay."""
        for task in tasks:
            if self.add_task(task) is None:
                self.execute("define_task", task._asdict())
            self.execute("unlink_siblings", {"task_id": task.task_id, "mission": task.mission})
        for task_id, depends_on in links:
            self.execute("link_task", {"task_id": task_id, "depends_on": depends_on})

    @change
    def name_mission(self, mission_id: str, slug: str) -> list[tuple[str, str]]:
        """Let a mission go by a name from now on; return its tasks' old and new ids.

        Another one that had the name is put aside until its own folder is seen.
        """
        known = self.mission_names()
        old, moved = known.get(mission_id), list[tuple[str, str]]()
        if old == slug:
            return []
        others = [id_ for id_, name in known.items() if name == slug]
        if others or (old and self.mission_tasks(slug)):
            aside = f"{slug}.{count_up(self, 'mission')}"
            moved += self._rename_mission(slug, aside)
            for other in others:
                self.execute("name_mission", {"mission_id": other, "slug": aside})
        if old:
            moved += self._rename_mission(old, slug)
        self.execute("name_mission", {"mission_id": mission_id, "slug": slug})
        return moved

    def _rename_mission(self, old: str, new: str) -> list[tuple[str, str]]:
        words = {"old_words": f"--mission {old}", "new_words": f"--mission {new}"}
        moved = []
        for row in self.mission_tasks(old):
            task_id = f"{new}.{row.task_id.rpartition('.')[2]}"
            self.execute("insert_task", row._replace(task_id=task_id, mission=new))
            for name in _NAMES_OF_TASKS:
                self.execute(f"rename_in_{name}", words | {"old": row.task_id, "new": task_id})
            self.execute("delete_task", {"task_id": row.task_id})
            moved.append((row.task_id, task_id))
        for name in _NAMES_OF_MISSIONS:
            self.execute(f"clear_mission_{name}", {"new": new})  # of whoever was overtaken
            self.execute(f"rename_mission_{name}", {"old": old, "new": new})
        self.execute("rename_mission_questions", words | {"old": old, "new": new})
        return moved

    def mark_files(self, rows: Sequence[TaskFileRow]) -> None:
        """Remember how files look that were read or written."""
        self.write(lambda tx: tx.executemany("mark_task_file", rows), lasting=False)

    def claim_check(self, row: TaskClaimRow) -> None:
        """Write down what a letter says of a task's check; the latest word counts."""
        self.execute("claim_check", row)

    def reserve_files(self, rows: Sequence[ReservationRow]) -> None:
        """Keep files to a task."""
        self.executemany("reserve_files", rows)

    def unreserve_files(self, task_id: str) -> int:
        """Let a task's files go; return how many patterns there were."""
        return self.execute("unreserve_files", {"task_id": task_id}).rowcount

    def report_step(self, row: MissionStepRow) -> None:
        """Remember that a mission's step failed or is blocked."""
        self.execute("report_step", row)

    def calm_step(self, mission: str, step: str) -> bool:
        """Let a step that failed or was blocked be tried again; what was said of it stays."""
        return self.execute("calm_step", {"mission": mission, "step": step}).rowcount > 0

    def clear_step(self, mission: str, step: str) -> bool:
        """Forget what was reported of a mission's step; False when it was nothing."""
        return self.execute("clear_step", {"mission": mission, "step": step}).rowcount > 0

    def begin_work(self, row: WorkRow) -> None:
        """Remember where the work on a mission's task began; it begins once."""
        self.execute("begin_work", row)

    def save_work(self, row: WorkRow) -> None:
        """Remember what was there when a mission's task was said to be done."""
        self.execute("save_work", row)

    def see_agent(self, mission: str, agent: str, at: str) -> None:
        """Remember that an agent asks for work on a mission."""
        self.execute("see_agent", {"mission": mission, "agent": agent, "at": at})

    def _path(self, start: str, goal: str) -> tuple[str, ...]:
        """Return the dependencies from `start` to `goal`, both included, or nothing."""
        pending: list[tuple[str, ...]] = [(start,)]
        seen = {start}
        while pending:
            path = pending.pop()
            if path[-1] == goal:
                return path
            for (needed,) in self.all("needed_by", task_id=path[-1]):
                if needed not in seen:
                    seen.add(needed)
                    pending.append((*path, needed))
        return ()
