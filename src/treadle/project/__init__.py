"""Find the project from where the user stands, without starting git."""

import os
import shlex
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import treadle
from treadle.config import read_early, require_trust
from treadle.errors import BlockedError, ProjectError, argument
from treadle.layout import MAIL_ROOT, Layout, WorkTree, find_work_tree


class Place(NamedTuple):
    """A project's paths, the intents it adds to the standard ones, how long `next` lends a task."""

    layout: Layout
    extra_intents: tuple[str, ...] = ()
    lease: timedelta = timedelta(hours=4)


def find_place(cwd: Path, env: Mapping[str, str]) -> Place:
    """Return the project around `cwd`; its letters leave it only where it is trusted."""
    plain = require_project(cwd, env)
    found = read_early(plain, env)
    layout = plain if found.mail_root == MAIL_ROOT else place_mail(plain, found.mail_root)
    letters = layout.mail.root.resolve()
    is_outside = not letters.is_relative_to(plain.shared.resolve())
    if is_outside and "mail_root" in found.theirs:
        require_trust(env, plain, f"puts letters into {letters}")
    return Place(layout, found.extra_intents, timedelta(seconds=found.lease))


def place_mail(layout: Layout, mail_root: str) -> Layout:
    """Return the paths of a project whose letters lie where its configuration says."""
    placed = Layout(layout.root, mail_root, layout.shared)
    refuse_links(placed)
    return placed


def require_project(cwd: Path, env: Mapping[str, str]) -> Layout:
    """Return the paths of the project around `cwd`; inside a run, of the project that runs it."""
    layout = find_layout(cwd, env)
    refuse_links(layout)
    if not layout.config_files():
        raise ProjectError(f"{layout.root} is not set up for treadle yet", fix=["treadle init"])
    return layout


def find_layout(cwd: Path, env: Mapping[str, str]) -> Layout:
    """Return the paths of the nearest project, or of the repository that could become one."""
    outer = env.get("TREADLE_PROJECT") if env.get("TREADLE_RUN") else None
    start = Path(outer) if outer else cwd.resolve()
    tree = find_tree(start)
    for folder in (start, *start.parents):
        found = layout_at(tree, folder)
        if folder == tree.top or found.config_files():
            return found
    raise AssertionError("a work tree lies around what is in it")


def layout_at(tree: WorkTree, folder: Path) -> Layout:
    """Return the paths of a project in this folder of a work tree."""
    return Layout(folder, shared=tree.main / folder.relative_to(tree.top))


def find_tree(start: Path) -> WorkTree:
    """Return the work tree around a folder, or say what is missing."""
    tree = find_work_tree(start)
    # What else a file named .git may lead astray to, git itself explains best.
    if tree and (tree.git_dir.is_dir() or tree.git_dir.parent.name != "worktrees"):
        return tree
    if tree:
        raise _lost(tree)
    bare = next((folder for folder in (start, *start.parents) if _is_bare(folder)), None)
    if bare:
        raise ProjectError(
            f"{bare} is a bare repository; treadle needs one with a work tree",
            code="bare_repository",
            fix=[shlex.join(["git", "clone", str(bare), str(bare).removesuffix(".git") + "-work"])],
        )
    raise ProjectError(
        f"{start} is not inside a git repository",
        code="no_repository",
        fix=["git init", "git commit --allow-empty -m Begin", "treadle init"],
    )


def refuse_links(layout: Layout) -> None:
    """Stop where treadle's own files are links: a clone can bring one, to forged records."""
    found = next(_links(layout), None)
    if found:
        raise BlockedError(
            f"{found} is a link; treadle keeps its files in a folder of its own",
            code="state_linked",
            fix=[f"rm {argument(str(found))}", "treadle init"],
        )


def here() -> Path:
    """Return the folder where the user stands, or say that it is gone."""
    if treadle.here:
        return Path(treadle.here)
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise ProjectError("the current folder no longer exists", fix=["cd"]) from error


def refuse_inside_run(env: Mapping[str, str]) -> None:
    """Stop a command that would change the project which is running it."""
    run_id = env.get("TREADLE_RUN")
    if run_id:
        raise BlockedError(
            f"this command changes the project, and run {run_id} is working in it:"
            " inside a run only commands that read may be used",
            code="inside_run",
        )


def _links(layout: Layout) -> Iterator[object]:
    """Yield links, without starting git or walking folders that can be long."""
    yield from filter(Path.is_symlink, (layout.home, layout.settings, *layout.fixed()))
    mail = layout.mail
    for folder in filter(Path.is_dir, (layout.home, mail.agents)):
        with os.scandir(folder) as found:
            yield from (item.path for item in found if item.is_symlink())
    for agent in mail.agents.iterdir() if mail.agents.is_dir() else ():
        yield from filter(Path.is_symlink, (mail.inbox(agent.name), mail.workspace(agent.name)))


def _lost(tree: WorkTree) -> ProjectError:
    """Say what became of the repository that a linked work tree belongs to."""
    common, top = tree.git_dir.parent.parent, argument(str(tree.top))
    if common.is_dir():
        main = argument(str(common.parent if common.name == ".git" else common))
        return ProjectError(
            f"git has forgotten the work tree {tree.top}; put its files aside and make it again",
            code="work_tree_lost",
            fix=[f"mv {top} {top}.old", f"git -C {main} worktree add {top}"],
        )
    return ProjectError(
        f"{tree.top} belongs to a repository that is no longer at {common};"
        " go to where its main work tree is now",
        code="work_tree_lost",
        fix=[f"git worktree repair {top}"],
    )


def _is_bare(folder: Path) -> bool:
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir()
