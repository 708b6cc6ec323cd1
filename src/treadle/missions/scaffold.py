"""Write a mission's files: its folder and spec, its plan, its tasks from the plan."""

import json
import os
import re
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import NamedTuple

from treadle import markdown
from treadle.errors import BlockedError, FormatError, ProjectError, TreadleError, UsageError
from treadle.files import atomic, beneath, walk
from treadle.git import repo as git
from treadle.ids import new_mission_id, utc
from treadle.layout import MissionLayout
from treadle.missions import adopt, gates, taskfile
from treadle.missions import mission as missions
from treadle.missions.gates import Kind, is_real
from treadle.missions.mission import Mission
from treadle.project.context import Context, commit_only, require_ready
from treadle.store.store import Store

# A task's id is `<slug>.WP01`, and ids have at most 64 characters.
MAX_SLUG = 56
_GOAL = "[One or two sentences: who needs what, and why]"
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class Created(NamedTuple):
    """A new mission, and the commit that holds its meta.json."""

    mission: Mission
    commit: str | None


def create(
    project: Context, slug: str, title: str | None, now: datetime, goal: str | None = None
) -> Created:
    """Make a mission; exactly one commit, and spec.md is not in it."""
    check_slug(project, slug)
    require_ready(project)
    mission = Mission(slug, project.layout.root, MissionLayout(_home(project) / slug))
    title = " ".join((title or slug.replace("-", " ").capitalize()).split())
    is_first = not mission.files.folder.parent.exists()
    try:
        _write_files(project, mission, title, now, " ".join((goal or "").split()))
        message = f"Add meta and scaffolding for feature {slug}"
        return Created(mission, commit_only(project, [mission.name(mission.files.meta)], message))
    except (TreadleError, OSError):
        folder = mission.files.folder
        beneath.remove_tree(folder.parent if is_first else folder)
        raise


def _write_files(project: Context, mission: Mission, title: str, now: datetime, goal: str) -> None:
    mission.files.folder.mkdir(parents=True)
    meta = {
        "mission_id": new_mission_id(now, int.from_bytes(os.urandom(10))),
        "mission_slug": mission.slug,
        "title": title,
        **({"goal": goal} if goal else {}),
        # What spec-kitty needs besides, to load the mission.
        **{"slug": mission.slug, "friendly_name": title, "mission_type": "software-dev"},
        "target_branch": git.head(project.repo).branch,
        "created_at": utc(now),
    }
    atomic.write(mission.files.meta, (json.dumps(meta, indent=2) + "\n").encode())
    spec = gates.scaffold("spec").format(title=title)
    spec = spec.replace(_GOAL, goal, 1) if goal else spec
    atomic.write(mission.files.spec, spec.encode(errors="replace"))


def _home(project: Context) -> Path:
    ours, kitty = project.layout.mission_homes()
    return kitty if kitty.is_dir() and not ours.exists() else ours


def check_slug(project: Context, slug: str, command: str = "create") -> None:
    """Refuse a name that no mission can have, or that one has."""
    if _SLUG.fullmatch(slug) is None or len(slug) > MAX_SLUG:
        better = re.sub(r"[^a-z0-9]+", "-", slug.lower())[:MAX_SLUG].strip("-")
        raise UsageError(
            f"{slug!r} cannot name a mission; use small letters and digits joined by single"
            f" hyphens, at most {MAX_SLUG}",
            code="slug_invalid",
            fix=[f"treadle mission {command} {better or 'my-mission'}"],
        )
    for home in project.layout.mission_homes():
        if os.path.lexists(home) and not walk.is_folder(home):
            raise ProjectError(f"{home} is in the way: missions need a folder there")
        if os.path.lexists(home / slug):
            raise UsageError(
                f"there already is {project.layout.relative(home / slug)}; choose another name",
                code="mission_exists",
                fix=[f"treadle mission status --mission {slug}"],
            )


