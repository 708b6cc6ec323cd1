"""Take treadle out of a repository: what init wrote and nobody changed, and nothing else."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from treadle import layout as user_paths
from treadle.errors import ConfigError
from treadle.files import atomic, beneath
from treadle.layout import CONFIG_NAMES, Layout
from treadle.project import setup, trust
from treadle.project.context import Context, open_repository, reread, workspaces
from treadle.project.root import refuse_inside_run

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


class _Plan(NamedTuple):
    trees: list[Path]
    files: list[Path]
    folders: list[Path]
    edits: list[tuple[Path, str]]
    kept: list[Kept]


def uninstall(
    cwd: Path, env: Mapping[str, str], *, purge: bool = False, dry_run: bool = False
) -> Uninstalled:
    """Remove unchanged files, workspaces and the trust record; run data only with `purge`."""
    refuse_inside_run(env)
    project = open_repository(cwd, env)
    setup.refuse_links(project.layout)
    plan = _plan(project, purge)
    removed = list(_names(project, plan))
    if not dry_run:
        removed.extend(_carry_out(project, plan))
    return Uninstalled(project.layout.root, tuple(removed), tuple(plan.kept))


def _plan(project: Context, purge: bool) -> _Plan:
    layout = project.layout
    plan = _Plan([], [], [], [], [])
    data = run_data(layout)
    plan.trees.extend(path for path in _workspaces(project) if path.exists())
    if layout.locks.exists():
        plan.trees.append(layout.locks)
    if purge:
        plan.trees.extend(data)
    else:
        plan.kept.extend(
            Kept(layout.relative(path), "made by runs; --purge removes it") for path in data
        )
    return _plan_items(project, plan, keeps_data=bool(data) and not purge)


def _plan_items(project: Context, plan: _Plan, *, keeps_data: bool) -> _Plan:
    layout, record = project.layout, trust.record(project)
    for item in setup.items(layout, setup.InitExtras(agents_md=True, skills=True)):
        name = layout.relative(item.path)
        mark = record.wrote.get(name) if record and record.wrote else item.mark
        if mark is None or not item.path.exists():
            continue
        if item.content is None:
            plan.folders.append(item.path)
        elif mark in setup.ADDITIONS:
            plan.edits.extend([(item.path, mark)] if item.is_there else [])
        elif item.path == layout.home_gitignore and keeps_data:
            plan.kept.append(Kept(name, "keeps the data of runs out of git"))
        elif setup.digest(item.path.read_bytes()) in (mark, item.mark):
            plan.files.append(item.path)
        else:
            plan.kept.append(Kept(name, "changed since init wrote it"))
    return plan


def run_data(layout: Layout) -> list[Path]:
    """Return what runs left below `.treadle/`, without the locks."""
    if not layout.home.is_dir():
        return []
    ours = {*_WRITTEN_BY_PEOPLE, layout.locks.name}
    return sorted(path for path in layout.home.iterdir() if path.name not in ours)


def _workspaces(project: Context) -> Iterator[Path]:
    yield user_paths.workspace_root(project.env, project.layout.root)
    with contextlib.suppress(ConfigError):
        known = reread(project)
        if known.settings.config.workspace.root is not None:
            yield workspaces(known)


def _names(project: Context, plan: _Plan) -> Iterator[str]:
    for path in (*plan.trees, *plan.files):
        inside = path.is_relative_to(project.layout.root)
        yield project.layout.relative(path) if inside else str(path)
    for path, mark in plan.edits:
        what = "one line" if mark == "line" else "treadle's block"
        yield f"{project.layout.relative(path)} ({what})"
    if trust.record(project) is not None:
        yield f"{user_paths.trust_file(project.env)} (the record of this repository)"


def _carry_out(project: Context, plan: _Plan) -> Iterator[str]:
    """Remove in an order in which a crash can be repeated: the record goes last."""
    for tree in plan.trees:
        beneath.remove_tree(tree)
    for file in plan.files:
        file.unlink()
    for path, mark in plan.edits:
        _take_out(path, mark)
    folders = sorted(plan.folders, key=lambda path: -len(path.parts))
    for folder in (*folders, project.layout.home):
        with contextlib.suppress(OSError):  # somebody else's things are in it
            folder.rmdir()
            yield project.layout.relative(folder) + "/"
    trust.revoke(project)


def _take_out(path: Path, mark: str) -> None:
    before = setup.ADDITIONS[mark].take_out(path.read_bytes())
    if before is None:
        path.unlink()
    else:
        atomic.write(path, before, mode=path.stat().st_mode & 0o777)
