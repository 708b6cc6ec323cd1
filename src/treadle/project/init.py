"""Set a repository up: a handful of files, each one named, none overwritten."""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from treadle.config.load import load
from treadle.errors import BlockedError, ProjectError
from treadle.files import atomic
from treadle.git import repo as git
from treadle.layout import Layout
from treadle.project import gitignore, template, trust
from treadle.project.commit import commit_only, committed, require_ready
from treadle.project.project import Project, open_repository
from treadle.project.root import refuse_inside_run

FOLDER = "folder"
LINE = "line"


class Item(NamedTuple):
    """One thing that init puts in place: a file's new content, or a folder (None)."""

    path: Path
    content: bytes | None
    is_there: bool

    @property
    def mark(self) -> str:
        """Return what the record keeps, to know the item again when it is removed."""
        if self.content is None:
            return FOLDER
        return LINE if gitignore.has_line(self.content) else digest(self.content)


class Initialised(NamedTuple):
    """What init did, or with a dry run would do; paths are relative to the root."""

    root: Path
    wrote: tuple[str, ...]
    kept: tuple[str, ...]
    commit: str | None
    commands: tuple[trust.Command, ...]


def digest(content: bytes) -> str:
    """Return a file's fingerprint."""
    return hashlib.sha256(content).hexdigest()


def items(layout: Layout) -> Iterator[Item]:
    """Yield everything init wants to be there, with whether it already is."""
    yield _file(layout.config_toml, template.CONFIG, is_there=bool(layout.config_files()))
    yield _file(layout.home_gitignore, template.HOME_GITIGNORE)
    has_routines = layout.routines.is_dir()
    yield Item(layout.routines, None, has_routines)
    example = layout.routines / template.ROUTINE_NAME
    yield _file(example, template.ROUTINE, is_there=has_routines)
    yield Item(layout.specs, None, layout.specs.is_dir())
    lines = _read(layout.root_gitignore)
    yield Item(layout.root_gitignore, gitignore.add(lines), gitignore.has_line(lines))


def init(
    cwd: Path, env: Mapping[str, str], *, dry_run: bool = False, commit: bool = False
) -> Initialised:
    """Write what is missing, trust the repository, and with `commit` commit just those files."""
    refuse_inside_run(env)
    project = open_repository(cwd, env)
    refuse_links(project.layout)
    trust.refuse_tracked(project)
    commands = trust.commands(load(project.layout, env))
    wanted = list(items(project.layout))
    missing = [item for item in wanted if not item.is_there]
    if commit:
        require_ready(project)
        _refuse_mixing(project, missing)
    if not dry_run:
        _put(project, missing)
    return Initialised(
        root=project.layout.root,
        wrote=_names(project, missing),
        kept=_names(project, [item for item in wanted if item.is_there]),
        commit=_commit(project, wanted) if commit and not dry_run else None,
        commands=commands,
    )


def refuse_links(layout: Layout) -> None:
    """Never write or remove through a link that a repository may have brought."""
    for path in (layout.home, layout.routines, layout.home_gitignore, layout.root_gitignore):
        if path.is_symlink():
            raise ProjectError(f"{path} is a link; replace it by a file or folder of its own")
    for path in (layout.home, layout.routines, layout.specs):
        if path.exists() and not path.is_dir():
            raise ProjectError(f"{path} is in the way: treadle needs a folder there")


def _file(path: Path, text: str, *, is_there: bool | None = None) -> Item:
    return Item(path, text.encode(), path.exists() if is_there is None else is_there)


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _put(project: Project, missing: list[Item]) -> None:
    for item in missing:
        if item.content is None:
            item.path.mkdir(parents=True, exist_ok=True)
        else:
            item.path.parent.mkdir(parents=True, exist_ok=True)
            mode = item.path.stat().st_mode & 0o777 if item.path.exists() else 0o644
            atomic.write(item.path, item.content, mode=mode)
    trust.grant(project, {project.layout.relative(item.path): item.mark for item in missing})


def _names(project: Project, some: list[Item]) -> tuple[str, ...]:
    return tuple(
        project.layout.relative(item.path) + ("/" if item.content is None else "") for item in some
    )


def _commit(project: Project, wanted: list[Item]) -> str | None:
    """Commit init's files that git does not know yet, and the line if it is all that is new."""
    files = [item for item in wanted if item.content is not None and item.path.exists()]
    known = set(git.tracked(project.repo, _names(project, files)))
    fresh = [item for item in files if _is_fresh(project, item, known)]
    return commit_only(project, _names(project, fresh), "Set up treadle") if fresh else None


def _is_fresh(project: Project, item: Item, known: set[str]) -> bool:
    if item.mark == LINE:
        return _is_all_new(project, item)
    return project.layout.relative(item.path) not in known


def _refuse_mixing(project: Project, missing: list[Item]) -> None:
    for item in missing:
        if item.mark == LINE and not _is_all_new(project, item):
            name = project.layout.relative(item.path)
            raise BlockedError(
                f"{name} has changes of yours that --commit would take along; commit them first",
                fix=[f"git add {name}", f"git commit -m 'Edit {name}' {name}"],
            )


def _is_all_new(project: Project, item: Item) -> bool:
    """Tell whether the line is the only difference to the last commit."""
    content = item.path.read_bytes() if item.is_there else item.content or b""
    before = committed(project, project.layout.relative(item.path))
    return not gitignore.has_line(before) and gitignore.remove(content) == before
