"""Where missions stand: the phase of each, what holds it up, how its tasks are."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from treadle.errors import FormatError
from treadle.layout import Layout
from treadle.missions import gates, state
from treadle.missions import mission as missions
from treadle.missions.gates import Head
from treadle.missions.mission import Mission
from treadle.missions.state import GATED, SCHEMA_VERSION, Phase, State
from treadle.store.questions import WorkReader
from treadle.tasks import lanes
from treadle.text import plural


class Status(NamedTuple):
    """A mission's phase; a reason whenever the phase is not complete."""

    mission_slug: str
    phase: Phase
    phase_complete: bool
    blocked_reason: str | None
    missing: tuple[str, ...]
    tasks: Mapping[str, int]
    coverage: Mapping[str, Sequence[str]]


class Listed(NamedTuple):
    """One line of the list of missions; a broken one is listed with what is wrong."""

    mission: Mission
    title: str
    status: Status | None
    error: FormatError | None = None


def read_status(
    layout: Layout, store: WorkReader, mission: Mission, now: datetime, head: Head | None = None
) -> Status:
    """Return where one mission stands."""
    found = state.read(layout, store, mission, now, head=head)
    found.board.require_sound()
    now_in = state.phase(found)
    reason, missing = _status_reason(found, now_in)
    tasks, covered = found.board.counts(), state.coverage(found)
    return Status(mission.slug, now_in, reason is None, reason, missing, tasks, covered)


def read_statuses(layout: Layout, store: WorkReader, now: datetime) -> list[Listed]:
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


def _listed(
    layout: Layout, store: WorkReader, mission: Mission, now: datetime, head: Head
) -> Listed:
    try:
        title = missions.title(mission)
        return Listed(mission, title, read_status(layout, store, mission, now, head))
    except FormatError as error:
        return Listed(mission, mission.slug, None, error)


def _status_reason(found: State, phase: Phase) -> tuple[str | None, tuple[str, ...]]:
    if found.canceled:
        return state.canceled_words(found), ()
    if found.is_reopened(phase):
        row = found.reports[phase]
        return f"{phase} was reopened by {row.who}: {row.note}", ()
    if phase in GATED:
        missing = found.gate(phase)
        return gates.SENTENCES[GATED[phase]] if missing else None, missing
    if phase == "tasks":
        bare = state.uncovered(found)
        return state.not_covered(found.mission, bare) if bare else state.no_tasks(found.mission), ()
    if state.is_complete(found):
        return None, ()
    if state.is_over(found.board) and found.board.to_accept():
        return f"the tasks of {found.mission.slug} are done and wait to be accepted.", ()
    counts = found.board.counts()
    left = sum(n for lane, n in counts.items() if lane not in lanes.FINAL)
    verb, total = "is" if left == 1 else "are", plural(sum(counts.values()), "task")
    reason = f"{left} of {total} of {found.mission.slug} {verb} not done yet."
    wrong = dict.fromkeys(error.message for error in found.board.problems().values())
    return reason, tuple(wrong)
