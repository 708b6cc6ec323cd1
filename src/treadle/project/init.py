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
from treadle.project import agents_md, found, gitignore, root, template, trust
from treadle.project.commit import commit_only, committed, require_ready
from treadle.project.project import Project, open_repository, refuse_tracked
from treadle.project.root import refuse_inside_run
from treadle.project.skills import SKILLS

FOLDER = "folder"
LINE = "line"
BLOCK = "block"

_TAKE_OUT = {LINE: gitignore.remove, BLOCK: agents_md.remove}


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
        if gitignore.has_line(self.content):
            return LINE
        return BLOCK if agents_md.has_block(self.content) else digest(self.content)


class Extras(NamedTuple):
    """What init writes only on request, or where it finds something."""

    agents_md: bool = False
    skills: bool = False
    tools: tuple[str, ...] = ()  # agent tools to give roles to


class Initialised(NamedTuple):
    """What init did, or with a dry run would do; paths are relative to the root."""

    root: Path
    wrote: tuple[str, ...]
    kept: tuple[str, ...]
    commit: str | None
    commands: tuple[trust.Command, ...]
    roles: Mapping[str, str] = {}
    trusted: bool = True
    foreign: tuple[str, ...] = ()


def digest(content: bytes) -> str:
    """Return a file's fingerprint."""
    return hashlib.sha256(content).hexdigest()


def take_out(mark: str, data: bytes) -> bytes | None:
    """Return a file without what init added to it; None if that was all of it."""
    return _TAKE_OUT[mark](data)


def items(layout: Layout, extras: Extras) -> Iterator[Item]:
    """Yield everything init wants to be there, with whether it already is."""
    config = found.config(template.CONFIG, extras.tools)
    yield _file(layout.config_toml, config, is_there=bool(layout.config_files()))
    yield _file(layout.home_gitignore, template.HOME_GITIGNORE)
    has_routines = layout.routines.is_dir()
    yield Item(layout.routines, None, has_routines)
    example = layout.routines / template.ROUTINE_NAME
    yield _file(example, template.ROUTINE, is_there=has_routines)
    yield Item(layout.specs, None, layout.specs.is_dir())
    lines = _read(layout.root_gitignore)
    yield Item(layout.root_gitignore, gitignore.add(lines), gitignore.has_line(lines))
    if extras.agents_md:
        text = _read(layout.agents_md)
        yield Item(layout.agents_md, agents_md.add(text), agents_md.has_block(text))
    if extras.skills:
        yield from _skills(layout)


def _skills(layout: Layout) -> Iterator[Item]:
    folders = [layout.skills.parent, layout.skills, *(layout.skills / name for name in SKILLS)]
    for folder in folders:
        yield Item(folder, None, folder.is_dir())
    for name, text in SKILLS.items():
        yield _file(layout.skills / name / "SKILL.md", text)


def init(
    cwd: Path,
    env: Mapping[str, str],
    *,
    dry_run: bool = False,
    commit: bool = False,
    accept: bool = False,
    extras: Extras = Extras(),  # noqa: B008  # a frozen record
) -> Initialised:
    """Write what is missing, trust the repository, and with `commit` commit just those files.

    Where a clone brings files that decide what runs, only `accept` trusts them.
    """
    refuse_inside_run(env)
    project = open_repository(cwd, env)
    refuse_links(project.layout, extras)
    project = refuse_tracked(project)
    loaded = load(project.layout, env)
    foreign = () if accept else trust.look(project, loaded).foreign
    extras = extras._replace(tools=found.tools(env))
    wanted = list(items(project.layout, extras))
    missing = [item for item in wanted if not item.is_there]
    fresh = {item.path for item in missing}
    if commit:
        require_ready(project)
        _refuse_mixing(project, missing)
    if not dry_run:
        _put(project, missing, is_trusted=not foreign)
    made = _commit(project, wanted) if commit and not dry_run else None
    if made and not foreign:
        trust.grant(project)
    return Initialised(
        root=project.layout.root,
        wrote=_names(project, missing),
        kept=_names(project, [item for item in wanted if item.is_there]),
        commit=made,
        commands=trust.commands(loaded),
        trusted=not foreign,
        foreign=foreign,
        roles={} if project.layout.config_toml not in fresh else found.roles(extras.tools),
    )


def refuse_links(layout: Layout, extras: Extras = Extras()) -> None:  # noqa: B008  # frozen
    """Never write or remove through a link that a repository may have brought."""
    root.refuse_links(layout)
    paths = [layout.root_gitignore]
    paths += [layout.agents_md] if extras.agents_md else []
    paths += [layout.skills.parent, layout.skills] if extras.skills else []
    for path in paths:
        if path.is_symlink():
            raise ProjectError(f"{path} is a link; replace it by a file or folder of its own")
    for path in (layout.home, layout.routines, layout.specs):
        if path.exists() and not path.is_dir():
            raise ProjectError(f"{path} is in the way: treadle needs a folder there")


def _file(path: Path, text: str, *, is_there: bool | None = None) -> Item:
    return Item(path, text.encode(), path.exists() if is_there is None else is_there)


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _put(project: Project, missing: list[Item], *, is_trusted: bool) -> None:
    for item in missing:
        if item.content is None:
            item.path.mkdir(parents=True, exist_ok=True)
        else:
            item.path.parent.mkdir(parents=True, exist_ok=True)
            mode = item.path.stat().st_mode & 0o777 if item.path.exists() else 0o644
            atomic.write(item.path, item.content, mode=mode)
    wrote = {project.layout.relative(item.path): item.mark for item in missing}
    (trust.grant if is_trusted else trust.note)(project, wrote)


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
    if item.mark in _TAKE_OUT:
        return _is_all_new(project, item)
    return project.layout.relative(item.path) not in known


def _refuse_mixing(project: Project, missing: list[Item]) -> None:
    for item in missing:
        if item.mark in _TAKE_OUT and not _is_all_new(project, item):
            name = project.layout.relative(item.path)
            raise BlockedError(
                f"{name} has changes of yours that --commit would take along; commit them first",
                fix=[f"git add {name}", f"git commit -m 'Edit {name}' {name}"],
            )


def _is_all_new(project: Project, item: Item) -> bool:
    """Tell whether the line or block is the only difference to the last commit."""
    content = item.path.read_bytes() if item.is_there else item.content or b""
    before = committed(project, project.layout.relative(item.path))
    return before != content and take_out(item.mark, content) == before
