"""Where a mission stands: its gates, its tasks, and what was reported of them."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from treadle.ids import utc
from treadle.layout import Layout
from treadle.missions import gates
from treadle.missions.board import Board
from treadle.missions.decision import Phase
from treadle.missions.gates import Gate, Head
from treadle.missions.mission import Mission
from treadle.missions.substance import Kind
from treadle.store.rows.mission import MissionStepRow
from treadle.store.task_reader import TaskReader
from treadle.tasks import lanes

MAX_FAILURES = 3
GATED: dict[Phase, Kind] = {"specify": "spec", "plan": "plan"}


class At(NamedTuple):
    """One step of a mission: a phase, and the task if the phase is about one."""

    phase: Phase
    id: str | None = None

    @property
    def name(self) -> str:
        """Return how the step is called on the command line."""
        return f"{self.phase}:{self.id}" if self.id else self.phase

    @property
    def key(self) -> str:
        """Return the name under which reports are kept: a task's are one story."""
        return self.id or self.phase


class Asking(NamedTuple):
    """Who asks about which mission, and when."""

    layout: Layout
    mission: Mission
    agent: str
    now: datetime


class State(NamedTuple):
    """Everything a decision depends on."""

    layout: Layout
    mission: Mission
    agent: str
    now: datetime
    head: Head
    board: Board
    reports: Mapping[str, MissionStepRow]

    def gate(self, phase: Phase) -> Gate:
        """Judge the gate at the end of a phase."""
        return gates.judge(self.mission, self.head, GATED[phase])

    def is_stuck(self, key: str) -> bool:
        """Tell whether a step waits for somebody's word."""
        row = self.reports.get(key)
        return row is not None and (row.is_blocked or row.failures >= MAX_FAILURES)


def read(asking: Asking, store: TaskReader, head: Head | None = None) -> State:
    """Read a mission's state, with at most one git process."""
    mission = asking.mission
    return State(
        *asking,
        head=gates.read_head([mission]) if head is None else head,
        board=Board(store, mission, utc(asking.now)),
        reports={row.step: row for row in store.mission_steps(mission.slug)},
    )


def current(state: State) -> At | None:
    """Return the step that is to be worked on now; None when only waiting is left."""
    opening = first_shut(state)
    if opening:
        return At(opening)
    board = state.board
    stuck = [id_ for id_ in state.reports if state.is_stuck(id_)]
    held = board.held_by(state.agent)
    if held and held not in stuck:
        return At("implement", held)
    free = board.first_free(stuck)
    if free:
        return At("implement", free)
    to_review = [id_ for id_ in board.in_lane("for_review", "in_review") if id_ not in stuck]
    if to_review:
        return At("review", to_review[0])
    return At("accept") if board.in_lane("approved") else None


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
