"""Where a mission stands: its gates, its tasks, what was reported of them, what is decided."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args

from treadle.errors import FormatError
from treadle.ids import HUMAN, utc
from treadle.layout import Layout
from treadle.missions import gates
from treadle.missions import mission as missions
from treadle.missions.gates import Gate, Head, Kind
from treadle.missions.mission import Mission, TaskFile
from treadle.store.store import Reader
from treadle.store.tasks import MissionStepRow
from treadle.tasks import lanes

SCHEMA_VERSION = 1
NOT_RESOLVABLE = "prompt_file_not_resolvable"

Phase = Literal["specify", "plan", "tasks", "implement", "review", "accept"]
PHASES: tuple[Phase, ...] = get_args(Phase)
TASK_PHASES: tuple[Phase, ...] = ("implement", "review")
Result = Literal["success", "failed", "blocked"]
RESULTS: tuple[Result, ...] = get_args(Result)
HaltKind = Literal["blocked", "complete", "decision_required", "query"]


class At(NamedTuple):
    """One step of a mission: a phase, and the task if the phase is about one."""

    mission_slug: str
    phase: Phase
    task_id: str | None = None

    @property
    def id(self) -> str | None:
        """Return the task's id within its mission."""
        return self.task_id.rpartition(".")[2] if self.task_id else None

    @property
    def name(self) -> str:
        """Return how the step is called on the command line."""
        return f"{self.phase}:{self.id}" if self.id else self.phase

    @property
    def key(self) -> str:
        """Return the name under which reports are kept: a task's are one story."""
        return self.id or self.phase


class _NextStep(NamedTuple):
    where: At
    prompt_file: Path


class NextStep(_NextStep):
    """Work to do now.

    C1: `prompt_file` is never null or empty. C2: it names a file that exists when the decision is
    made. C3: where there is no such file there is no NextStep, but a Halt with a reason.
    """

    __slots__ = ()
    kind: ClassVar[Literal["step"]] = "step"

    def __new__(cls, where: At, prompt_file: Path) -> Self:
        """Refuse a prompt that is not there."""
        if not prompt_file.is_absolute() or not prompt_file.is_file():
            raise FormatError(f"there is no prompt at {prompt_file}", code=NOT_RESOLVABLE)
        return super().__new__(cls, where, prompt_file)


class _Halt(NamedTuple):
    kind: HaltKind
    where: At
    reason: str
    reason_code: str
    unblock: tuple[str, ...]


class Halt(_Halt):
    """No work to do now: why, and the literal commands that help."""

    __slots__ = ()

    def __new__(
        cls, kind: HaltKind, where: At, reason: str, code: str, unblock: tuple[str, ...] = ()
    ) -> Self:
        """Refuse one that does not say why, or what helps."""
        if not reason or not code or (not unblock and kind != "complete"):
            raise FormatError(f"a decision that is {kind} must say why and what helps")
        return super().__new__(cls, kind, where, reason, code, unblock)


Decision = NextStep | Halt


def document(decision: Decision) -> dict[str, object]:
    """Return a decision as the JSON that host agents read."""
    step = decision if isinstance(decision, NextStep) else None
    halt = decision if isinstance(decision, Halt) else None
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": decision.kind,
        "prompt_file": str(step.prompt_file) if step else None,
        "reason": halt.reason if halt else None,
        "reason_code": halt.reason_code if halt else None,
        "unblock": list(halt.unblock) if halt else [],
        **decision.where._asdict(),
    }


class Board:
    """The tasks of one mission; files are opened only when somebody asks for them."""

    def __init__(self, store: Reader, mission: Mission, now: str) -> None:
        self.mission = mission
        self.now = now
        rows = store.mission_tasks(mission.slug)
        self._rows = {row.task_id.rpartition(".")[2]: row for row in rows}
        self._files: dict[str, TaskFile] = {}

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Return the files of the tasks by id, in order."""
        return missions.task_names(self.mission)

    def file(self, id_: str) -> TaskFile:
        """Read one task's file."""
        if id_ not in self._files:
            self._files[id_] = missions.read_task(self.mission, self.names[id_])
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
            missions.require_known_task(self.mission, file, needed, self.names)
        return tuple(needed for needed in file.dependencies if self.lane(needed) != "done")

    def waiting(self) -> dict[str, tuple[str, ...]]:
        """Return the planned tasks that wait for others, each with these."""
        planned = {id_: self.needs(id_) for id_ in self.in_lane("planned")}
        return {id_: needs for id_, needs in planned.items() if needs}

    def circle(self) -> FormatError | None:
        """Say which tasks wait for each other, if any do."""
        needs = {id_: self.file(id_).dependencies for id_ in self.names}
        found = missions.find_circle(needs)
        return missions.circle_error(self.mission, found) if found else None

    def holder(self, id_: str) -> str | None:
        """Return who holds a task."""
        row = self._rows.get(id_)
        return row.owner if row else None

    def _is_free(self, id_: str) -> bool:
        """Tell whether nobody works on a task: planned, or left by someone whose lease is over."""
        row = self._rows.get(id_)
        is_held = row is not None and (row.lease_until or "") > self.now
        return self.lane(id_) == "planned" or (self.lane(id_) in lanes.HELD and not is_held)


MAX_FAILURES = 3
GATED: dict[Phase, Kind] = {"specify": "spec", "plan": "plan"}


