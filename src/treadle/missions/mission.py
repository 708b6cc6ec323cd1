"""Find missions: folders below `missions/` or `kitty-specs/`, and the one that is meant."""

import json
import os
from pathlib import Path
from typing import NamedTuple

from treadle.errors import FormatError, NotFoundError, UsageError
from treadle.ids import nearest
from treadle.layout import Layout, MissionLayout

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
    close = nearest(slug, [mission.slug for mission in known])
    if close:
        text = f"there is no mission {slug}; did you mean {close}?"
        raise NotFoundError(text, fix=[f"treadle mission status --mission {close}"])
    raise NotFoundError(f"there is no mission {slug}", fix=["treadle mission list"])


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
    meta = read_meta(mission)
    for key in ("title", "friendly_name", "mission_name"):
        if isinstance(found := meta.get(key), str) and found.strip():
            return found.strip()
    return mission.slug


def read_meta(mission: Mission) -> dict[str, object]:
    """Return a mission's meta.json; without one, nothing is known."""
    path = mission.files.meta
    if path.exists() and not path.is_file():  # opening a pipe would wait for ever
        raise _broken(mission, "must be a file")
    try:
        meta = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (ValueError, OSError, RecursionError) as error:
        raise _broken(mission, f"cannot be read: {error}") from error
    if not isinstance(meta, dict):
        raise _broken(mission, "must be a JSON object")
    return meta


def _broken(mission: Mission, what: str) -> FormatError:
    name = mission.name(mission.files.meta)
    return FormatError(f"{name} {what}", code="meta_invalid", fix=[f"git log --oneline -- {name}"])


def _in(layout: Layout, home: Path) -> list[Mission]:
    try:
        entries = [entry.name for entry in os.scandir(home) if entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    folders = [home / name for name in entries if _SAFE.issuperset(name) and name[0].isalnum()]
    found = [Mission(folder.name, layout.root, MissionLayout(folder)) for folder in folders]
    return [m for m in found if m.files.meta.exists() or m.files.spec.exists()]
