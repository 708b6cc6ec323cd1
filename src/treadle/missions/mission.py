"""Find missions and read their tasks, files of markdown that are brought into the store."""

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from treadle import frontmatter, markdown
from treadle.contract import Criterion
from treadle.errors import BlockedError, FormatError, NotFoundError, UsageError, argument
from treadle.frontmatter import Value
from treadle.git import repo
from treadle.ids import hint, nearest, utc
from treadle.layout import SNAPSHOT, Layout, MissionLayout
from treadle.store.store import Store
from treadle.store.tasks import TaskRow
from treadle.tasks import lanes
from treadle.tasks.lanes import Lane

SNAPSHOT_PATTERN = f"**/.kittify/dossiers/*/{SNAPSHOT}"
_SHOWN = 20


def require_committed(root: Path, allowed: Sequence[str] = ()) -> None:
    """Stop if files are uncommitted; `allowed` are files or folders that may be."""
    dirty = [name for name in dirty_files(root) if not _is_among(name, allowed)]
    if not dirty:
        return
    shown = ", ".join(dirty[:_SHOWN])
    more = f" and {len(dirty) - _SHOWN} more" if len(dirty) > _SHOWN else ""
    raise BlockedError(
        f"the work tree has uncommitted changes: {shown}{more}; commit them or put them aside",
        code="dirty_worktree",
        fix=["git status", "git add -A && git commit"],
        details={"files": dirty[:_SHOWN], "count": len(dirty)},
    )


def dirty_files(root: Path) -> list[str]:
    """Return the uncommitted files; snapshots of dossiers are derived and never count."""
    return [name for name in repo.dirty_files(root, [SNAPSHOT_PATTERN]) if not is_snapshot(name)]


def is_snapshot(name: str) -> bool:
    """Tell whether a path is a dossier's snapshot, wherever it lies."""
    parts = PurePosixPath(name).parts
    return parts[-4:-2] == (".kittify", "dossiers") and parts[-1] == SNAPSHOT


def _is_among(name: str, allowed: Sequence[str]) -> bool:
    return any(name == path or name.startswith(f"{path}/") for path in allowed)


# Foreign folders may be called otherwise than ours, but a name must not steer git or a shell.
_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


class Mission(NamedTuple):
    """One mission and where it lies."""

    slug: str
    root: Path
    files: MissionLayout

    def name(self, path: Path) -> str:
        """Spell one of its paths relative to the repository."""
        return path.relative_to(self.root).as_posix()

    def task_id(self, id_: str) -> str:
        """Return the name one of its tasks has everywhere else."""
        return f"{self.slug}.{id_}"


def find_all(layout: Layout) -> list[Mission]:
    """Return all missions by name; ours hide spec-kitty's of the same name."""
    found = {m.slug: m for home in reversed(layout.mission_homes()) for m in _in(layout, home)}
    return [found[slug] for slug in sorted(found)]


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
            "there is no mission yet", code="no_mission", fix=["treadle mission create SLUG"]
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
    path = mission.files.meta
    if not path.exists():
        return mission.slug
    try:
        if not path.is_file():  # opening a pipe would wait for ever
            raise ValueError("it must be a file")
        meta = json.loads(path.read_bytes())
        if not isinstance(meta, dict):
            raise ValueError("it must be a JSON object")
    except (ValueError, OSError, RecursionError) as error:
        name = mission.name(path)
        fix = [f"git log --oneline -- {name}"]
        raise FormatError(
            f"{name} cannot be read: {error}", code="meta_invalid", fix=fix
        ) from error
    known = [meta.get(key) for key in ("title", "friendly_name", "mission_name")]
    return next((it.strip() for it in known if isinstance(it, str) and it.strip()), mission.slug)


