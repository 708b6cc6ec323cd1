"""Set a repository up and take treadle out of it again: every file is named, none overwritten."""

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from treadle import layout as user_paths
from treadle import project as projects
from treadle.contract import ROLES
from treadle.errors import BlockedError, ConfigError, ProjectError, argument
from treadle.files import atomic, beneath, walk
from treadle.git import call, refs
from treadle.git import repo as git
from treadle.ids import is_run_id
from treadle.layout import CONFIG_NAMES, Layout, find_work_tree
from treadle.project import refuse_inside_run, trust
from treadle.project.context import (
    Context,
    commit_only,
    committed,
    ignored,
    open_folder,
    open_repository,
    refuse_tracked,
    require_ready,
    reread,
    tracked,
    workspaces,
)
from treadle.text import name_some

DATA = Path(__file__).with_name("data")
SKILLS = ("treadle-mail", "treadle-next", "treadle-review", "treadle-run", "treadle-spec")
FOLDER = "folder"


class Addition(NamedTuple):
    """A text that goes to the end of a file of the user's and can be taken out without a trace."""

    text: bytes
    begin: bytes
    end: bytes
    gap: int = 0  # empty lines before it

    def is_in(self, data: bytes | None) -> bool:
        """Tell whether it is there already, also one that another treadle wrote."""
        return self.begin in [line.strip() for line in (data or b"").splitlines()]

    def add(self, data: bytes | None) -> bytes:
        """Return the file with the text at its end; None stands for no file.

        Each way a file can end gets its own way to add, so that `take_out` can tell them apart.
        """
        if data is None:
            return self.text
        newline = b"\r\n" if b"\r\n" in data else b"\n"
        text = self.text.replace(b"\n", newline)
        if data.endswith(b"\n"):
            return data + newline * self.gap + text
        return data + newline * (self.gap + 1 if data else 0) + text.removesuffix(newline)

    def take_out(self, data: bytes) -> bytes | None:
        """Return the file as it was before `add`; None means it was not there."""
        begin, end = data.find(self.begin), data.find(self.end)
        if begin < 0 or end < begin:
            return data
        for before in (None, *(data[: max(begin - length, 0)] for length in (0, 1, 2, 4))):
            if self.add(before) == data:
                return before
        return data[:begin] + data[end + len(self.end) :].lstrip(b"\r\n")


_DOSSIERS = b"**/.kittify/dossiers/*/snapshot-latest.json"
IGNORED = Addition(_DOSSIERS + b"\n", _DOSSIERS, _DOSSIERS)
_BLOCK = (DATA / "agents_block.md").read_bytes()
BLOCK = Addition(_BLOCK, b"<!-- treadle:begin -->", b"<!-- treadle:end -->", gap=1)
# How the record of what was written calls them.
ADDITIONS = {"line": IGNORED, "block": BLOCK}


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
        found = (name for name, addition in ADDITIONS.items() if addition.is_in(self.content))
        return next(found, digest(self.content))


class InitExtras(NamedTuple):
    """What init writes only on request, or where it finds something."""

    agents_md: bool = False
    skills: bool = False
    tools: tuple[str, ...] = ()  # agent tools with a login, to give roles to


class Initialised(NamedTuple):
    """What init did, or with a dry run would do; paths are relative to the root."""

    root: Path
    wrote: tuple[str, ...]
    kept: tuple[str, ...]
    commit: str | None
    commands: tuple[trust.BroughtCommand, ...]
    roles: Mapping[str, str] = {}
    is_new: bool = False  # there was no configuration
    trusted: bool = True
    foreign: tuple[str, ...] = ()
    outer: Path | None = None  # a project around this one
    ignored: tuple[str, ...] = ()  # not committed, because git ignores it


def digest(content: bytes) -> str:
    """Return a file's fingerprint."""
    return hashlib.sha256(content).hexdigest()


