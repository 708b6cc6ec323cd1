"""Accept a mission: one commit that keeps in meta.json what was accepted, wherever it is read."""

import json
from collections.abc import Mapping
from typing import Any

from treadle.engine.run.run import reach
from treadle.errors import TreadleError
from treadle.files import atomic
from treadle.ids import utc
from treadle.missions import gates, observed
from treadle.missions import mission as missions
from treadle.missions.mission import ACCEPTED_AT, LANES, Acceptance, Mission
from treadle.missions.state import State
from treadle.project.context import Context, commit_only, require_ready
from treadle.tasks import lanes

_SPACE = " \t\r\n"


def record(project: Context, found: State) -> str | None:
    """Commit what is accepted now; None if the last commit already says it.

    Nothing but meta.json is committed. A kill before the commit leaves what
    `is_cut_short` knows again, one after it an accepted mission: rows follow what the commit says.
    """
    mission, path = found.mission, found.mission.files.meta
    with observed.alone(project.layout, f"accept-{mission.slug}"):
        head = gates.read_head([mission])[mission.name(path)]
        known = missions.committed_acceptance(mission, head.content)
        wanted = _accepted_now(found, known)
        return None if wanted == known else _commit(project, mission, wanted)


def _commit(project: Context, mission: Mission, wanted: Acceptance) -> str | None:
    require_ready(project)
    path = mission.files.meta
    before = path.read_bytes() if path.exists() else None
    said = {ACCEPTED_AT: wanted.at} if wanted.at else {}
    try:
        text = with_keys((before or b"{}\n").decode("utf-8"), {**said, LANES: dict(wanted.lanes)})
    except UnicodeDecodeError as error:  # of JSON that is: UTF-16 can be read, and is nobody's
        raise missions.wrong_json(mission, path, "is not UTF-8", "meta_invalid") from error
    atomic.write(path, text.encode())
    reach("acceptance_written")
    try:
        commit = commit_only(project, [mission.name(path)], f"Accept feature {mission.slug}")
    except TreadleError:
        path.unlink() if before is None else atomic.write(path, before)
        raise
    reach("acceptance_committed")
    return commit


def with_keys(text: str, values: Mapping[str, Any]) -> str:
    """Return an object of JSON with these values; everything else stays as it is written."""
    spans = _spans(text)
    new = {key: value for key, value in values.items() if key not in spans}
    for key in sorted(values.keys() & spans.keys(), key=lambda it: spans[it], reverse=True):
        start, end = spans[key]
        text = f"{text[:start]}{json.dumps(values[key])}{text[end:]}"
    if not new:
        return text
    end = text.rindex("}")
    body, newline = text[:end].rstrip(_SPACE), "\r\n" if "\r\n" in text else "\n"
    inner = body[body.index("{") + 1 :]
    indent = inner[: len(inner) - len(inner.lstrip(_SPACE))].rpartition("\n")[2] or "  "
    lines = [f"{newline}{indent}{json.dumps(key)}: {json.dumps(new[key])}" for key in new]
    comma = "," if inner else ""
    return f"{body}{comma}{','.join(lines)}{newline}{text[end:]}"


def _accepted_now(found: State, known: Acceptance) -> Acceptance:
    board = found.board
    ended = {id_: board.lane(id_) for id_ in board.in_lane("approved", *lanes.FINAL)}
    at = utc(found.now) if len(ended) == len(board.names) else known.at
    final = {
        id_: "done" if lane == "approved" else lanes.parse(lane) for id_, lane in ended.items()
    }
    same = final == known.lanes and bool(known.at) == bool(at)
    return known if same else Acceptance(at, final)


def _spans(text: str) -> dict[str, tuple[int, int]]:
    """Return where the values of an object begin and end in its text."""
    found, decode = dict[str, tuple[int, int]](), json.JSONDecoder().raw_decode
    at = text.index("{") + 1
    while True:
        at = _skip(text, at, f"{_SPACE},")
        if text[at] == "}":
            return found
        key, at = decode(text, at)
        at = _skip(text, at, f"{_SPACE}:")
        _, end = decode(text, at)
        found[key] = at, end
        at = end


def _skip(text: str, at: int, what: str) -> int:
    while text[at] in what:
        at += 1
    return at
