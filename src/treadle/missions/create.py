"""Begin a mission: a folder, a committed meta.json and the scaffold of a spec."""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from treadle.errors import ProjectError, TreadleError, UsageError
from treadle.files import atomic, remove
from treadle.git import repo as git
from treadle.ids import utc
from treadle.layout import MissionLayout
from treadle.missions import template
from treadle.missions.mission import Mission
from treadle.project.commit import commit_only, require_ready
from treadle.project.project import Project

# A task's id is `<slug>.WP01`, and ids have at most 64 characters.
MAX_SLUG = 56
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class Created(NamedTuple):
    """A new mission, and the commit that holds its meta.json."""

    mission: Mission
    commit: str | None


def create(project: Project, slug: str, title: str | None, now: datetime) -> Created:
    """Make a mission; exactly one commit, and spec.md is not in it."""
    _check(project, slug)
    require_ready(project)
    mission = Mission(slug, project.layout.root, MissionLayout(_home(project) / slug))
    title = " ".join((title or slug.replace("-", " ").capitalize()).split())
    is_first = not mission.files.folder.parent.exists()
    try:
        _write(project, mission, title, now)
        message = f"Add meta and scaffolding for feature {slug}"
        return Created(mission, commit_only(project, [mission.name(mission.files.meta)], message))
    except (TreadleError, OSError):
        folder = mission.files.folder
        remove.remove_tree(folder.parent if is_first else folder)
        raise


def _write(project: Project, mission: Mission, title: str, now: datetime) -> None:
    mission.files.folder.mkdir(parents=True)
    meta = {
        "mission_slug": mission.slug,
        "title": title,
        "target_branch": git.head(project.repo).branch,
        "created_at": utc(now),
    }
    atomic.write(mission.files.meta, (json.dumps(meta, indent=2) + "\n").encode())
    atomic.write(mission.files.spec, template.SPEC.format(title=title).encode(errors="replace"))


def _home(project: Project) -> Path:
    ours, kitty = project.layout.mission_homes()
    return kitty if kitty.is_dir() and not ours.exists() else ours


def _check(project: Project, slug: str) -> None:
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
