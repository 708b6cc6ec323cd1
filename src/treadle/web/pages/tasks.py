"""Board: tasks by lane, who has them, what they wait for, and whose work would conflict."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from treadle.errors import FormatError
from treadle.files import walk
from treadle.ids import utc
from treadle.missions import dossier, state, status
from treadle.missions import mission as missions
from treadle.missions.mission import Mission
from treadle.missions.state import GATED, PHASES, Board
from treadle.store.store import Reader
from treadle.store.tasks import TaskRow
from treadle.tasks import images, lanes
from treadle.tasks import task as documents
from treadle.tasks.waiting import is_met
from treadle.web.pages import conflicts, runs
from treadle.web.site import Document, Site, WebRequest

_SHOWN = 100  # tasks of a lane
_FINISHED = 20  # of one where nothing happens any more


def board_document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle task list --json` gives, and the conflicts of `treadle runs list`."""
    with site.store() as store:
        storms = conflicts.found(store)
        found = documents.list_document(store.tasks())
    return found | {"weather": [storm._asdict() for storm in storms]}


def board_view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Sort the tasks into lanes, each with what is around it."""
    with site.store() as store:
        rows = store.tasks()
        needs = _needs(store, rows)
        clashing = conflicts.in_short(conflicts.found(store))
        board = [(lane, _lane(store, lane, rows, needs)) for lane in lanes.LANES]
        count = {lane: sum(row.lane == lane for row in rows) for lane in lanes.LANES}
    stamp = utc(site.now())
    return {"board": board, "count": count, "clashing": clashing, "stamp": stamp}


def task_document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle task show --json` gives."""
    with site.store() as store:
        row = documents.find_task(store, asked.task)
        shown = images.names(site.project.layout, row.task_id)
        return documents.whole_document(store, row, site.now()) | {"images": shown}


def task_view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add what is around the task, and a line for each of its runs, the newest first."""
    with site.store() as store:
        row = documents.find_task(store, asked.task)
        card = _card(store, row, store.dependencies(row.task_id))
        lines = [runs.glance(site, store, it) for it in reversed(store.task_runs(row.task_id))]
    return {"card": card, "lines": lines, "stamp": utc(site.now())}


def move(asked: WebRequest) -> list[str]:
    """Move a task to another lane."""
    words = ["task", "move", asked.task, f"--to={asked.text('to', 'LANE')}"]
    return [*words, f"--reason={why}"] if (why := asked.fields.get("reason", "").strip()) else words


def _needs(store: Reader, rows: list[TaskRow]) -> Mapping[str, list[TaskRow]]:
    known = {row.task_id: row for row in rows}
    found: dict[str, list[TaskRow]] = defaultdict(list)
    for task_id, depends_on in store.task_links():
        found[task_id].append(known[depends_on])
    return found


def _lane(
    store: Reader, lane: str, rows: list[TaskRow], needs: Mapping[str, list[TaskRow]]
) -> list[Document]:
    inside = [row for row in rows if row.lane == lane]
    if lane in lanes.FINAL:
        inside = sorted(inside, key=lambda row: row.updated_at, reverse=True)[:_FINISHED]
    return [_card(store, row, needs.get(row.task_id, [])) for row in inside[:_SHOWN]]


def _card(store: Reader, row: TaskRow, needs: list[TaskRow]) -> Document:
    runs = store.task_runs(row.task_id)
    moves = store.task_moves(row.task_id) if row.lane == "blocked" else []
    return {
        "task": row._asdict(),
        "waits": [(it.task_id, it.lane) for it in needs if not is_met(it, stacks=True)],
        "built_on": [it.task_id for it in needs if is_met(it, stacks=True)],
        "reason": moves[-1].reason if moves else None,
        "run": runs[-1]._asdict() if runs else None,
        "legal": lanes.legal(row.lane),
    }


_MAX_FILE = 1 << 20


def missions_document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle mission list --json` gives."""
    with site.store() as store:
        return status.list_document(status.read_statuses(site.project.layout, store, site.now()))


def mission_document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle mission status --json` gives."""
    layout = site.project.layout
    with site.store() as store:
        return status.status_document(
            status.read_status(layout, store, _mission(site, asked), site.now())
        )


def mission_view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add the gates, the tasks, the snapshot and the words of one mission."""
    mission = _mission(site, asked)
    with site.store() as store:
        here = state.read(site.project.layout, store, mission, site.now())
        gaps = {str(phase): here.gate(phase) for phase in GATED}
        tasks = [_mission_task(here.board, id_) for id_ in here.board.names]
    return {
        "title": missions.title(mission),
        "phases": _phases(found, gaps),
        "tasks": tasks,
        "snapshot": dossier.compute_dossier(mission, site.now()),
        "missing_files": dossier.missing_artifacts(mission),
        "files": [(path.name, _words(path)) for path in (mission.files.spec, mission.files.plan)],
        "feature_dir": mission.name(mission.files.folder),
    }


def _phases(found: Document, missing: Mapping[str, Sequence[str]]) -> list[Document]:
    """Return each phase: whether it is behind, now or ahead, and what its gate misses."""
    now, is_complete = str(found["phase"]), bool(found["phase_complete"])
    at = PHASES.index(now) if now in PHASES else len(PHASES)
    words = [*["done"] * at, "done" if is_complete else "now"]
    return [
        {"name": name, "state": words[n] if n < len(words) else "later", "gaps": missing.get(name)}
        for n, name in enumerate(PHASES)
    ]


def _mission(site: Site, asked: WebRequest) -> Mission:
    return missions.find(site.project.layout, asked.names["slug"])


def _mission_task(board: Board, id_: str) -> Document:
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
        "text": _words(board.mission.files.tasks / board.names[id_]),
    }


def _words(path: Path) -> str | None:
    """Return a file's words, if it is a plain file."""
    try:
        return walk.read(path, max_bytes=_MAX_FILE).decode(errors="replace")
    except FormatError:
        return None
