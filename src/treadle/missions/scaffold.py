"""Write a mission's files: its folder and spec, its plan, its tasks from the plan."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import NamedTuple

from treadle import markdown
from treadle.errors import BlockedError, FormatError, ProjectError, TreadleError, UsageError
from treadle.files import atomic, beneath
from treadle.git import repo as git
from treadle.ids import utc
from treadle.layout import MissionLayout
from treadle.missions import gates
from treadle.missions import mission as missions
from treadle.missions.gates import Gate, is_real
from treadle.missions.mission import Mission
from treadle.project.context import Context, commit_only, require_ready
from treadle.store.store import Store

# A task's id is `<slug>.WP01`, and ids have at most 64 characters.
MAX_SLUG = 56
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class Created(NamedTuple):
    """A new mission, and the commit that holds its meta.json."""

    mission: Mission
    commit: str | None


def create(project: Context, slug: str, title: str | None, now: datetime) -> Created:
    """Make a mission; exactly one commit, and spec.md is not in it."""
    _check_slug(project, slug)
    require_ready(project)
    mission = Mission(slug, project.layout.root, MissionLayout(_home(project) / slug))
    title = " ".join((title or slug.replace("-", " ").capitalize()).split())
    is_first = not mission.files.folder.parent.exists()
    try:
        _write_files(project, mission, title, now)
        message = f"Add meta and scaffolding for feature {slug}"
        return Created(mission, commit_only(project, [mission.name(mission.files.meta)], message))
    except (TreadleError, OSError):
        folder = mission.files.folder
        beneath.remove_tree(folder.parent if is_first else folder)
        raise


def _write_files(project: Context, mission: Mission, title: str, now: datetime) -> None:
    mission.files.folder.mkdir(parents=True)
    meta = {
        "mission_slug": mission.slug,
        "title": title,
        "target_branch": git.head(project.repo).branch,
        "created_at": utc(now),
    }
    atomic.write(mission.files.meta, (json.dumps(meta, indent=2) + "\n").encode())
    atomic.write(
        mission.files.spec, gates.scaffold("spec").format(title=title).encode(errors="replace")
    )


def _home(project: Context) -> Path:
    ours, kitty = project.layout.mission_homes()
    return kitty if kitty.is_dir() and not ours.exists() else ours


def _check_slug(project: Context, slug: str) -> None:
    if _SLUG.fullmatch(slug) is None or len(slug) > MAX_SLUG:
        better = re.sub(r"[^a-z0-9]+", "-", slug.lower())[:MAX_SLUG].strip("-")
        raise UsageError(
            f"{slug!r} cannot name a mission; use small letters and digits joined by single"
            f" hyphens, at most {MAX_SLUG}",
            code="slug_invalid",
            fix=[f"treadle mission create {better or 'my-mission'}"],
        )
    for home in project.layout.mission_homes():
        if home.exists() and not home.is_dir():
            raise ProjectError(f"{home} is in the way: missions need a folder there")
        if (home / slug).exists():
            raise UsageError(
                f"there already is {project.layout.relative(home / slug)}; choose another name",
                code="mission_exists",
                fix=[f"treadle mission status --mission {slug}"],
            )


def set_up_plan(project: Context, mission: Mission) -> tuple[Gate, str | None]:
    """Write the plan's scaffold if there is none, commit a plan that is one.

    Returns the gate that is shut, or the plan's open one with the commit.
    """
    head, plan = gates.read_head([mission]), mission.files.plan
    entry = gates.judge(mission, head, "spec")
    if entry.missing:
        return entry, None
    if not plan.exists():
        text = gates.scaffold("plan").format(title=missions.title(mission))
        atomic.write(plan, text.encode(errors="replace"))
    if not gates.is_substantive(plan, "plan"):
        return gates.judge(mission, head, "plan"), None
    require_ready(project)
    message = f"Add plan for feature {mission.slug}"
    return Gate("plan", ()), commit_only(project, [mission.name(plan)], message)


HEADINGS = ("Tasks", "Task List", "Work Packages")
_ITEM = re.compile(r"(?P<indent>\s*)(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?(?P<text>.+)")
_ID = re.compile(r"\**(WP\d{2,})\**\s*[:.–—-]?\**\s*", re.IGNORECASE)
_EXTRA = re.compile(r"\s*\((?P<extra>(?:depends on|files)\b[^()]*)\)\s*$", re.IGNORECASE)
_UNSAFE = re.compile(r"[^a-z0-9]+")


class PlannedTask(NamedTuple):
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


def write_tasks(store: Store, mission: Mission, now: datetime) -> Written:
    """Write the files that are missing, then bring all tasks into the store."""
    _require_plan(mission)
    kept = missions.task_names(mission)
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
    found = missions.adopt_tasks(store, mission, missions.task_names(mission), now)
    return Written(
        wrote=tuple(mission.name(found[draft.id].path) for draft in drafts),
        kept=tuple(mission.name(mission.files.tasks / name) for name in kept.values()),
        tasks=tuple(mission.task_id(id_) for id_ in found),
    )


def read_tasks(plan: str) -> list[PlannedTask]:
    """Return the tasks that a plan lists; what lies below a task is its criteria."""
    text = next((found for name in HEADINGS if (found := markdown.section(plan, name))), "")
    drafts: list[PlannedTask] = []
    for item in filter(None, map(_ITEM.match, text.splitlines())):
        words = item["text"].strip()
        if len(item["indent"].expandtabs(4)) < 2:
            if is_real(words):
                drafts.append(_draft(words))
        elif drafts and is_real(words):
            drafts[-1] = drafts[-1]._replace(criteria=(*drafts[-1].criteria, words))
    return _numbered(drafts)


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
    if circle := missions.find_circle({draft.id: draft.dependencies for draft in drafts}):
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
    return PlannedTask(id_, title, _part(said, "depends on"), _part(said, "files"))


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


_ANY_TASK = "tasks/WP*.md"
_OWN = ".kittify"


class Artifact(NamedTuple):
    """One file of a mission."""

    path: str
    sha256: str
    size: int
    required: bool


class SavedDossier(NamedTuple):
    """A snapshot, where it lies, and whether it had to be written."""

    snapshot: Mapping[str, object]
    path: Path
    is_new: bool


def save_dossier(mission: Mission, now: datetime) -> SavedDossier:
    """Compute the snapshot and write it, unless the one that is there says the same."""
    path = mission.files.snapshot
    snapshot = compute_dossier(mission, now)
    known = load_dossier(path)
    if known is not None and {**known, "computed_at": snapshot["computed_at"]} == snapshot:
        return SavedDossier(known, path, False)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, (json.dumps(snapshot, indent=2) + "\n").encode())
    return SavedDossier(snapshot, path, True)


def load_dossier(path: Path) -> Mapping[str, object] | None:
    """Return the snapshot that was saved; None if there is none, or it is damaged."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def compute_dossier(mission: Mission, now: datetime) -> dict[str, object]:
    """Return the index of a mission's artifacts."""
    artifacts = sorted(_artifacts(mission))
    components = [f"{item.path}\t{item.sha256}" for item in artifacts]
    parity = "sha256:" + hashlib.sha256("\n".join(components).encode()).hexdigest()
    required = [item.path for item in artifacts if item.required]
    needed = (mission.files.spec.name, mission.files.plan.name)
    missing = [name for name in needed if name not in required]
    missing += [] if missions.task_names(mission) else [_ANY_TASK]
    optional = len(artifacts) - len(required)
    status = "incomplete" if missing else "complete"
    return {
        "mission_slug": mission.slug,
        "snapshot_id": parity.removeprefix("sha256:")[:16],
        "total_artifacts": len(artifacts),
        "required_artifacts": len(required) + len(missing),
        "required_present": len(required),
        "required_missing": missing,
        "optional_artifacts": optional,
        "optional_present": optional,
        "completeness_status": status if artifacts else "unknown",
        "parity_hash_sha256": parity,
        "parity_hash_components": components,
        "artifact_summaries": [item._asdict() for item in artifacts],
        "computed_at": utc(now),
    }


def _artifacts(mission: Mission) -> Iterator[Artifact]:
    folder = mission.files.folder
    tasks = {f"tasks/{name}" for name in missions.task_names(mission).values()}
    needed = (mission.files.spec.name, mission.files.plan.name)
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not path.is_file() or name.split("/")[0] == _OWN:
            continue
        data = path.read_bytes()
        is_required = name in needed or name in tasks
        yield Artifact(name, hashlib.sha256(data).hexdigest(), len(data), is_required)
