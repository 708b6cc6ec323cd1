"""Find missions, and read what their meta.json says: the title, and what was accepted."""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from treadle.errors import FormatError, NotFoundError, UsageError, argument
from treadle.ids import hint, nearest, new_mission_id, utc
from treadle.layout import (
    KITTY_EVENTS,
    KITTY_STATUS,
    Layout,
    MissionLayout,
    is_within,
)
from treadle.tasks import lanes
from treadle.tasks.lanes import Lane

# Foreign folders may be called otherwise than ours, but a name must not steer git or a shell.
_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


class Mission(NamedTuple):
    """One mission and where it lies; `trouble` says why nothing can be done with it."""

    slug: str
    root: Path
    files: MissionLayout
    mission_id: str | None = None
    trouble: FormatError | None = None

    @property
    def id(self) -> str:
        """Return what a mission is known by through all its names."""
        return self.mission_id or self.slug

    def name(self, path: Path) -> str:
        """Spell one of its paths relative to the repository."""
        return path.relative_to(self.root).as_posix()

    def task_id(self, id_: str) -> str:
        """Return the name one of its tasks has everywhere else."""
        return f"{self.slug}.{id_}"


def find_all(layout: Layout) -> list[Mission]:
    """Return all missions by name; ours hide spec-kitty's of the same name."""
    found = {m.slug: m for home in reversed(layout.mission_homes()) for m in _in(layout, home)}
    known = [_identified(found[slug]) for slug in sorted(found)]
    ids = [mission.mission_id for mission in known]
    return [
        mission._replace(trouble=_same_id(known, mission))
        if mission.mission_id and ids.count(mission.mission_id) > 1
        else mission
        for mission in known
    ]


def _identified(mission: Mission) -> Mission:
    """Read who a mission is; one without an id goes by the name of its folder."""
    try:
        require_inside(mission)
        said = read_meta(mission).get("mission_id")
        if said is None or (isinstance(said, str) and said and _SAFE.issuperset(said)):
            return mission._replace(mission_id=said)
        raise _wrong_key(mission, "mission_id", said, "a text of letters and digits")
    except FormatError as error:
        return mission._replace(trouble=error)


def require_inside(mission: Mission) -> None:
    """Refuse a mission whose files would be written outside: a clone may bring links."""
    for path in (mission.files.tasks, mission.files.snapshot):
        if not is_within(mission.root, mission.name(path)):
            what = "lies behind a link that leads out of the project"
            raise wrong_json(mission, path, what, "mission_linked")


def _same_id(known: Sequence[Mission], mission: Mission) -> FormatError:
    """Say which missions bear one id, and give the copy one of its own."""
    same = [it for it in known if it.mission_id == mission.mission_id]
    said = {it.slug: read_meta(it) for it in same}
    copies = [it for it in same if said[it.slug].get("mission_slug", it.slug) != it.slug]
    copy = (copies or same)[-1]
    new = new_mission_id(datetime.now(UTC), int.from_bytes(os.urandom(10)))
    names = [it.name(it.files.meta) for it in same]
    return FormatError(
        f"{' and '.join(names)} have one mission_id, {mission.mission_id}; a copy needs its own",
        code="mission_id_twice",
        fix=[f"perl -pi -e s/{mission.id}/{new}/ {argument(copy.name(copy.files.meta))}"],
    )


def find(layout: Layout, slug: str) -> Mission:
    """Return the mission of this name, or raise NotFoundError with the nearest one."""
    known = find_all(layout)
    for mission in known:
        if mission.slug == slug:
            return mission
    names = [mission.slug for mission in known]
    close = nearest(slug, names)
    fix = f"treadle mission status --mission {close}" if close else "treadle mission list"
    raise NotFoundError(f"there is no mission {slug}{hint(slug, names)}", fix=[fix])


def choose(layout: Layout, slug: str | None, cwd: Path) -> Mission:
    """Return the mission that is named, that `cwd` lies in, or the only one there is."""
    if slug is not None:
        return find(layout, slug)
    known = find_all(layout)
    around = [m for m in known if cwd.resolve().is_relative_to(m.files.folder.resolve())]
    chosen = around or known
    if len(chosen) == 1:
        return chosen[0]
    if not chosen:
        raise NotFoundError(
            "there is no mission yet",
            code="no_mission",
            fix=['treadle mission create first-mission --goal "what is to be true"'],
        )
    names = [mission.slug for mission in chosen]
    raise UsageError(
        f"there are {len(names)} missions ({', '.join(names[:5])}); say which with --mission",
        code="mission_ambiguous",
        fix=["treadle mission list"],
        details={"missions": names},
    )


