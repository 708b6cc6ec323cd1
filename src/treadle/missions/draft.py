"""Write a mission's task files from the list of tasks in its plan."""

import re
from datetime import datetime
from itertools import count
from typing import NamedTuple

from treadle.errors import BlockedError, FormatError
from treadle.files import atomic
from treadle.missions import adopt, gates, taskfile, template
from treadle.missions.mission import Mission
from treadle.missions.substance import is_real
from treadle.store.task_store import TaskStore
from treadle.tasks import markdown

HEADINGS = ("Tasks", "Task List", "Work Packages")
_ITEM = re.compile(r"(?P<indent>\s*)(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?(?P<text>.+)")
_ID = re.compile(r"\**(WP\d{2,})\**\s*[:.–—-]?\**\s*", re.IGNORECASE)
_EXTRA = re.compile(r"\s*\((?P<extra>(?:depends on|files)\b[^()]*)\)\s*$", re.IGNORECASE)
_UNSAFE = re.compile(r"[^a-z0-9]+")


class Draft(NamedTuple):
    """One task of the plan's list."""

    id: str
    title: str
    dependencies: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()


class Written(NamedTuple):
    """Which files were written, which were there, and the ids of all tasks."""

    wrote: tuple[str, ...]
    kept: tuple[str, ...]
    tasks: tuple[str, ...]


def write(store: TaskStore, mission: Mission, now: datetime) -> Written:
    """Write the files that are missing, then bring all tasks into the store."""
    _require_plan(mission)
    kept = taskfile.names(mission)
    drafts = [
        draft for draft in read(mission.files.plan.read_text("utf-8")) if draft.id not in kept
    ]
    _check(mission, drafts, {*kept, *(draft.id for draft in drafts)})
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
        atomic.write(path, _render(draft).encode(errors="replace"))
    found = adopt.adopt(store, mission, taskfile.names(mission), now)
    return Written(
        wrote=tuple(mission.name(found[draft.id].path) for draft in drafts),
        kept=tuple(mission.name(mission.files.tasks / name) for name in kept.values()),
        tasks=tuple(mission.task_id(id_) for id_ in found),
    )


def read(plan: str) -> list[Draft]:
    """Return the tasks that a plan lists; what lies below a task is its criteria."""
    text = next((found for name in HEADINGS if (found := markdown.section(plan, name))), "")
    drafts: list[Draft] = []
    for item in filter(None, map(_ITEM.match, text.splitlines())):
        words = item["text"].strip()
        if len(item["indent"].expandtabs(4)) < 2:
            if is_real(words):
                drafts.append(_draft(words))
        elif drafts and is_real(words):
            drafts[-1] = drafts[-1]._replace(criteria=(*drafts[-1].criteria, words))
    return _numbered(drafts)


def _numbered(drafts: list[Draft]) -> list[Draft]:
    """Give tasks without an id the number of their place, or the next that nobody has."""
    taken = {draft.id for draft in drafts}
    found = []
    for place, draft in enumerate(drafts, 1):
        free = (id_ for n in count(place) if (id_ := f"WP{n:02d}") not in taken)
        found.append(draft if draft.id else draft._replace(id=next(free)))
        taken.add(found[-1].id)
    return found


def _check(mission: Mission, drafts: list[Draft], known: set[str]) -> None:
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


def _draft(text: str) -> Draft:
    extra = _EXTRA.search(text)
    text = text[: extra.start()] if extra else text
    named = _ID.match(text)
    id_ = named[1].upper() if named else ""
    title = (text[named.end() :] if named else text).strip(" *") or id_
    parts = extra["extra"].split(";") if extra else []
    return Draft(id_, title, _part(parts, "depends on"), _part(parts, "files"))


def _part(parts: list[str], key: str) -> tuple[str, ...]:
    for part in parts:
        if part.strip().lower().startswith(key):
            words = part.strip()[len(key) :].lstrip(" :").split(",")
            return tuple(word.strip(" `") for word in words if word.strip(" `"))
    return ()


def _render(draft: Draft) -> str:
    criteria = draft.criteria or (draft.title,)
    return template.TASK.format(
        id=draft.id,
        title=_quoted(draft.title),
        dependencies=", ".join(draft.dependencies),
        files=", ".join(_quoted(path) for path in draft.files),
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
        gate = gates.judge(mission, head, kind)
        if gate.reason:
            raise BlockedError(
                gate.reason,
                code="gate_shut",
                fix=[f"treadle mission setup-plan --mission {mission.slug}"],
                details={"missing": list(gate.missing)},
            )
