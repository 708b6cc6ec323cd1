"""What a decision about a mission depends on: its gates, its tasks, what was reported of them."""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args

from treadle.errors import FormatError
from treadle.ids import HUMAN, agent_name, is_agent_id, utc
from treadle.layout import Layout
from treadle.missions import gates, taskfile
from treadle.missions import mission as missions
from treadle.missions.gates import Head, Kind
from treadle.missions.mission import Acceptance, Mission, SaidLane
from treadle.missions.taskfile import TaskFile
from treadle.store.address import OpenReader
from treadle.store.questions import QuestionRow, WorkReader
from treadle.store.tasks import MissionStepRow, TaskRow, WorkRow
from treadle.tasks import lanes

SCHEMA_VERSION = 1
NOT_RESOLVABLE = "prompt_file_not_resolvable"
# What is kept among the reports of steps: that a mission was given up, that a phase begins anew;
# and under `review:WP01` who has that review, until when.
CANCELED, REOPENED = "mission", "reopened"
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
    workspace: Path | None = None


class NextStep(_NextStep):
    """Work to do now.

    C1: `prompt_file` is never null or empty. C2: it names a file that exists when the decision is
    made. C3: where there is no such file there is no NextStep, but a Halt with a reason.
    """

    __slots__ = ()
    kind: ClassVar[Literal["step"]] = "step"

    def __new__(cls, where: At, prompt_file: Path, workspace: Path | None = None) -> Self:
        """Refuse a prompt that is not there."""
        if not prompt_file.is_absolute() or not prompt_file.is_file():
            raise FormatError(f"there is no prompt at {prompt_file}", code=NOT_RESOLVABLE)
        return super().__new__(cls, where, prompt_file, workspace)


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
# Where somebody stands who has not said in which mission.
NOWHERE = At("", "specify")


def document(decision: Decision) -> dict[str, object]:
    """Return a decision as the JSON that host agents read."""
    step = decision if isinstance(decision, NextStep) else None
    halt = decision if isinstance(decision, Halt) else None
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": decision.kind,
        "prompt_file": str(step.prompt_file) if step else None,
        "workspace_path": str(step.workspace) if step and step.workspace else None,
        "reason": halt.reason if halt else None,
        "reason_code": halt.reason_code if halt else None,
        "unblock": list(halt.unblock) if halt else [],
        **(dict.fromkeys(At._fields) if decision.where == NOWHERE else decision.where._asdict()),
    }


class MissionReader(OpenReader, WorkReader):
    """The store as far as missions are about it, and no more is loaded: nothing of runs."""


