"""Where a mission's tasks stand: the store knows, and for tasks it has not seen their files do."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from treadle.errors import FormatError
from treadle.missions import taskfile
from treadle.missions.mission import Mission
from treadle.missions.taskfile import TaskFile
from treadle.store.task_reader import TaskReader
from treadle.tasks import lanes


class Board:
    """The tasks of one mission; files are opened only when somebody asks for them."""

    def __init__(self, store: TaskReader, mission: Mission, now: str) -> None:
        self.mission = mission
        self.now = now
        rows = store.mission_lanes(mission.slug)
        self._rows = {row.task_id.rpartition(".")[2]: row for row in rows}
        self._files: dict[str, TaskFile] = {}

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Return the files of the tasks by id, in order."""
        return taskfile.names(self.mission)

    def file(self, id_: str) -> TaskFile:
        """Read one task's file."""
        if id_ not in self._files:
            self._files[id_] = taskfile.read(self.mission, self.names[id_])
        return self._files[id_]

    def lane(self, id_: str) -> str:
        """Return where a task stands."""
        row = self._rows.get(id_)
        return row.lane if row else self.file(id_).lane

    def counts(self) -> dict[str, int]:
        """Return how many tasks are in each lane that has any."""
        found = [self.lane(id_) for id_ in self.names]
        return {lane: found.count(lane) for lane in lanes.LANES if lane in found}

    def in_lane(self, *wanted: str) -> list[str]:
        """Return the tasks in these lanes, in order."""
        return [id_ for id_ in self.names if self.lane(id_) in wanted]

    def held_by(self, agent: str) -> str | None:
        """Return the task this agent is working on."""
        for id_ in self.names:
            row = self._rows.get(id_)
            if row and row.lane in lanes.HELD and row.owner == agent:
                return id_
        return None

    def first_free(self, skip: Sequence[str]) -> str | None:
        """Return the first task that can be begun now; files behind it stay unread."""
        for id_ in self.names:
            if id_ not in skip and self._is_free(id_) and not self.needs(id_):
                return id_
        return None

    def needs(self, id_: str) -> tuple[str, ...]:
        """Return the unfinished tasks that one depends on."""
        file = self.file(id_)
        for needed in file.dependencies:
            taskfile.require_known(self.mission, file, needed, self.names)
        return tuple(needed for needed in file.dependencies if self.lane(needed) != "done")

    def waiting(self) -> dict[str, tuple[str, ...]]:
        """Return the planned tasks that wait for others, each with these."""
        planned = {id_: self.needs(id_) for id_ in self.in_lane("planned")}
        return {id_: needs for id_, needs in planned.items() if needs}

    def circle(self) -> FormatError | None:
        """Say which tasks wait for each other, if any do."""
        needs = {id_: self.file(id_).dependencies for id_ in self.names}
        found = taskfile.find_circle(needs)
        return taskfile.cycle(self.mission, found) if found else None

    def holder(self, id_: str) -> str | None:
        """Return who holds a task."""
        row = self._rows.get(id_)
        return row.owner if row else None

    def _is_free(self, id_: str) -> bool:
        """Tell whether nobody works on a task: planned, or left by someone whose lease is over."""
        row = self._rows.get(id_)
        is_held = row is not None and (row.lease_until or "") > self.now
        return self.lane(id_) == "planned" or (self.lane(id_) in lanes.HELD and not is_held)