def items(layout: Layout, extras: InitExtras) -> Iterator[Item]:
    """Yield everything init wants to be there, with whether it already is."""
    yield Item(layout.config_toml, configuration(extras.tools), bool(layout.config_files()))
    yield _file(layout.home_gitignore, "home.gitignore")
    has_routines = layout.routines.is_dir()
    yield _folder(layout.routines)
    yield _file(layout.routines / "example.sh.sample")._replace(is_there=has_routines)
    yield _folder(layout.specs)
    yield _added(layout.root_gitignore, IGNORED)
    if extras.agents_md:
        yield _added(layout.agents_md, BLOCK)
    for home in _skill_homes(layout) if extras.skills else ():
        yield from map(_folder, (home.parent, home))
        for name in SKILLS:
            yield _folder(home / name)
            yield _file(home / name / "SKILL.md", f"skills/{name}.md")


def _skill_homes(layout: Layout) -> tuple[Path, ...]:
    """Return where agents look for skills; a folder that leads to another one counts once."""
    first, second = layout.skills, layout.claude_skills
    return (first,) if second.resolve() == first.resolve() else (first, second)


def instructions(topic: str) -> str:
    """Return what an agent should know: the words of a skill, or of the block in AGENTS.md."""
    if topic == "overview":
        return "\n".join(_BLOCK.decode().splitlines()[1:-1])
    return (DATA / "skills" / f"treadle-{topic}.md").read_text().split("---\n", 2)[2]


def configuration(found: Sequence[str] = ()) -> bytes:
    """Return the sample configuration, with roles for the tools that were found."""
    text = (DATA / "sample.toml").read_text()
    if not found:
        return text.encode()
    names = ", ".join(found)
    lines = [f"# Found with a login: {names}. What they would run: treadle agent show NAME"]
    for role, tool in _roles(found).items():
        lines += [f"[agents.{role}]", f'use = "{tool}"', ""]
    for tool in found:
        lines += [f"[agents.{tool}]", f'type = "{tool}"', ""]
    return (text.rstrip() + "\n\n" + "\n".join(lines).rstrip() + "\n").encode()


def _roles(found: Sequence[str]) -> dict[str, str]:
    """Return who plays which role; who checks is not who worked, if there are two."""
    if not found:
        return {}
    return {role: found[1] if role == "check" and len(found) > 1 else found[0] for role in ROLES}


def init(
    cwd: Path,
    env: Mapping[str, str],
    *,
    dry_run: bool = False,
    commit: bool = False,
    accept: bool = False,
    extras: InitExtras = InitExtras(),  # noqa: B008  # a frozen record
    here: bool = False,
) -> Initialised:
    """Write what is missing, trust the repository, and with `commit` commit just those files.

    Where a clone brings files that decide what runs, only `accept` trusts them. The project is
    the one around `cwd`, a new one of the whole repository, or with `here` of this folder alone.
    """
    refuse_inside_run(env)
    project = _chosen(cwd, env, here)
    refuse_links(project.layout, extras)
    project = reread(refuse_tracked(project))
    foreign = () if accept else trust.look(project).foreign
    wanted = _outdated(project, list(items(project.layout, extras)))
    missing = [item for item in wanted if not item.is_there]
    is_new = not project.layout.config_files()
    if commit:
        require_ready(project)
        _refuse_mixing(project, missing)
    if not dry_run:
        _put(project, missing, is_trusted=not foreign)
    made, hidden = _commit(project, wanted) if commit and not dry_run else (None, ())
    if made and not foreign:
        trust.grant(project)
    return Initialised(
        root=project.layout.root,
        wrote=_names(project, missing),
        kept=_names(project, [item for item in wanted if item.is_there]),
        commit=made,
        ignored=hidden,
        commands=trust.commands(project.settings),
        trusted=not foreign,
        foreign=foreign,
        outer=_outer(project),
        roles=_roles(extras.tools) if is_new else {},
        is_new=is_new,
    )