class Board:
    """The tasks of one mission; files are opened only when somebody asks for them."""

    def __init__(self, store: WorkReader, mission: Mission, now: str, head: Head) -> None:
        self.mission = mission
        self.now = now
        self._store = store
        self._head = head
        # By the name that others may have given it since: it has another one on their branch.
        self.known_as = store.mission_names().get(mission.id, mission.slug)
        rows = store.tasks_of_mission(mission.id, mission.slug)
        self._rows = {row.task_id.rpartition(".")[2]: row for row in rows}
        self._files: dict[str, TaskFile] = {}

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Return the files of the tasks by id, in order."""
        return taskfile.task_names(self.mission)

    def file(self, id_: str) -> TaskFile:
        """Read one task's file."""
        if id_ not in self._files:
            self._files[id_] = taskfile.read_task(self.mission, self.names[id_])
        return self._files[id_]

    @cached_property
    def accepted(self) -> Acceptance:
        """Return what was accepted, as the last commit has it."""
        meta = self._head.get(self.mission.name(self.mission.files.meta))
        return missions.committed_acceptance(self.mission, meta.content if meta else None)

    @cached_property
    def said(self) -> Mapping[str, SaidLane]:
        """Return the lanes that the mission's own files give."""
        return missions.said_lanes(missions.status_lanes(self.mission), self.accepted)

    def lane(self, id_: str) -> str:
        """Return where a task stands."""
        found = taskfile.lane_now(self._rows.get(id_), self.said.get(id_))
        return found or ("planned" if self.broken(id_) else self.file(id_).lane)

    def is_begun(self) -> bool:
        """Tell whether a task is known to have left the lane planned; no file is read for it."""
        known = (taskfile.lane_now(self._rows.get(it), self.said.get(it)) for it in self.names)
        return any(lane not in (None, "planned") for lane in known)

    def broken(self, id_: str, *, deep: bool = False) -> FormatError | None:
        """Return why a task's file cannot be worked by, or one that it builds on if `deep`."""
        pending, seen = [id_], {id_}
        try:
            while pending:
                row, said = self._rows.get(pending[-1]), self.said.get(pending[-1])
                if trouble := taskfile.lane_trouble(row, said):
                    return trouble
                file = self.file(pending.pop())
                for needed in file.dependencies if deep else ():
                    taskfile.require_known_task(self.mission, file, needed, self.names)
                    pending += () if needed in seen else (needed,)
                    seen.add(needed)
        except FormatError as error:
            return error
        return None

    def require_sound(self) -> None:
        """Stop if what the mission's own files say of it cannot be, or not any more."""
        if self.mission.trouble:
            raise self.mission.trouble
        missions.require_unedited(self.mission, self.accepted)

    def stale(self) -> dict[str, SaidLane]:
        """Return what the mission's files say of tasks that the store has in another lane."""
        known = {id_: said for id_, said in self.said.items() if id_ in self._rows}
        return {id_: said for id_, said in known.items() if self.lane(id_) != self._rows[id_].lane}

    def to_accept(self) -> list[str]:
        """Return the tasks that are approved, or done by somebody's word that no file repeats."""
        said = [id_ for id_, it in self.said.items() if it.lane == "done"]
        by_hand = [id_ for id_ in self.in_lane("done") if id_ in self._rows and id_ not in said]
        unsaid = [it for it in by_hand if not self.broken(it) and self.file(it).lane != "done"]
        return [id_ for id_ in self.names if id_ in unsaid or self.lane(id_) == "approved"]

    def author(self, id_: str) -> str | None:
        """Return who said last that a task is done."""
        return self.told(id_)[0] or self.holder(id_)

    def work(self, id_: str) -> WorkRow | None:
        """Return what is known of the work on a task, whether an agent or a run did it last."""
        task_id, found = self.mission.task_id(id_), self._store.mission_work(self.mission.slug)
        told, run = found.get(id_), self._store.passed_work(task_id)
        if run is None or (told and told.head and told.at > run[2]):
            return told
        base, head, ended_at = run
        seen = self._store.task_checks(task_id)
        return WorkRow(self.mission.slug, id_, base, head, seen, None, ended_at)

    def told(self, id_: str) -> tuple[str | None, str | None]:
        """Return who reported the last success of a task's work, and what was said with it."""
        return self._store.last_move(self.mission.task_id(id_), "for_review") or (None, None)

    def agents(self) -> Mapping[str, str]:
        """Return who asked for work on this mission, each with when they last did."""
        return self._store.mission_agents(self.mission.slug)

    def counts(self) -> dict[str, int]:
        """Return how many tasks are in each lane that has any."""
        found = [self.lane(id_) for id_ in self.names]
        return {lane: found.count(lane) for lane in lanes.LANES if lane in found}

    def in_lane(self, *wanted: str) -> list[str]:
        """Return the tasks in these lanes, in order."""
        return [id_ for id_ in self.names if self.lane(id_) in wanted]

    def held_by(self, agent: str, skip: Sequence[str] = ()) -> str | None:
        """Return the task this agent is working on."""
        for id_ in self.names:
            if self.is_held_by(id_, agent) and id_ not in skip and not self.broken(id_):
                return id_
        return None

    def is_held_by(self, id_: str, agent: str) -> bool:
        """Tell whether a task is in this agent's hands."""
        row = self._rows.get(id_)
        return row is not None and row.owner == agent and self.lane(id_) in lanes.HELD

    def first_free(self, may_begin: Callable[[str], bool]) -> str | None:
        """Return the first task that can be begun now; nobody looks at those behind it."""
        for id_ in self.names:
            is_free = self._is_free(id_) and may_begin(id_) and not self.broken(id_)
            # A task whose dependencies are wrong stops alone.
            if is_free and not self.waits(id_) and not self.broken(id_, deep=True):
                return id_
        return None

    def waits(self, id_: str) -> tuple[str, ...]:
        """Return the unfinished tasks that one waits for, those that nobody knows included."""
        needed = self.file(id_).dependencies
        return tuple(it for it in needed if it not in self.names or self.lane(it) != "done")

    def needs(self, id_: str) -> tuple[str, ...]:
        """Return the unfinished tasks that one depends on."""
        file = self.file(id_)
        for needed in file.dependencies:
            taskfile.require_known_task(self.mission, file, needed, self.names)
        return self.waits(id_)

    def waiting(self) -> dict[str, tuple[str, ...]]:
        """Return the planned tasks that wait for others, each with these."""
        planned = [id_ for id_ in self.in_lane("planned") if not self.broken(id_)]
        return {id_: needs for id_ in planned if (needs := self.waits(id_))}

    def problems(self) -> dict[str, FormatError]:
        """Return the unfinished tasks that nobody can be given, each with what is wrong."""
        left = [id_ for id_ in self.names if self.lane(id_) not in lanes.FINAL]
        found = {(id_, deep): self.broken(id_, deep=deep) for deep in (False, True) for id_ in left}
        return {id_: error for (id_, _), error in found.items() if error}

    def circle(self) -> FormatError | None:
        """Say which tasks wait for each other, if any do."""
        needs = {it: self.file(it).dependencies for it in self.names if not self.broken(it)}
        found = taskfile.find_circle(needs)
        return taskfile.circle_error(self.mission, found) if found else None

    def row(self, id_: str) -> TaskRow | None:
        """Return what the store knows of a task."""
        return self._rows.get(id_)

    def holder(self, id_: str) -> str | None:
        """Return who holds a task."""
        row, said = self._rows.get(id_), self.said.get(id_)
        return (row.owner if row else None) or (said.who if said else None)

    def _is_free(self, id_: str) -> bool:
        """Tell whether nobody works on a task: planned, or left by someone whose lease is over."""
        row, said, lane = self._rows.get(id_), self.said.get(id_), self.lane(id_)
        until = (row.lease_until if row else None) or (said.until if said else "")
        return lane == "planned" or (lane in lanes.HELD and until <= self.now)