def title(mission: Mission) -> str:
    """Return what a mission is called in its meta.json, else its name."""
    meta = read_meta(mission)
    known = [meta.get(key) for key in ("title", "friendly_name", "mission_name")]
    return next((it.strip() for it in known if isinstance(it, str) and it.strip()), mission.slug)


def read_meta(mission: Mission) -> dict[str, Any]:
    """Return what a mission's meta.json says; nothing if there is none."""
    path = mission.files.meta
    return parse_object(mission, path, _read(mission, path)) if path.exists() else {}


def parse_object(
    mission: Mission, path: Path, data: bytes, code: str = "meta_invalid"
) -> dict[str, Any]:
    """Read an object of JSON, as it lies there or as a commit has it."""
    try:
        found = json.loads(data)
        if not isinstance(found, dict):
            raise ValueError("it must be a JSON object")
    except (ValueError, RecursionError) as error:
        raise wrong_json(mission, path, f"cannot be read: {error}", code) from error
    return found


def _read(mission: Mission, path: Path, code: str = "meta_invalid") -> bytes:
    try:
        if not path.is_file():  # opening a pipe would wait for ever
            raise OSError(0, "it must be a file")
        return path.read_bytes()
    except OSError as error:
        raise wrong_json(mission, path, f"cannot be read: {error.strerror}", code) from error


def wrong_json(
    mission: Mission, path: Path, what: str, code: str, fix: Sequence[str] = ()
) -> FormatError:
    """Say what is wrong with one of a mission's files that programs write."""
    name = mission.name(path) if path.is_relative_to(mission.root) else str(path)
    return FormatError(
        f"{name} {what}", code=code, fix=fix or [f"git log --oneline -- {argument(name)}"]
    )


ACCEPTED_AT, LANES = _KEPT = "accepted_at", "lanes"


class Acceptance(NamedTuple):
    """What was accepted of a mission: when all of it was, and the lanes that tasks ended in."""

    at: str | None = None
    lanes: Mapping[str, Lane] = {}


def acceptance(mission: Mission, meta: Mapping[str, Any]) -> Acceptance:
    """Return what a meta.json says was accepted; what cannot be is an error that names the key."""
    at, said = meta.get(ACCEPTED_AT), meta.get(LANES, {})
    if at is not None and not (isinstance(at, str) and at.strip()):
        raise _wrong_key(mission, ACCEPTED_AT, at, "a time")
    if not isinstance(said, dict):
        raise _wrong_key(mission, LANES, said, 'an object such as {"WP01": "done"}')
    found = {id_: lanes.known(str(lane)) for id_, lane in said.items()}
    for id_, lane in found.items():
        if lane not in lanes.FINAL:
            raise _wrong_key(mission, f"{LANES}.{id_}", said[id_], " or ".join(lanes.FINAL))
    return Acceptance(at, {id_: lane for id_, lane in found.items() if lane})


def committed_acceptance(mission: Mission, data: bytes | None) -> Acceptance:
    """Return what the last commit says was accepted."""
    path = mission.files.meta
    return acceptance(mission, parse_object(mission, path, data)) if data else Acceptance()


def require_unedited(mission: Mission, accepted: Acceptance) -> None:
    """Stop if meta.json no longer says what the last commit says was accepted."""
    here = acceptance(mission, read_meta(mission))
    if accepted in (here, Acceptance()):
        return
    path, key = mission.files.meta, ACCEPTED_AT if here.at != accepted.at else LANES
    what = f"was edited after the mission was accepted: {key} is not what the last commit has"
    name = argument(mission.name(path))
    fix = [f"git diff HEAD -- {name}", f"git checkout HEAD -- {name}"]
    raise wrong_json(mission, path, what, "acceptance_edited", fix)


def is_cut_short(mission: Mission, committed: bytes | None) -> bool:
    """Tell whether meta.json differs from the last commit in nothing but an acceptance."""
    metas = parse_object(mission, mission.files.meta, committed or b"{}"), read_meta(mission)
    before, here = ({k: v for k, v in it.items() if k not in _KEPT} for it in metas)
    return before == here


