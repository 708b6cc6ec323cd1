"""Open the project around the user: its paths, its repository, its environment."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from treadle import layout as user_paths
from treadle.config.schema import Config
from treadle.errors import BlockedError, ConfigError, ProjectError, argument
from treadle.git import repo as git
from treadle.git.repo import Repo
from treadle.layout import HOME_NAME, Layout, MailLayout
from treadle.project.root import find_root, find_top
from treadle.store import address


class Project(NamedTuple):
    """Everything a command needs to know about where it works."""

    layout: Layout
    repo: Repo
    env: Mapping[str, str]
    tracked: tuple[str, ...] | None = None  # what git tracks of .treadle, once it was asked


def open_project(cwd: Path, env: Mapping[str, str]) -> Project:
    """Return the project around `cwd`, ready for runs."""
    project = _open(find_root(cwd, env), env)
    require_commit(project)
    return refuse_tracked(project)


def open_repository(cwd: Path, env: Mapping[str, str]) -> Project:
    """Return the repository around `cwd` as a project, set up for treadle or not."""
    return _open(find_top(cwd, env), env)


def place_mail(project: Project, config: Config) -> None:
    """Let the project's letters lie where its configuration says."""
    project.layout.mail = MailLayout(project.layout.root / config.mail.root)


def workspaces(project: Project, config: Config) -> Path:
    """Return the folder of this project's workspaces."""
    default = user_paths.workspace_root(project.env, project.layout.root)
    if config.workspace.root is None:
        return default
    chosen = config.workspace.root
    if chosen.startswith("~/"):
        chosen = f"{project.env.get('HOME', '')}{chosen[1:]}"
    if Path(chosen).resolve().is_relative_to(project.layout.root.resolve()):
        raise ConfigError(
            f"workspace.root must be outside the repository, not {chosen}:"
            " tools would take its settings for their own"
        )
    return Path(chosen) / default.name


def require_commit(project: Project) -> None:
    """Stop where there is nothing yet that a run could begin from."""
    if git.head(project.repo).commit is None:
        raise ProjectError(
            f"{project.layout.root} has no commit yet, and a run needs one to begin from",
            code="no_commit",
            fix=["git commit --allow-empty -m Begin"],
        )


def refuse_tracked(project: Project) -> Project:
    """Stop if the repository brings a history of runs: it would be believed."""
    ours = (*project.layout.records(), *_own_database(project))
    listed = git.tracked(project.repo, [HOME_NAME, *_own_database(project)])
    found = [name for name in listed if name == HOME_NAME or name.startswith(ours)]
    if found:
        raise BlockedError(
            f"{found[0]} is tracked by git; records of runs must not come from a repository",
            code="state_tracked",
            fix=[f"git rm -r --cached --ignore-unmatch {argument(found[0])}"],
            details={"files": found},
        )
    return project._replace(tracked=listed)


def _own_database(project: Project) -> tuple[str, ...]:
    """Return the file of a store that the configuration puts elsewhere in the repository."""
    store = address.settings(project.layout, project.env).get("store", "")
    path = project.layout.root / store.removeprefix("sqlite:")
    inside = store.startswith("sqlite:") and path.is_relative_to(project.layout.root)
    return (project.layout.relative(path),) if inside else ()


def _open(root: Path, env: Mapping[str, str]) -> Project:
    # A copy: asking the process for its variables decodes each of them every time.
    return Project(Layout(root), git.find(root), dict(env))