MAX_FAILURES = 3
SEEN_LATELY = timedelta(hours=4)
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
    asked: Sequence[QuestionRow]
    workspace: Path | None = None  # where the step is worked on, if not where it was asked for

    def at(self, phase: Phase, id_: str | None = None) -> At:
        """Return one of the mission's steps."""
        return At(self.mission.slug, phase, self.mission.task_id(id_) if id_ else None)

    def gate(self, phase: Phase) -> tuple[str, ...]:
        """Return what keeps the gate at the end of a phase shut; nothing if it is open."""
        return gates.judge(self.mission, self.head, GATED[phase])

    def report_command(self, at: At) -> str:
        """Return the command that reports on a step, but for its result."""
        who = "" if self.agent == HUMAN else f" --agent {self.agent}"
        return f"treadle next --json --mission {self.mission.slug}{who} --step {at.name}"

    def uncommitted(self) -> list[str]:
        """Return the tasks whose files the last commit does not have."""
        return [id_ for id_ in self.board.names if not self.is_committed(id_)]

    def is_committed(self, id_: str) -> bool:
        """Tell whether the last commit has a task's file."""
        folder = self.head.get(self.mission.name(self.mission.files.tasks))
        return folder is not None and folder.holds(self.board.names[id_])

    @property
    def canceled(self) -> MissionStepRow | None:
        """Return who gave the mission up, and why."""
        return self.reports.get(CANCELED)

    def is_reopened(self, phase: Phase) -> bool:
        """Tell whether a phase is to be gone through again."""
        row = self.reports.get(phase)
        return row is not None and any(it.result == REOPENED for it in row.tries)

    def is_stuck(self, key: str) -> bool:
        """Tell whether a step waits for somebody's word."""
        row = self.reports.get(key)
        return row is not None and (row.is_blocked or row.failures >= MAX_FAILURES)

    def reviewers(self, id_: str) -> list[str]:
        """Return whom a review is kept for: other agents seen lately, if whoever asks did the work.

        The author gets it where nobody else is known, and when nobody else has come for long.
        """
        if self.board.author(id_) != self.agent:
            return []
        since = self.now - SEEN_LATELY
        asked = [name for name, at in self.board.agents().items() if at > utc(since)]
        known = {*asked, *_registered(self.layout, since)} - {self.agent, HUMAN}
        return sorted(known)

    def reviewer(self, id_: str) -> str | None:
        """Return who else has a task's review: it is lent to one agent until some time.

        The author, who got it for want of others, does not keep it from them.
        """
        row = self.reports.get(self.at("review", id_).name)
        if row is None or row.at <= utc(self.now):
            return None
        return None if row.who in (self.agent, self.board.author(id_)) else row.who

    def questions(self, at: At) -> list[QuestionRow]:
        """Return what was ever asked about a step; a task's are asked about all of its work."""
        if at.id:
            return [row for row in self.asked if row.task_id == at.task_id]
        return [row for row in self.asked if row.matter == at.key and not row.task_id]

    def again(self, store: WorkReader) -> Self:
        """Read the state again after a change in the store; git is not asked twice."""
        return self._replace(**_known(store, self.mission, self.now, self.head))