def set_up_plan(project: Context, mission: Mission) -> tuple[Kind, tuple[str, ...], str | None]:
    """Write the plan's scaffold if there is none, commit a plan that is one.

    Returns the gate that is shut and what it lacks, or the plan's open one with the commit.
    """
    head, plan = gates.read_head([mission]), mission.files.plan
    entry = gates.judge(mission, head, "spec")
    if entry:
        return "spec", entry, None
    if not plan.exists():
        text = gates.scaffold("plan").format(title=missions.title(mission))
        atomic.write(plan, text.encode(errors="replace"))
    if not gates.is_substantive(plan, "plan"):
        return "plan", gates.judge(mission, head, "plan"), None
    require_ready(project)
    message = f"Add plan for feature {mission.slug}"
    return "plan", (), commit_only(project, [mission.name(plan)], message)


HEADINGS = ("Tasks", "Task List", "Work Packages")
_ITEM = re.compile(r"(?P<indent>\s*)(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?(?P<text>.+)")
_ID = re.compile(r"\**(WP\d{2,})\**\s*[:.–—-]?\**\s*", re.IGNORECASE)
_KEYS = ("depends on", "files", "requirements")
_EXTRA = re.compile(rf"\s*\((?P<extra>(?:{'|'.join(_KEYS)})\b[^()]*)\)\s*$", re.IGNORECASE)
_FIELD = re.compile(rf"(?:{'|'.join(_KEYS)})\s*:", re.IGNORECASE)
_ONLY = re.compile(r"`?FR-\d{3,}`?(?:\s*,\s*`?FR-\d{3,}`?)*", re.IGNORECASE)
_UNSAFE = re.compile(r"[^a-z0-9]+")


class PlannedTask(NamedTuple):
    """One task of the plan's list."""

    id: str
    title: str
    dependencies: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()


class Written(NamedTuple):
    """Which files were written, which were there, and the ids of all tasks."""

    wrote: tuple[str, ...]
    kept: tuple[str, ...]
    tasks: tuple[str, ...]


def write_tasks(store: Store, mission: Mission, now: datetime) -> Written:
    """Write the files that are missing, then bring all tasks into the store."""
    _require_plan(mission)
    kept = taskfile.task_names(mission)
    drafts = [
        draft for draft in read_tasks(mission.files.plan.read_text("utf-8")) if draft.id not in kept
    ]
    _check_tasks(mission, drafts, {*kept, *(draft.id for draft in drafts)})
    if not drafts and not kept:
        name = mission.name(mission.files.plan)
        raise BlockedError(
            f"{name} has no list of tasks under `## Tasks`; write one, or tasks/WP01-name.md",
            code="no_tasks",
            fix=[f"treadle mission status --mission {mission.slug}"],
        )
    mission.files.tasks.mkdir(exist_ok=True)
    for draft in drafts:
        path = mission.files.tasks / f"{draft.id}-{_slug(draft.title)}.md"
        atomic.write(path, _task_text(draft).encode(errors="replace"))
    found = adopt.adopt_tasks(store, mission, taskfile.task_names(mission), now)
    return Written(
        wrote=tuple(mission.name(found[draft.id].path) for draft in drafts),
        kept=tuple(mission.name(mission.files.tasks / name) for name in kept.values()),
        tasks=tuple(mission.task_id(id_) for id_ in found),
    )


def read_tasks(plan: str) -> list[PlannedTask]:
    """Return the tasks that a plan lists, as items or as headings; what lies below is criteria."""
    text = next((found for name in HEADINGS if (found := markdown.section(plan, name))), "")
    drafts: list[PlannedTask] = []
    depth = 0  # of the heading that is a task, while its section lasts
    for line in markdown.lines(text):
        words = line.text.strip(" \t#")
        item = None if line.is_code or line.level else _ITEM.match(line.text)
        if line.level and _ID.match(words):
            drafts.append(_draft(words))
            depth = line.level
        elif line.level:
            depth = depth if line.level > depth else 0
        elif item and is_real(item["text"]):
            if depth == 0 and len(item["indent"].expandtabs(4)) < 2:
                drafts.append(_draft(item["text"].strip()))
            elif drafts:
                drafts[-1] = _below(drafts[-1], item["text"].strip())
    return _numbered(drafts)