def _outdated(project: Context, wanted: list[Item]) -> list[Item]:
    """Let skills be written anew that another treadle wrote and nobody has changed since."""
    record = trust.record(project)
    known = (record.wrote if record else None) or {}

    def is_ours(item: Item) -> bool:
        mark = known.get(project.layout.relative(item.path)) if item.is_there else None
        is_skill = any(home in item.path.parents for home in _skill_homes(project.layout))
        is_old = is_skill and item.content is not None and mark not in (None, item.mark)
        return is_old and item.path.is_file() and digest(item.path.read_bytes()) == mark

    return [item._replace(is_there=item.is_there and not is_ours(item)) for item in wanted]


def _chosen(cwd: Path, env: Mapping[str, str], here: bool) -> Context:
    """Return what is set up: a folder that is part of a repository must be asked for."""
    folder = cwd.resolve()
    if here:
        return open_folder(projects.layout_at(projects.find_tree(folder), folder), env)
    project = open_repository(cwd, env)
    root = project.layout.root
    if root == folder or project.layout.config_files():
        return project
    raise BlockedError(
        f"{folder} is a folder of the repository {root}: say which of the two becomes the project",
        code="which_project",
        fix=["treadle init --here", f"cd {argument(str(root))} && treadle init"],
    )


def _outer(project: Context) -> Path | None:
    """Return the project that a project in a folder lies in."""
    if not project.repo.prefix:
        return None
    around = projects.find_layout(project.layout.root.parent, {})
    return around.root if around.config_files() else None


def refuse_links(layout: Layout, extras: InitExtras = InitExtras()) -> None:  # noqa: B008  # frozen
    """Never write or remove through a link that a repository may have brought."""
    projects.refuse_links(layout)
    paths = [layout.root_gitignore]
    paths += [layout.agents_md] if extras.agents_md else []
    homes = _skill_homes(layout) if extras.skills else ()
    paths += [path for home in homes for path in (home.parent, home)]
    for path in paths:
        if path.is_symlink():
            raise ProjectError(f"{path} is a link; replace it with a real file or folder")
    for path in (layout.home, layout.routines, layout.specs):
        if (path.is_symlink() or path.exists()) and not path.is_dir():
            raise ProjectError(f"{path} is in the way: treadle needs a folder there")
    for path in (layout.root_gitignore, layout.agents_md):
        if path.exists() and not path.is_file():
            text = f"{path} is in the way: it must be a plain file"
            raise ProjectError(text, fix=[f"rm -r {argument(str(path))}"])


def _file(path: Path, data: str | None = None) -> Item:
    return Item(path, (DATA / (data or path.name)).read_bytes(), path.exists())


def _folder(path: Path) -> Item:
    return Item(path, None, path.is_dir())


def _added(path: Path, addition: Addition) -> Item:
    data = path.read_bytes() if path.exists() else None
    return Item(path, addition.add(data), addition.is_in(data))


def _put(project: Context, missing: list[Item], *, is_trusted: bool) -> None:
    for item in missing:
        if item.content is None:
            item.path.mkdir(parents=True, exist_ok=True)
        else:
            item.path.parent.mkdir(parents=True, exist_ok=True)
            mode = item.path.stat().st_mode & 0o777 if item.path.exists() else 0o644
            atomic.write(item.path, item.content, mode=mode)
    wrote = {project.layout.relative(item.path): item.mark for item in missing}
    (trust.grant if is_trusted else trust.note)(project, wrote)


def _names(project: Context, some: list[Item]) -> tuple[str, ...]:
    return tuple(
        project.layout.relative(item.path) + ("/" if item.content is None else "") for item in some
    )


def _commit(project: Context, wanted: list[Item]) -> tuple[str | None, tuple[str, ...]]:
    """Commit init's files that git does not know yet, and an addition if it is all that is new.

    Returns the commit, and which files are none of git's business because it ignores them.
    """
    root = project.layout.root
    files = [item for item in wanted if item.content is not None and item.path.exists()]
    files = [item for item in files if item.path.is_relative_to(root)]
    known = set(tracked(project, _names(project, files)))
    fresh = [item for item in files if _is_fresh(project, item, known)]
    names = _names(project, fresh)
    hidden = ignored(project, names)
    names = tuple(name for name in names if name not in hidden)
    return commit_only(project, names, "Set up treadle") if names else None, hidden