def _registered(layout: Layout, since: datetime) -> list[str]:
    """Return the agents that were given folders for letters since then."""
    folder = layout.mail.agents
    if not folder.is_dir():
        return []
    return [
        agent_name(entry.name)
        for entry in os.scandir(folder)
        if is_agent_id(entry.name.lower()) and entry.stat().st_mtime > since.timestamp()
    ]


def read(
    layout: Layout,
    store: WorkReader,
    mission: Mission,
    now: datetime,
    agent: str = HUMAN,
    head: Head | None = None,
) -> State:
    """Read a mission's state, with at most one git process."""
    head = gates.read_head([mission]) if head is None else head
    return State(layout, mission, agent, now, head, **_known(store, mission, now, head))


def _known(store: WorkReader, mission: Mission, now: datetime, head: Head) -> dict[str, Any]:
    board = Board(store, mission, utc(now), head)
    return {
        "board": board,
        "reports": {row.step: row for row in store.mission_steps(board.known_as)},
        "asked": store.questions_of_mission(board.known_as),
    }


def current(state: State) -> At | None:
    """Return the step that is to be worked on now; None when only waiting is left."""
    opening = first_shut(state)
    if opening or state.canceled:
        return state.at(opening) if opening and not state.canceled else None
    board = state.board
    stuck = [id_ for id_ in state.reports if state.is_stuck(id_)]
    held = board.held_by(state.agent, stuck)
    if held:
        return state.at("implement", held)
    free = board.first_free(lambda id_: id_ not in stuck and state.is_committed(id_))
    if free:
        return state.at("implement", free)
    for id_ in board.in_lane("for_review", "in_review"):
        is_kept = state.reviewers(id_) or state.reviewer(id_)
        if id_ not in stuck and not is_kept and not board.broken(id_):
            return state.at("review", id_)
    return state.at("accept") if board.to_accept() else None


def first_shut(state: State) -> Phase | None:
    """Return the first phase whose own artifact is not there yet; what is over needs none."""
    for phase in GATED:
        if state.is_reopened(phase):
            return phase
        if state.gate(phase):
            return None if is_over(state.board) else phase
    is_open = state.is_reopened("tasks") or not state.board.names or uncovered(state)
    return "tasks" if is_open else None


def coverage(state: State) -> dict[str, list[str]]:
    """Return the requirements of the committed spec, each with the tasks that name it."""
    spec = state.head.get(state.mission.name(state.mission.files.spec))
    text = (spec.content or b"").decode(errors="replace") if spec else ""
    found: dict[str, list[str]] = {id_: [] for id_ in gates.requirements(text)}
    for id_ in state.board.names:
        with contextlib.suppress(FormatError):  # said where the task itself is asked for
            refs = state.board.file(id_).requirement_refs
            for name in refs if state.board.lane(id_) != "canceled" else ():
                found.setdefault(name, []).append(id_)
    return found


def uncovered(state: State) -> list[str]:
    """Return the requirements that no task names, as long as no task is begun.

    Tasks that name no requirement at all say nothing about it: such a mission is not held up.
    """
    board = state.board
    with contextlib.suppress(FormatError):
        if board.is_begun() or not taskfile.names_requirements(board.mission, board.names.values()):
            return []
        if all(board.lane(id_) == "planned" and not board.broken(id_) for id_ in board.names):
            found = coverage(state)
            return [id_ for id_, by in found.items() if not by] if any(found.values()) else []
    return []


def not_covered(mission: Mission, left: Sequence[str]) -> str:
    """Return the sentence for requirements that no task brings."""
    where = mission.name(mission.files.tasks)
    return f"no task names {', '.join(left)}; add it to requirement_refs of a task in {where}."


def phase(state: State) -> Phase:
    """Return the phase a mission is in, whether or not there is something to do."""
    at = current(state)
    if at:
        return at.phase
    return "accept" if is_complete(state) else "implement"


def is_complete(state: State) -> bool:
    """Tell whether every task is given up or done, and accepted as far as that is treadle's."""
    is_open = state.canceled or first_shut(state) is not None or not is_over(state.board)
    return not is_open and not state.board.to_accept()


def is_over(board: Board) -> bool:
    return bool(board.names) and set(board.counts()) <= {*lanes.FINAL}


def canceled_words(found: State) -> str:
    """Return the sentence for a mission that was given up."""
    row = found.reports[CANCELED]
    return f"{found.mission.slug} was canceled by {row.who}: {row.note}"


def no_tasks(mission: Mission) -> str:
    """Return the sentence for a mission without tasks."""
    folder = mission.name(mission.files.tasks)
    return f"{folder} has no task yet; write {folder}/WP01-name.md or a list of tasks in plan.md."
