"""Missions: where each stands, what its gates miss, and its words."""

from pathlib import Path

from treadle.errors import FormatError
from treadle.files import walk
from treadle.ids import HUMAN
from treadle.missions import mission as missions
from treadle.missions import scaffold, state
from treadle.missions.mission import Mission
from treadle.missions.state import GATED, Asking, Board
from treadle.web.site import Document, Site, WebRequest

_MAX = 1 << 20


def document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle mission list --json` gives."""
    with site.store() as store:
        return state.list_document(state.read_statuses(site.project.layout, store, site.now()))


def one(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle mission status --json` gives."""
    layout = site.project.layout
    with site.store() as store:
        return state.status_document(
            state.read_status(layout, store, _mission(site, asked), site.now())
        )


def view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add the gates, the tasks, the snapshot and the words of one mission."""
    mission = _mission(site, asked)
    with site.store() as store:
        here = state.read(Asking(site.project.layout, mission, HUMAN, site.now()), store)
        gates = [here.gate(phase) for phase in GATED]
        tasks = [_task(here.board, id_) for id_ in here.board.names]
    return {
        "title": missions.title(mission),
        "gates": [(gate.kind, gate.missing) for gate in gates],
        "tasks": tasks,
        "snapshot": scaffold.compute_dossier(mission, site.now()),
        "files": [(path.name, _text(path)) for path in (mission.files.spec, mission.files.plan)],
        "feature_dir": mission.name(mission.files.folder),
    }


def _mission(site: Site, asked: WebRequest) -> Mission:
    return missions.find(site.project.layout, asked.names["slug"])


def _task(board: Board, id_: str) -> Document:
    try:
        file = board.file(id_)
        needs = [(needed, board.lane(needed)) for needed in board.needs(id_)]
    except FormatError as error:
        return {"id": id_, "error": error.message}
    return {
        "id": id_,
        "error": None,
        "title": file.title,
        "lane": board.lane(id_),
        "owner": board.holder(id_),
        "needs": needs,
        "text": _text(board.mission.files.tasks / board.names[id_]),
    }


def _text(path: Path) -> str | None:
    """Return a file's words, if it is a plain file."""
    try:
        return walk.read(path, max_bytes=_MAX).decode(errors="replace")
    except FormatError:
        return None