def _wrong_key(mission: Mission, key: str, value: object, wanted: str) -> FormatError:
    said = json.dumps(value)[:60]
    what = f"says {key}: {said}; it must be {wanted}"
    return wrong_json(mission, mission.files.meta, what, "meta_invalid")


# How long somebody works on what spec-kitty says is being worked on.
_HELD_FOR = timedelta(hours=4)
# What spec-kitty calls a task that it has not taken up.
_NOT_BEGUN = ("genesis", "uninitialized")


class SaidLane(NamedTuple):
    """The lane that a mission's own files give a task: since when, by whom, until when.

    One that cannot be is None, with what is wrong.
    """

    lane: Lane | None
    since: str = ""
    who: str = ""
    until: str = ""
    trouble: FormatError | None = None


def status_lanes(mission: Mission) -> dict[str, SaidLane]:
    """Return the lanes that spec-kitty's own files give."""
    found: dict[str, SaidLane] = {}
    for folder in mission.files.status_folders():
        for id_, said in _status(mission, folder).items():
            if id_ not in found or said.since > found[id_].since:
                found[id_] = said
    return found


def said_lanes(status: Mapping[str, SaidLane], accepted: Acceptance) -> dict[str, SaidLane]:
    """Return the lanes that a mission's files give: what was accepted, else the status."""
    at = accepted.at or ""
    passed = [id_ for id_, said in status.items() if at and said.lane == "approved"]
    ended = dict.fromkeys(passed, SaidLane("done", at))
    return {**status, **ended, **{id_: SaidLane(it, at) for id_, it in accepted.lanes.items()}}


def _status(mission: Mission, folder: Path) -> dict[str, SaidLane]:
    """Read spec-kitty's status, or the events that it is made of."""
    path, code = folder / KITTY_STATUS, "status_invalid"
    if path.exists():
        data = parse_object(mission, path, _read(mission, path, code), code)
        packages = data.get("work_packages", {})
        if not isinstance(packages, dict):
            raise wrong_json(mission, path, "must have an object under work_packages", code)
        where = "work_packages.{}.lane"
    elif (path := folder / KITTY_EVENTS).exists():
        packages, where = _moves(mission, path), "to_lane of {}"
    else:
        return {}
    found = {id_: _said(mission, path, where.format(id_), it) for id_, it in packages.items()}
    return {id_: said for id_, said in found.items() if said}


def _moves(mission: Mission, path: Path) -> dict[str, Any]:
    """Return the last move of each task in a log of spec-kitty's."""
    code = "status_invalid"
    lines = _read(mission, path, code).splitlines()
    events = [parse_object(mission, path, line, code) for line in lines if line.strip()]
    moves = [it for it in events if it.get("wp_id") and it.get("to_lane")]
    moves.sort(key=lambda it: (str(it.get("at")), str(it.get("event_id"))))
    return {
        str(it["wp_id"]): {
            "lane": it["to_lane"],
            "last_transition_at": it.get("at"),
            "actor": it.get("actor"),
        }
        for it in moves
    }


def _said(mission: Mission, path: Path, key: str, value: object) -> SaidLane | None:
    """Read what is said of one task; None where nothing is."""
    state = value if isinstance(value, dict) else {"lane": value}
    word, since = str(state.get("lane")), str(state.get("last_transition_at") or "")
    if word in _NOT_BEGUN:
        return None
    lane = lanes.known(word)
    if lane is None:
        known = ", ".join(lanes.LANES)
        what = f"says {key}: {json.dumps(state.get('lane'))[:60]}; known: {known}"
        return SaidLane(None, since, trouble=wrong_json(mission, path, what, "status_invalid"))
    try:
        until = utc(datetime.fromisoformat(since) + _HELD_FOR)
    except (ValueError, OverflowError):
        until = ""
    return SaidLane(lane, since, str(state.get("actor") or ""), until)


def _in(layout: Layout, home: Path) -> list[Mission]:
    try:
        entries = [entry.name for entry in os.scandir(home) if entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    folders = [home / name for name in entries if _SAFE.issuperset(name) and name[0].isalnum()]
    found = [Mission(folder.name, layout.root, MissionLayout(folder)) for folder in folders]
    return [m for m in found if m.files.meta.exists() or m.files.spec.exists()]
