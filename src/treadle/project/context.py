"""Open the project: what every command, round of `serve`, worker and page request begins with."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from treadle import layout as user_paths
from treadle.config import read_early
from treadle.config.load import Loaded, load
from treadle.config.schema import Config
from treadle.errors import BlockedError, ConfigError, ProjectError, argument
from treadle.git import call
from treadle.git import repo as git
from treadle.git.repo import Repo
from treadle.layout import HOME_NAME, Layout
from treadle.project import find_place, find_root, find_top, place_mail

_IDENTITY = ("GIT_AUTHOR_", "GIT_COMMITTER_")


class Context(NamedTuple):
    """Everything a command needs to know about where and under which settings it works."""

    layout: Layout
    repo: Repo
    env: Mapping[str, str]
    settings: Loaded = Loaded(Config(), {})
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    tracked: tuple[str, ...] | None = None  # what git tracks of .treadle, once it was asked


def open_context(
    cwd: Path,
    env: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
    *,
    is_foreign: bool = False,
) -> Context:
    """Return the project around `cwd`, ready for runs; `overrides` go before all other settings.

    A repository that `is_foreign` may say what it likes of letters: none is read or written.
    """
    layout = Layout(find_root(cwd, env)) if is_foreign else find_place(cwd, env).layout
    context = reread(_open(layout, env), overrides)
    require_commit(context)
    return refuse_tracked(context)


def open_repository(cwd: Path, env: Mapping[str, str]) -> Context:
    """Return the repository around `cwd`, set up for treadle or not; no setting is read."""
    return _open(Layout(find_top(cwd, env)), env)


def reread(context: Context, overrides: Mapping[str, object] | None = None) -> Context:
    """Return the same project with the settings that are in force now."""
    settings = load(context.layout, context.env, overrides)
    layout = place_mail(context.layout, settings.config.mail.root)
    return context._replace(layout=layout, settings=settings)


def workspaces(project: Context, config: Config | None = None) -> Path:
    """Return the folder of this project's workspaces."""
    default = user_paths.workspace_root(project.env, project.layout.root)
    chosen = (config or project.settings.config).workspace.root
    if chosen is None:
        return default
    if chosen.startswith("~/"):
        chosen = f"{project.env.get('HOME', '')}{chosen[1:]}"
    if Path(chosen).resolve().is_relative_to(project.layout.root.resolve()):
        raise ConfigError(
            f"workspace.root must be outside the repository, not {chosen}:"
            " tools would take its settings for their own"
        )
    return Path(chosen) / default.name


def require_commit(project: Context) -> None:
    """Stop where there is nothing yet that a run could begin from."""
    if git.head(project.repo).commit is None:
        raise ProjectError(
            f"{project.layout.root} has no commit yet, and a run needs one to begin from",
            code="no_commit",
            fix=["git commit --allow-empty -m Begin"],
        )


def refuse_tracked(project: Context) -> Context:
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


def require_ready(project: Context) -> None:
    """Stop while git itself is in the middle of something."""
    operation = git.operation_in_progress(project.repo)
    if operation:
        raise BlockedError(
            f"a {operation} is in progress, and nothing can be committed before it is ended",
            fix=["git status"],
        )


def committed(project: Context, name: str) -> bytes | None:
    """Return a file as the last commit has it, or None if it has none of that name."""
    args = ["cat-file", "--filters", f"HEAD:{name}"]
    done = call.run(args, project.repo.place, cwd=project.repo.root)
    return None if done.returncode else done.stdout


def commit_only(project: Context, names: Sequence[str], message: str) -> str | None:
    """Commit these files as they are; None if they already are. What is staged stays staged."""
    place, root = project.repo.place, project.repo.root
    known = git.tracked(project.repo, names)
    new = [name for name in names if name not in known]
    if new:
        call.out(["add", "--", *new], place, cwd=root)
    elif not call.run(["diff", "--quiet", "HEAD", "--", *names], place, cwd=root).returncode:
        return None
    args = ["commit", "--quiet", "--only", "--no-verify", "-m", message, "--", *names]
    done = call.run(args, place | _identity(project), cwd=root)
    if done.returncode:
        if new:
            call.out(["rm", "--quiet", "--cached", "--ignore-unmatch", "--", *new], place, cwd=root)
        raise call.failure(args, done)
    return git.head(project.repo).commit


def _own_database(project: Context) -> tuple[str, ...]:
    """Return the file of a store that the configuration puts elsewhere in the repository."""
    store = read_early(project.layout, project.env).store or ""
    path = project.layout.root / store.removeprefix("sqlite:")
    inside = store.startswith("sqlite:") and path.is_relative_to(project.layout.root)
    return (project.layout.relative(path),) if inside else ()


def _open(layout: Layout, env: Mapping[str, str]) -> Context:
    # A copy: asking the process for its variables decodes each of them every time.
    return Context(layout, git.find(layout.root), dict(env))


def _identity(project: Context) -> dict[str, str]:
    """Let the user's variables say who commits; without any identity, treadle signs."""
    known = {name: value for name, value in project.env.items() if name.startswith(_IDENTITY)}
    if call.run(["var", "GIT_COMMITTER_IDENT"], project.repo.place | known).returncode == 0:
        return known
    names = {f"{prefix}NAME": "treadle" for prefix in _IDENTITY}
    return names | {f"{prefix}EMAIL": "treadle@localhost" for prefix in _IDENTITY} | known
