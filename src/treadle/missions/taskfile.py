"""Read the tasks of missions, files of markdown."""

import contextlib
import os
import re
import stat
from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from treadle import frontmatter, markdown
from treadle.contract import Criterion
from treadle.errors import FormatError, argument
from treadle.frontmatter import Value
from treadle.ids import hint
from treadle.layout import MailLayout
from treadle.missions.mission import Mission, SaidLane
from treadle.store.questions import WorkReader
from treadle.store.tasks import TaskRow
from treadle.tasks import lanes
from treadle.tasks.lanes import Lane

_LISTS = ("dependencies", "owned_files", "requirement_refs")
_KNOWN = frozenset({"work_package_id", "title", "lane", *_LISTS})
_MAX_BYTES = 1 << 20


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
    requirement_refs: tuple[str, ...] = ()


def task_names(mission: Mission) -> dict[str, str]:
    """Return the names of a mission's task files by id, in order, without opening them."""
    found: dict[str, str] = {}
    for name in sorted(_task_listing(mission.files.tasks)):
        id_ = _task_id(name)
        if id_ is not None:
            found.setdefault(id_, name)
    return {id_: found[id_] for id_ in sorted(found, key=task_order)}


def task_order(id_: str) -> tuple[int, str]:
    """Sort WP2 before WP10."""
    return int(id_[2:]), id_


def read_task(mission: Mission, name: str) -> TaskFile:
    """Read one task's file; FormatError names what is wrong in it."""
    path, own = mission.files.tasks / name, _task_id(name) or name
    alike = [it for it in _task_listing(mission.files.tasks) if it.startswith(own)]
    twins = [it for it in alike if _task_id(it) == own]
    if len(twins) > 1:
        both = " and ".join(sorted(twins))
        raise _wrong_file(mission, mission.files.tasks, f"{both} have the same id; rename one")
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
        criteria=markdown.criteria(text) or planned(mission, id_) or (Criterion("AC1", title),),
        requirement_refs=tuple(ref.upper() for ref in _list_field(known, "requirement_refs")),
    )


def planned(mission: Mission, id_: str) -> tuple[Criterion, ...]:
    """Return when the plan calls a task done: what lies below its line there, else the line."""
    plan = mission.files.plan
    if not plan.is_file() or plan.stat().st_size > _MAX_BYTES:
        return ()
    lines = plan.read_text("utf-8", errors="replace").splitlines()
    for number, text in enumerate(lines, 1):
        found = re.match(rf"([-*+]|[0-9]+[.)]|#+)[ \t]+\W*{id_}\b\W*(.*)", text)
        if not found:
            continue
        is_heading = found[1][0] == "#"
        inside = (
            (lambda it: it[:1] != "#") if is_heading else (lambda it: it[:1] in ("", " ", "\t"))
        )
        below = "\n".join(it.strip() for it in takewhile(inside, lines[number:]))
        words = re.sub(r"\((files|depends on):[^)]*\)", "", found[2]).strip()
        listed = markdown.criteria(f"# {markdown.CRITERIA_HEADING}\n{below}")
        return listed or ((Criterion("AC1", words),) if words else ())
    return ()


def names_requirements(mission: Mission, names: Iterable[str]) -> bool:
    """Tell whether any of these files may name requirements, without parsing them."""
    folder = str(mission.files.tasks)
    for name in names:
        with contextlib.suppress(OSError):  # told of where its task is asked for
            if b"requirement_refs" in (_read(f"{folder}/{name}") or b""):
                return True
    return False


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
    stem = name.removesuffix(".md")
    rest = stem[2:].lstrip("0123456789")
    id_ = stem.removesuffix(rest)
    is_named = stem != name and id_[:2] == "WP" and len(id_) > 3 and "\n" not in rest
    return id_ if is_named and (not rest or rest[0] in "-_. ") else None


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
    data = _read(str(path)) if path.is_file() else None
    if data is None:
        raise _wrong_file(mission, path, "it must be a file of at most 1 MiB")
    try:
        known, body = frontmatter.read(data, _KNOWN)
        return known, body.decode("utf-8").strip()
    except FormatError as error:
        raise _wrong_file(mission, path, error.message) from error
    except UnicodeDecodeError as error:
        raise _wrong_file(mission, path, "it is not UTF-8") from error


def _read(path: str) -> bytes | None:
    """Return what a task's file holds; None if it is large or no plain file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        state = os.fstat(descriptor)
        is_small = stat.S_ISREG(state.st_mode) and state.st_size <= _MAX_BYTES
        return os.read(descriptor, state.st_size) if is_small else None
    finally:
        os.close(descriptor)


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


def lane_now(row: TaskRow | None, said: SaidLane | None) -> Lane | None:
    """Return where a task stands by the store and by its mission's files, if they say.

    What is over stays over, whoever says so. Until treadle has moved a task, the files count.
    """
    known = lanes.parse(row.lane) if row else None
    if said is None or known in lanes.FINAL:
        return known
    is_over = said.lane in lanes.FINAL
    return said.lane if said.lane and (is_over or not _is_moved(row)) else known


def lane_trouble(row: TaskRow | None, said: SaidLane | None) -> FormatError | None:
    """Return what is wrong with the lane that a mission's files give, as long as it would count."""
    return said.trouble if said and not _is_moved(row) else None


def _is_moved(row: TaskRow | None) -> bool:
    return row is not None and row.updated_at != row.created_at


def is_news(store: WorkReader, mission: Mission, mail: MailLayout) -> bool:
    """Tell whether the store calls a mission otherwise, or another one so, or has forgotten it."""
    known = store.mission_names()
    is_known = mission.slug in known.values() or mission.id in known
    if is_known and mission.mission_id and not mission.trouble:
        return known.get(mission.id) != mission.slug
    return bool(forgotten(store, mission, mail))


def forgotten(store: WorkReader, mission: Mission, mail: MailLayout) -> list[str]:
    """Return the tasks of a mission that a lost store knew: files of theirs still show them."""
    known = store.mission_names()
    if mission.trouble or mission.id in known or mission.slug in known.values():
        return []
    rows = {row.task_id for row in store.tasks_of_mission(mission.id, mission.slug)}
    names = {id_: mission.task_id(id_) for id_ in task_names(mission)}
    left = {id_: name for id_, name in names.items() if name not in rows}
    return [id_ for id_, name in left.items() if os.path.lexists(mail.task(name, "status"))]


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