def _is_fresh(project: Context, item: Item, known: set[str]) -> bool:
    if item.mark in ADDITIONS:
        return _is_all_new(project, item)
    return not item.is_there or project.layout.relative(item.path) not in known


def _refuse_mixing(project: Context, missing: list[Item]) -> None:
    for item in missing:
        if item.mark in ADDITIONS and not _is_all_new(project, item):
            name = project.layout.relative(item.path)
            raise BlockedError(
                f"{name} has changes of yours that --commit would take along; commit them first",
                fix=[f"git add {name}", f"git commit -m 'Edit {name}' {name}"],
            )


def _is_all_new(project: Context, item: Item) -> bool:
    """Tell whether the addition is the only difference to the last commit."""
    content = item.path.read_bytes() if item.is_there else item.content or b""
    before = committed(project, project.layout.relative(item.path))
    return before != content and ADDITIONS[item.mark].take_out(content) == before


# What people write below `.treadle/`; everything else there was made by runs.
_WRITTEN_BY_PEOPLE = {".gitignore", *CONFIG_NAMES, "routines", "roles", "cron"}


class Kept(NamedTuple):
    """Something that stays, and why."""

    path: str
    reason: str


class Uninstalled(NamedTuple):
    """What uninstall removed, or with a dry run would remove, and what stays."""

    root: Path
    removed: tuple[str, ...]
    kept: tuple[Kept, ...]


class _Removal(NamedTuple):
    path: Path
    how: str = "whole"  # or FOLDER, if it is empty, or what was added to a file


def uninstall(
    cwd: Path, env: Mapping[str, str], *, purge: bool = False, dry_run: bool = False
) -> Uninstalled:
    """Remove unchanged files, workspaces and the trust record; run data only with `purge`."""
    refuse_inside_run(env)
    project = open_repository(cwd, env)
    refuse_links(project.layout)
    _refuse_linked(project)
    if purge:
        _refuse_unfinished(project)
    plan = list(_plan(project, purge))
    goes = [item for item in plan if isinstance(item, _Removal)]
    branches = _branches(project) if purge else {}
    removed = list(_shown(project, goes))
    if branches:
        names = [name.removeprefix("refs/heads/") for name in branches]
        removed.append(f"branches of runs, {len(names)} in all: {name_some(names)}")
    if not dry_run:
        _delete(project, branches)
        removed.extend(_carry_out(project, goes))
    kept = tuple(item for item in plan if isinstance(item, Kept))
    return Uninstalled(project.layout.root, tuple(removed), kept)


def _refuse_linked(project: Context) -> None:
    """Leave what work trees share to the main one, if there is one."""
    shared = project.layout.shared
    if shared != project.layout.root and find_work_tree(shared):
        raise BlockedError(
            f"{project.layout.root} is a linked work tree: what treadle keeps lies in {shared}",
            code="linked_work_tree",
            fix=[f"cd {argument(str(shared))} && treadle uninstall"],
        )


def _refuse_unfinished(project: Context) -> None:
    """Keep what somebody has written in a worktree and not committed."""
    for path in sorted(project.layout.worktrees.glob("*/.git")):
        if dirty := git.dirty_files(path.parent):
            where = argument(str(path.parent))
            raise BlockedError(
                f"the worktree {path.parent} has uncommitted files: {name_some(dirty)};"
                " they would be lost",
                code="dirty_worktree",
                fix=[f"git -C {where} status", f"git -C {where} stash push -u"],
            )


