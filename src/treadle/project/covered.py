"""What of a repository runs, schedules, prompts or sets policy, and whose its content is."""

import difflib
import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from treadle.config.schema import Config
from treadle.config.trusted import Entry
from treadle.errors import FormatError
from treadle.files import walk
from treadle.git import arrivals, include, rules
from treadle.git import repo as git
from treadle.git.arrivals import MADE_HERE, Arrivals
from treadle.layout import CONFIG_NAMES, HOME_NAME
from treadle.project.project import Project

_SHA = "sha256:"
_LANDINGS = ("treadle: land ", "treadle: undo ")
_MAX_FILE = 64 << 20
_MAX_KEPT = 40
_MAX_LINES = 400


class Seen(NamedTuple):
    """What the covered files say now, on disk and in the last commit, and which are not yours."""

    head: str | None
    files: Mapping[str, tuple[str, ...]]
    foreign: tuple[str, ...]
    is_known: bool = False


class Change(NamedTuple):
    """A covered file that somebody else's commit brought, against what was accepted before."""

    file: str
    diff: str


def look(project: Project, config: Config, entry: Entry | None) -> Seen:
    """Compare every covered file with what was accepted; git is asked only where that differs.

    Yours is what you changed in the work tree or committed in this clone, as long as it began
    with nothing or with something accepted. What a pull, a merge or a checkout brought is not.
    """
    head, accepted = git.head(project.repo).commit, entry.files if entry else {}
    on_disk = {name: mark for name in _names(project, config) if (mark := _mark(project, name))}
    same = all(mark in accepted.get(name, ()) for name, mark in on_disk.items())
    if entry and same and head and head == entry.head:
        return Seen(head, {}, (), is_known=True)
    wanted = {*on_disk, *_programs(project, config)}
    blobs = arrivals.committed(project.repo, head, wanted) if head else {}
    marks = {
        name: tuple(mark for mark in (on_disk.get(name), blobs.get(name)) if mark)
        for name in wanted
        if name in on_disk or name in blobs
    }
    doubtful = {name: blob for name, blob in blobs.items() if blob not in accepted.get(name, ())}
    foreign = tuple(_foreign(project, config, doubtful, accepted)) if doubtful else ()
    return Seen(head, marks, foreign)


def accept(seen: Seen, before: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the record with what was seen in it; a branch that comes back is known again."""
    kept = dict(before)
    for name, marks in seen.files.items():
        old = [mark for mark in kept.get(name, ()) if mark not in marks]
        kept[name] = (*old, *marks)[-_MAX_KEPT:]
    return kept


def changes(project: Project, seen: Seen, entry: Entry | None) -> Iterator[Change]:
    """Yield what somebody else's commits brought, as a diff against what was accepted last."""
    for name in seen.foreign:
        known = entry.files.get(name, ()) if entry else ()
        blobs = [mark for mark in known if not mark.startswith(_SHA)]
        before = arrivals.content(project.repo, blobs[-1]) if blobs else b""
        yield Change(name, _diff(name, before or b"", _read(project, name) or b""))


def _foreign(
    project: Project,
    config: Config,
    doubtful: Mapping[str, str],
    accepted: Mapping[str, tuple[str, ...]],
) -> Iterator[str]:
    ours = Arrivals(project.repo, doubtful, MADE_HERE)
    # A landing that changed one of these waited on the desk for you, unless a budget let it pass.
    asked = () if config.budgets.max_risky_files else tuple(filter(rules.is_own_config, doubtful))
    landed = Arrivals(project.repo, asked, (*MADE_HERE, *_LANDINGS)) if asked else ours
    for name, blob in sorted(doubtful.items()):
        known = accepted.get(name, ())
        if not (landed if name in asked else ours).is_own(name, blob, known):
            yield name


def _names(project: Project, config: Config) -> Collection[str]:
    layout = project.layout
    names = {f"{HOME_NAME}/{name}" for name in CONFIG_NAMES} | {include.NAME}
    for folder in (layout.routines, layout.roles, layout.cron):
        names |= {layout.relative(path) for path in _files(folder)}
    names |= {name for name in project.tracked or () if name.startswith(f"{HOME_NAME}/inbox/")}
    names |= _programs(project, config)
    return names | {inside for name in names if (inside := _target(project, name))}


def _files(folder: Path) -> Iterator[Path]:
    """Yield every file and link below a folder; a linked folder is not entered."""
    for place, folders, files in os.walk(folder):
        above = Path(place)
        yield from (above / name for name in files)
        yield from (above / name for name in folders if (above / name).is_symlink())


def _programs(project: Project, config: Config) -> set[str]:
    """Return the words of commands that can be files of the repository."""
    hooks, router = config.hooks, config.commands.router
    lines = [hooks.beforeAll, hooks.afterAll, hooks.beforeEach, hooks.afterEach]
    lines += [config.workspace.setup, tuple(router.split()) if isinstance(router, str) else router]
    lines += [line for agent in config.agents.values() for line in (agent.cmd, agent.run)]
    words = {word for line in lines for word in line or ()}
    paths = {os.path.normpath(project.layout.root / word) for word in words if "\0" not in word}
    inside = [path for path in paths if path.startswith(f"{project.layout.root}/")]
    return {project.layout.relative(Path(path)) for path in inside}


def _target(project: Project, name: str) -> str | None:
    """Return the file of the repository that a link leads to."""
    path, root = project.layout.root / name, project.layout.root.resolve()
    if not path.is_symlink():
        return None
    real = Path(os.path.realpath(path))
    return real.relative_to(root).as_posix() if real.is_relative_to(root) else None


def _mark(project: Project, name: str) -> str | None:
    """Return the digest of a file, or of where a link points; None if there is no such file."""
    path = project.layout.root / name
    data = os.fsencode(path.readlink()) if path.is_symlink() else _read(project, name)
    if data is not None:
        return _SHA + hashlib.sha256(data).hexdigest()
    # A pipe, or too big to read: it is there all the same, and its commit is looked at.
    return _SHA if os.path.lexists(path) and not walk.is_folder(path) else None


def _read(project: Project, name: str) -> bytes | None:
    try:
        return walk.read(project.layout.root / name, max_bytes=_MAX_FILE)
    except FormatError:
        return None


def _diff(name: str, before: bytes, after: bytes) -> str:
    old, new = (text.decode(errors="replace").splitlines() for text in (before, after))
    lines = list(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm=""))
    rest = [f"({len(lines) - _MAX_LINES} more lines)"] if len(lines) > _MAX_LINES else []
    return "\n".join([*lines[:_MAX_LINES], *rest])