def _in(layout: Layout, home: Path) -> list[Mission]:
    try:
        entries = [entry.name for entry in os.scandir(home) if entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    folders = [home / name for name in entries if _SAFE.issuperset(name) and name[0].isalnum()]
    found = [Mission(folder.name, layout.root, MissionLayout(folder)) for folder in folders]
    return [m for m in found if m.files.meta.exists() or m.files.spec.exists()]


_KNOWN = frozenset({"work_package_id", "title", "dependencies", "owned_files", "lane"})
_MAX_BYTES = 1 << 20
_TASK_FILE = r"(WP[0-9]{2,})(?:[-_. ].*)?\.md"


class TaskFile(NamedTuple):
    """One task as its file describes it; `lane` counts only until the store knows the task."""

    id: str
    path: Path
    title: str
    dependencies: tuple[str, ...]
    owned_files: tuple[str, ...]
    lane: Lane
    text: str
    criteria: tuple[Criterion, ...]


def task_names(mission: Mission) -> dict[str, str]:
    """Return the names of a mission's task files by id, in order, without opening them."""
    found: dict[str, str] = {}
    for name in _task_listing(mission.files.tasks):
        id_ = _task_id(name)
        if id_ is None:
            continue
        if id_ in found:
            both = " and ".join(sorted((found[id_], name)))
            raise _wrong_file(mission, mission.files.tasks, f"{both} have the same id; rename one")
        found[id_] = name
    return {id_: found[id_] for id_ in sorted(found, key=task_order)}


def task_order(id_: str) -> tuple[int, str]:
    """Sort WP2 before WP10."""
    return int(id_[2:]), id_


def read_task(mission: Mission, name: str) -> TaskFile:
    """Read one task's file; FormatError names what is wrong in it."""
    path = mission.files.tasks / name
    known, text = _parse_task(mission, path)
    id_ = _text_field(known, "work_package_id") or _task_id(name)
    if id_ is None or id_ != _task_id(name):
        raise _wrong_file(mission, path, f"work_package_id is {id_}; it must begin the file's name")
    title = _text_field(known, "title") or markdown.title(text) or id_
    return TaskFile(
        id=id_,
        path=path,
        title=title,
        dependencies=_read_dependencies(mission, path, known),
        owned_files=_list_field(known, "owned_files"),
        lane=_read_lane(mission, path, known),
        text=text or title,
        criteria=markdown.criteria(text) or (Criterion("AC1", title),),
    )


def require_known_task(
    mission: Mission, file: TaskFile, needed: str, known: Collection[str]
) -> None:
    """Refuse a dependency that no file describes."""
    if needed not in known:
        near = hint(needed, known)
        raise _wrong_file(mission, file.path, f"it depends on {needed}, which has no file{near}")


def find_circle(needs: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return a circle of dependencies, its first task again at its end, or nothing."""
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        way = error.args[1][:0:-1]
        start = way.index(min(way, key=task_order))
        return (*way[start:], *way[: start + 1])
    return ()


def circle_error(mission: Mission, circle: tuple[str, ...]) -> FormatError:
    """Say which tasks wait for each other."""
    return FormatError(
        f"{mission.name(mission.files.tasks)}: {' → '.join(circle)} is a circle;"
        " take one of these dependencies out",
        code="task_cycle",
        fix=[f"grep -n -A3 dependencies {mission.name(mission.files.tasks)}/{circle[0]}*.md"],
    )


def _task_id(name: str) -> str | None:
    """Return the `WP01` that begins a file's name; None if it is no task's file."""
    found = re.fullmatch(_TASK_FILE, name)
    return found[1] if found else None


def _task_listing(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(folder)]
    except FileNotFoundError:
        return []
    except NotADirectoryError as error:
        raise FormatError(
            f"{folder} must be a folder with a file for each task", code="task_file_invalid"
        ) from error


def _parse_task(mission: Mission, path: Path) -> tuple[Mapping[str, Value], str]:
    if not path.is_file() or path.stat().st_size > _MAX_BYTES:
        raise _wrong_file(mission, path, "it must be a file of at most 1 MiB")
    try:
        known, body = frontmatter.read(path.read_bytes(), _KNOWN)
        return known, body.decode("utf-8").strip()
    except FormatError as error:
        raise _wrong_file(mission, path, error.message) from error
    except UnicodeDecodeError as error:
        raise _wrong_file(mission, path, "it is not UTF-8") from error


def _text_field(known: Mapping[str, Value], key: str) -> str:
    value = known.get(key, "")
    return value.strip() if isinstance(value, str) else ""


def _list_field(known: Mapping[str, Value], key: str) -> tuple[str, ...]:
    value = known.get(key, [])
    items = value if isinstance(value, list) else [value]
    return tuple(item.strip() for item in items if isinstance(item, str) and item.strip())


def _read_dependencies(mission: Mission, path: Path, known: Mapping[str, Value]) -> tuple[str, ...]:
    found = _list_field(known, "dependencies")
    for id_ in found:
        if not (id_.startswith("WP") and id_[2:].isdecimal() and len(id_) > 3):
            raise _wrong_file(mission, path, f"dependencies: {id_!r} is not an id such as WP01")
    return tuple(dict.fromkeys(found))


def _read_lane(mission: Mission, path: Path, known: Mapping[str, Value]) -> Lane:
    word = _text_field(known, "lane")
    if not word:
        return "planned"
    found = lanes.known(word)
    if found is None:
        raise _wrong_file(
            mission, path, f"there is no lane {word!r}; known: {', '.join(lanes.LANES)}"
        )
    return found


def _wrong_file(mission: Mission, path: Path, what: str) -> FormatError:
    name = mission.name(path)
    return FormatError(
        f"{name}: {what}", code="task_file_invalid", fix=[f"git log -- {argument(name)}"]
    )


_SHORT = r"(?i)WP\d{2,}"
_LONG = r"(.+)\.(WP\d{2,})"


def is_mission_task(word: str, slug: str | None) -> bool:
    """Tell whether a word on the command line means a mission's task."""
    return slug is not None or bool(re.fullmatch(_SHORT, word) or re.fullmatch(_LONG, word))


def resolve_task(layout: Layout, store: Store, word: str, slug: str | None, now: datetime) -> str:
    """Return the id of the task that is meant; a mission's is brought up to date first."""
    if not is_mission_task(word, slug) or (slug is None and store.task(word) and "." not in word):
        return word
    mission, id_ = _find_task(layout, word, slug)
    adopt_tasks(store, mission, [id_], now)
    return mission.task_id(id_)


def require_clean_tree(layout: Layout, store: Store, task_id: str) -> None:
    """Refuse to move a mission's task while the work tree is not clean."""
    row = store.task(task_id)
    if row and row.mission:
        require_committed(layout.root)


def adopt_tasks(
    store: Store, mission: Mission, ids: Iterable[str], now: datetime
) -> dict[str, TaskFile]:
    """Bring these tasks and all they depend on into the store as their files describe them."""
    files = read_with_needed(mission, ids)
    rows = [_task_row(mission, file, utc(now)) for file in files.values()]
    links = [
        (mission.task_id(file.id), mission.task_id(needed))
        for file in files.values()
        for needed in file.dependencies
    ]
    store.adopt_tasks(rows, links)
    return files


def read_with_needed(mission: Mission, ids: Iterable[str]) -> dict[str, TaskFile]:
    """Read the files of these tasks and of all they depend on; circles are errors."""
    known = task_names(mission)
    found: dict[str, TaskFile] = {}
    pending = list(ids)
    while pending:
        id_ = pending.pop()
        if id_ not in found:
            found[id_] = file = read_task(mission, known[id_])
            for needed in file.dependencies:
                require_known_task(mission, file, needed, known)
            pending += file.dependencies
    circle = find_circle({id_: file.dependencies for id_, file in found.items()})
    if circle:
        raise circle_error(mission, circle)
    return {id_: found[id_] for id_ in sorted(found, key=task_order)}


def _find_task(layout: Layout, word: str, slug: str | None) -> tuple[Mission, str]:
    long = re.fullmatch(_LONG, word)
    if long and slug is None:
        slug = long[1]
    id_ = (long[2] if long else word).upper()
    if slug is not None:
        mission = find(layout, slug)
        known = task_names(mission)
        if id_ not in known:
            raise lanes.unknown_task(f"{slug}.{id_}", [mission.task_id(name) for name in known])
        return mission, id_
    found = [m for m in find_all(layout) if id_ in task_names(m)]
    if len(found) == 1:
        return found[0], id_
    if not found:
        raise lanes.unknown_task(id_, [n for m in find_all(layout) for n in task_names(m)])
    slugs = ", ".join(mission.slug for mission in found)
    raise UsageError(
        f"{id_} is a task of several missions ({slugs}); say which with --mission",
        code="mission_ambiguous",
        fix=[f"treadle task show {mission.task_id(id_)}" for mission in found],
    )


def _task_row(mission: Mission, file: TaskFile, now: str) -> TaskRow:
    id_, source = mission.task_id(file.id), mission.name(file.path)
    described = TaskRow(id_, file.title.strip(), file.text, file.criteria, file.lane)
    return described._replace(mission=mission.slug, source=source, created_at=now, updated_at=now)