def _plan(project: Context, purge: bool) -> Iterator[_Removal | Kept]:
    layout = project.layout
    data = run_data(layout)
    for path in (*_workspace_folders(project), layout.locks):
        if path.exists():
            yield _Removal(path)
    for path in data:
        why = "made by runs; --purge removes it"
        yield _Removal(path) if purge else Kept(layout.relative(path), why)
    record = trust.record(project)
    for item in items(layout, InitExtras(agents_md=True, skills=True)):
        mark = (
            record.wrote.get(layout.relative(item.path)) if record and record.wrote else item.mark
        )
        if mark is not None and item.path.exists():
            yield from _plan_item(layout, item, mark, keeps_data=bool(data) and not purge)


def _plan_item(
    layout: Layout, item: Item, mark: str, *, keeps_data: bool
) -> Iterator[_Removal | Kept]:
    name = layout.relative(item.path)
    if item.content is None:
        yield _Removal(item.path, FOLDER)
    elif mark in ADDITIONS:
        if item.is_there:
            yield _Removal(item.path, mark)
    elif item.path == layout.home_gitignore and keeps_data:
        yield Kept(name, "keeps the data of runs out of git")
    elif item.path.is_file() and digest(item.path.read_bytes()) in (mark, item.mark):
        yield _Removal(item.path)
    else:
        yield Kept(name, "changed since init wrote it")


def run_data(layout: Layout) -> list[Path]:
    """Return what runs left below `.treadle/`, without the locks."""
    if not layout.home.is_dir():
        return []
    ours = {*_WRITTEN_BY_PEOPLE, layout.locks.name}
    return sorted(path for path in layout.home.iterdir() if path.name not in ours)


def _workspace_folders(project: Context) -> Iterator[Path]:
    yield user_paths.workspace_root(project.env, project.layout.shared)
    with contextlib.suppress(ConfigError):
        known = reread(project)
        if known.settings.config.workspace.root is not None:
            yield workspaces(known)


def _branches(project: Context) -> dict[str, str]:
    """Return what git keeps of this project's runs, by name; a branch somebody stands on stays."""
    runs, found = {*filter(is_run_id, walk.names(project.layout.runs))}, dict[str, str]()
    args = ["for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/treadle"]
    for line in call.out(args, project.repo.place).decode(errors="replace").splitlines():
        name, _, commit = line.partition(" ")
        if any(run_id in name for run_id in runs):
            found[name] = commit
    return {
        name: commit
        for name, commit in found.items()
        if not refs.work_trees(project.repo, name.removeprefix("refs/heads/"))
    }


def _delete(project: Context, branches: Mapping[str, str]) -> None:
    """Delete them all, unless one has moved since."""
    lines = "".join(f"delete {name} {commit}\n" for name, commit in branches.items())
    call.out(["update-ref", "--stdin"], project.repo.place, stdin=lines.encode())


def _shown(project: Context, goes: list[_Removal]) -> Iterator[str]:
    """Yield what is named before it goes; whether a folder is empty then, nobody knows yet."""
    for path, how in goes:
        part = {"line": " (one line)", "block": " (treadle's block)"}.get(how, "")
        if how != FOLDER:
            yield project.layout.shown(path) + part
    if trust.record(project) is not None:
        yield f"{user_paths.trust_file(project.env)} (the record of this repository)"


def _carry_out(project: Context, goes: list[_Removal]) -> Iterator[str]:
    """Remove in an order in which a crash can be repeated: the record goes last."""
    for path, how in goes:
        if how in ADDITIONS:
            _take_out(path, how)
        elif how != FOLDER:
            beneath.remove_tree(path)
    call.run(["worktree", "prune"], project.repo.place)
    folders = sorted((path for path, how in goes if how == FOLDER), key=lambda it: -len(it.parts))
    for folder in (*folders, project.layout.home):
        with contextlib.suppress(OSError):  # somebody else's things are in it
            folder.rmdir()
            yield project.layout.relative(folder) + "/"
    trust.revoke(project)


def _take_out(path: Path, mark: str) -> None:
    before = ADDITIONS[mark].take_out(path.read_bytes())
    if before is None:
        path.unlink()
    else:
        atomic.write(path, before, mode=path.stat().st_mode & 0o777)