def _below(draft: PlannedTask, words: str) -> PlannedTask:
    """Return a task with what an item below it says: a field of it, or a criterion."""
    plain = words.replace("*", "")
    plain = f"requirements: {plain}" if _ONLY.fullmatch(plain) else plain
    if not _FIELD.match(plain):
        return draft._replace(criteria=(*draft.criteria, words))
    dependencies, files, requirements = (_part(plain, key) for key in _KEYS)
    return draft._replace(
        dependencies=draft.dependencies + dependencies,
        files=draft.files + files,
        requirements=draft.requirements + requirements,
    )


def _numbered(drafts: list[PlannedTask]) -> list[PlannedTask]:
    """Give tasks without an id the number of their place, or the next that nobody has."""
    taken = {draft.id for draft in drafts}
    found = []
    for place, draft in enumerate(drafts, 1):
        free = (id_ for n in count(place) if (id_ := f"WP{n:02d}") not in taken)
        found.append(draft if draft.id else draft._replace(id=next(free)))
        taken.add(found[-1].id)
    return found


def _check_tasks(mission: Mission, drafts: list[PlannedTask], known: set[str]) -> None:
    """Refuse a list that cannot become files, before there is one."""
    ids = [draft.id for draft in drafts]
    wrong = [f"{id_} is there twice" for id_ in ids if ids.count(id_) > 1]
    for draft in drafts:
        unknown = [needed for needed in draft.dependencies if needed not in known]
        wrong += [f"{draft.id} depends on {needed}, which is not there" for needed in unknown]
    if circle := taskfile.find_circle({draft.id: draft.dependencies for draft in drafts}):
        wrong.append(f"{' → '.join(circle)} is a circle")
    if wrong:
        name = mission.name(mission.files.plan)
        text = f"{name}: {wrong[0]}; correct the list under `## Tasks`"
        raise FormatError(text, code="task_list_invalid", fix=[f"grep -n WP {name}"])


def _draft(text: str) -> PlannedTask:
    extra = _EXTRA.search(text)
    text = text[: extra.start()] if extra else text
    named = _ID.match(text)
    id_ = named[1].upper() if named else ""
    title = (text[named.end() :] if named else text).strip(" *") or id_
    said = extra["extra"] if extra else ""
    return PlannedTask(id_, title, *(_part(said, key) for key in _KEYS))


def _part(extra: str, key: str) -> tuple[str, ...]:
    found = re.search(rf"(?:^|;)\s*{key}\b[ :]*([^;]*)", extra, re.IGNORECASE)
    words = found[1].split(",") if found else []
    return tuple(word.strip(" `") for word in words if word.strip(" `"))


def _task_text(draft: PlannedTask) -> str:
    criteria = draft.criteria or (draft.title,)
    return gates.scaffold("task").format(
        id=draft.id,
        title=_quoted(draft.title),
        dependencies=", ".join(draft.dependencies),
        files=", ".join(_quoted(path) for path in draft.files),
        requirements=f"requirement_refs: [{', '.join(draft.requirements)}]\n"
        if draft.requirements
        else "",
        heading=draft.title,
        criteria="\n".join(f"- {item}" for item in criteria),
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _slug(title: str) -> str:
    return _UNSAFE.sub("-", title.lower())[:40].strip("-") or "task"


def _require_plan(mission: Mission) -> None:
    head = gates.read_head([mission])
    for kind in gates.SENTENCES:
        if missing := gates.judge(mission, head, kind):
            raise BlockedError(
                gates.SENTENCES[kind],
                code="gate_shut",
                fix=[f"treadle mission setup-plan --mission {mission.slug}"],
                details={"missing": list(missing)},
            )
