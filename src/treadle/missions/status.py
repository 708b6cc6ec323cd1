"""Tell where missions stand."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from treadle.errors import FormatError
from treadle.ids import HUMAN
from treadle.layout import Layout
from treadle.missions import gates, state
from treadle.missions import mission as missions
from treadle.missions.gates import Head
from treadle.missions.mission import Mission
from treadle.missions.state import GATED, SCHEMA_VERSION, Asking, Phase, State
from treadle.store.store import Reader
from treadle.tasks import lanes


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


def read(
    layout: Layout, store: Reader, mission: Mission, now: datetime, head: Head | None = None
) -> Status:
    """Return where one mission stands."""
    found = state.read(Asking(layout, mission, HUMAN, now), store, head)
    phase = state.phase(found)
    reason, missing = _reason(found, phase)
    return Status(mission.slug, phase, reason is None, reason, missing, found.board.counts())


def read_all(layout: Layout, store: Reader, now: datetime) -> list[Listed]:
    """Return all missions, with one git process for all of them."""
    known = missions.find_all(layout)
    head = gates.read_head(known)
    return [_listed(layout, store, mission, now, head) for mission in known]


def document(found: Status) -> dict[str, object]:
    """Return where a mission stands as programs get it."""
    return {"schema_version": SCHEMA_VERSION, **found._asdict()}


def list_document(found: Sequence[Listed]) -> dict[str, object]:
    """Return the list of missions as programs get it."""
    return {"schema_version": SCHEMA_VERSION, "missions": [_line(item) for item in found]}


def _line(item: Listed) -> dict[str, object]:
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
        return Listed(mission, title, read(layout, store, mission, now, head))
    except FormatError as error:
        return Listed(mission, mission.slug, None, error)


def _reason(found: State, phase: Phase) -> tuple[str | None, tuple[str, ...]]:
    if phase in GATED:
        gate = found.gate(phase)
        return gate.reason, gate.missing
    if phase == "tasks":
        return state.no_tasks(found.mission), ()
    if state.is_complete(found):
        return None, ()
    counts = found.board.counts()
    left = sum(n for lane, n in counts.items() if lane not in lanes.FINAL)
    return f"{left} of {sum(counts.values())} tasks of {found.mission.slug} are not done yet.", ()