class State(NamedTuple):
    """Who asks about which mission, and everything a decision depends on."""

    layout: Layout
    mission: Mission
    agent: str
    now: datetime
    head: Head
    board: Board
    reports: Mapping[str, MissionStepRow]

    def at(self, phase: Phase, id_: str | None = None) -> At:
        """Return one of the mission's steps."""
        return At(self.mission.slug, phase, self.mission.task_id(id_) if id_ else None)

    def gate(self, phase: Phase) -> Gate:
        """Judge the gate at the end of a phase."""
        return gates.judge(self.mission, self.head, GATED[phase])

    def is_stuck(self, key: str) -> bool:
        """Tell whether a step waits for somebody's word."""
        row = self.reports.get(key)
        return row is not None and (row.is_blocked or row.failures >= MAX_FAILURES)

    def again(self, store: Reader) -> Self:
        """Read the state again after a change in the store; git is not asked twice."""
        return self._replace(**_known(store, self.mission, self.now))


def read(
    layout: Layout,
    store: Reader,
    mission: Mission,
    now: datetime,
    agent: str = HUMAN,
    head: Head | None = None,
) -> State:
    """Read a mission's state, with at most one git process."""
    head = gates.read_head([mission]) if head is None else head
    return State(layout, mission, agent, now, head, **_known(store, mission, now))


def _known(store: Reader, mission: Mission, now: datetime) -> dict[str, Any]:
    board = Board(store, mission, utc(now))
    return {"board": board, "reports": {row.step: row for row in store.mission_steps(mission.slug)}}


def current(state: State) -> At | None:
    """Return the step that is to be worked on now; None when only waiting is left."""
    opening = first_shut(state)
    if opening:
        return state.at(opening)
    board = state.board
    stuck = [id_ for id_ in state.reports if state.is_stuck(id_)]
    held = board.held_by(state.agent)
    if held and held not in stuck:
        return state.at("implement", held)
    free = board.first_free(stuck)
    if free:
        return state.at("implement", free)
    to_review = [id_ for id_ in board.in_lane("for_review", "in_review") if id_ not in stuck]
    if to_review:
        return state.at("review", to_review[0])
    return state.at("accept") if board.in_lane("approved") else None


def first_shut(state: State) -> Phase | None:
    """Return the first phase whose own artifact is not there yet."""
    for phase in GATED:
        if state.gate(phase).missing:
            return phase
    return None if state.board.names else "tasks"


def phase(state: State) -> Phase:
    """Return the phase a mission is in, whether or not there is something to do."""
    at = current(state)
    if at:
        return at.phase
    return "accept" if is_complete(state) else "implement"


def is_complete(state: State) -> bool:
    """Tell whether every task is done or given up."""
    return first_shut(state) is None and set(state.board.counts()) <= {*lanes.FINAL}


def no_tasks(mission: Mission) -> str:
    """Return the sentence for a mission without tasks."""
    folder = mission.name(mission.files.tasks)
    return f"{folder} has no task yet; write {folder}/WP01-name.md or a list of tasks in plan.md."


class Status(NamedTuple):
    """A mission's phase; a reason whenever the phase is not complete."""

    mission_slug: str
    phase: Phase
    phase_complete: bool
    blocked_reason: str | None
    missing: tuple[str, ...]
    tasks: Mapping[str, int]


class Listed(NamedTuple):
    """One line of the list of missions; a broken one is listed with what is wrong."""

    mission: Mission
    title: str
    status: Status | None
    error: FormatError | None = None


def read_status(
    layout: Layout, store: Reader, mission: Mission, now: datetime, head: Head | None = None
) -> Status:
    """Return where one mission stands."""
    found = read(layout, store, mission, now, head=head)
    now_in = phase(found)
    reason, missing = _status_reason(found, now_in)
    return Status(mission.slug, now_in, reason is None, reason, missing, found.board.counts())


def read_statuses(layout: Layout, store: Reader, now: datetime) -> list[Listed]:
    """Return all missions, with one git process for all of them."""
    known = missions.find_all(layout)
    head = gates.read_head(known)
    return [_listed(layout, store, mission, now, head) for mission in known]


def status_document(found: Status) -> dict[str, object]:
    """Return where a mission stands as programs get it."""
    return {"schema_version": SCHEMA_VERSION, **found._asdict()}


def list_document(found: Sequence[Listed]) -> dict[str, object]:
    """Return the list of missions as programs get it."""
    return {"schema_version": SCHEMA_VERSION, "missions": [_listed_line(item) for item in found]}


def _listed_line(item: Listed) -> dict[str, object]:
    return {
        "mission_slug": item.mission.slug,
        "title": item.title,
        "feature_dir": str(item.mission.files.folder),
        "phase": item.status.phase if item.status else None,
        "phase_complete": item.status.phase_complete if item.status else None,
        "tasks": dict(item.status.tasks) if item.status else {},
        "error": item.error.message if item.error else None,
    }


def _listed(layout: Layout, store: Reader, mission: Mission, now: datetime, head: Head) -> Listed:
    try:
        title = missions.title(mission)
        return Listed(mission, title, read_status(layout, store, mission, now, head))
    except FormatError as error:
        return Listed(mission, mission.slug, None, error)


def _status_reason(found: State, phase: Phase) -> tuple[str | None, tuple[str, ...]]:
    if phase in GATED:
        gate = found.gate(phase)
        return gate.reason, gate.missing
    if phase == "tasks":
        return no_tasks(found.mission), ()
    if is_complete(found):
        return None, ()
    counts = found.board.counts()
    left = sum(n for lane, n in counts.items() if lane not in lanes.FINAL)
    return f"{left} of {sum(counts.values())} tasks of {found.mission.slug} are not done yet.", ()
