"""Open the project: what every command, round of `serve`, worker and page request begins with."""

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from treadle import layout as user_paths
from treadle.config import agents, read_early
from treadle.config.load import Loaded, load
from treadle.config.schema import Config
from treadle.errors import BlockedError, ConfigError, ProjectError, TreadleError, argument
from treadle.files import walk
from treadle.git import call, refs
from treadle.git import repo as git
from treadle.git.repo import Repo
from treadle.ids import is_run_id
from treadle.layout import HOME_NAME, Layout
from treadle.project import find_layout, find_place, place_mail, require_project

_LOOKED_AT = 500
_IDENTITY = ("GIT_AUTHOR_", "GIT_COMMITTER_")
_LOCK = re.compile(rb"Unable to create '(.+?\.lock)': File exists")
_PATIENCE, _PAUSE = 10.0, 0.05  # seconds


class Context(NamedTuple):
    """Everything a command needs to know about where and under which settings it works."""

    layout: Layout
    repo: Repo
    env: Mapping[str, str]
    settings: Loaded = Loaded(Config(), {})
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    tracked: tuple[str, ...] | None = None  # what git tracks of .treadle, once it was asked

    @property
    def secrets(self) -> Mapping[str, str]:
        """Return the variables among which secrets are: the user's, and those given to agents."""
        return {**self.env, **agents.secrets(self.settings.config)}


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
    layout = require_project(cwd, env) if is_foreign else find_place(cwd, env).layout
    context = reread(open_folder(layout, env), overrides)
    require_commit(context)
    return refuse_tracked(context)


def open_repository(cwd: Path, env: Mapping[str, str]) -> Context:
    """Return the repository around `cwd`, set up for treadle or not; no setting is read."""
    return open_folder(find_layout(cwd, env), env)


def open_folder(layout: Layout, env: Mapping[str, str]) -> Context:
    """Return the repository around a folder that is a project, or will be."""
    # A copy: asking the process for its variables decodes each of them every time.
    return Context(layout, git.find(layout.root), dict(env))


def reread(context: Context, overrides: Mapping[str, object] | None = None) -> Context:
    """Return the same project with the settings that are in force now."""
    settings = load(context.layout, context.env, overrides)
    layout = place_mail(context.layout, settings.config.mail.root)
    return context._replace(layout=layout, settings=settings)


def workspaces(project: Context, config: Config | None = None) -> Path:
    """Return the folder of this project's workspaces."""
    default = user_paths.workspace_root(project.env, project.layout.shared)
    chosen = (config or project.settings.config).workspace.root
    if chosen is None:
        return default
    if chosen.startswith("~/"):
        chosen = f"{project.env.get('HOME', '')}{chosen[1:]}"
    if Path(chosen).resolve().is_relative_to(project.repo.root.resolve()):
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
    listed = tracked(project, [HOME_NAME, *_own_database(project)])
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


def tracked(project: Context, names: Iterable[str]) -> tuple[str, ...]:
    """Return the tracked files among names in the project, which may be folders."""
    prefix = project.repo.prefix
    found = git.tracked(project.repo, [f"{prefix}{name}" for name in names])
    return tuple(name.removeprefix(prefix) for name in found)


def ignored(project: Context, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names in the project that git would refuse to add."""
    said = "".join(f"{name}\0" for name in names).encode(errors="surrogateescape")
    args = ["check-ignore", "-z", "--stdin"]
    done = call.run(args, project.repo.place, stdin=said, cwd=project.layout.root)
    return tuple(done.stdout.decode(errors="surrogateescape").split("\0")[:-1])


def committed(project: Context, name: str) -> bytes | None:
    """Return a file as the last commit has it, or None if it has none of that name."""
    args = ["cat-file", "--filters", f"HEAD:{project.repo.prefix}{name}"]
    done = call.run(args, project.repo.place, cwd=project.repo.root)
    return None if done.returncode else done.stdout


def landed_runs(project: Context) -> dict[str, str]:
    """Return the runs whose work the last commits say is in them, in whichever clone they ran.

    Each comes with its spec, if it had one.
    """
    trailers = (f"%(trailers:key=Treadle-{key},valueonly,separator=)" for key in ("Run", "Spec"))
    args = ["log", f"-{_LOOKED_AT}", "-z", f"--format=%s%n{'%n'.join(trailers)}"]
    found: dict[str, tuple[str, bool]] = {}
    for text in call.fields(args, project.repo.place):
        subject, run_id, spec = text.split("\n")
        found.setdefault(run_id, (spec, not subject.startswith("Undo: ")))
    return {run_id: spec for run_id, (spec, is_in) in found.items() if run_id and is_in}


def commit_only(project: Context, names: Sequence[str], message: str) -> str | None:
    """Commit these files as they are; None if they already are. What is staged stays staged."""
    place, root = project.repo.place, project.layout.root
    known = tracked(project, names)
    new = [name for name in names if name not in known]
    if new:
        patiently(project, ["add", "--", *new], place)
    elif not call.run(["diff", "--quiet", "HEAD", "--", *names], place, cwd=root).returncode:
        return None
    args = ["commit", "--quiet", "--only", "--no-verify", "-m", message, "--", *names]
    try:
        patiently(project, args, place | _identity(project))
    except TreadleError:
        if new:
            call.run(["rm", "--quiet", "--cached", "--ignore-unmatch", "--", *new], place, cwd=root)
        raise
    return git.head(project.repo).commit


def patiently(project: Context, args: Sequence[str], place: Mapping[str, str]) -> None:
    """Run git in the user's checkout; one that holds git's lock there is waited for."""
    deadline = time.monotonic() + _PATIENCE
    while (done := call.run(args, place, cwd=project.layout.root)).returncode:
        lock = _LOCK.search(done.stderr)
        if lock is None:
            raise call.failure(args, done)
        if time.monotonic() > deadline:
            raise refs.locked(Path(os.fsdecode(lock[1])))
        time.sleep(_PAUSE)


def _own_database(project: Context) -> tuple[str, ...]:
    """Return the file of a store that the configuration puts elsewhere in the repository."""
    store = read_early(project.layout, project.env).store or ""
    path = project.layout.shared / store.removeprefix("sqlite:")
    inside = store.startswith("sqlite:") and path.is_relative_to(project.layout.shared)
    return (project.layout.relative(path),) if inside else ()


def _identity(project: Context) -> dict[str, str]:
    """Let the user's variables say who commits; without any identity, treadle signs."""
    known = {name: value for name, value in project.env.items() if name.startswith(_IDENTITY)}
    if call.run(["var", "GIT_COMMITTER_IDENT"], project.repo.place | known).returncode == 0:
        return known
    names = {f"{prefix}NAME": "treadle" for prefix in _IDENTITY}
    return names | {f"{prefix}EMAIL": "treadle@localhost" for prefix in _IDENTITY} | known


_MOST = 20_000  # files of a workspace that are counted


class WorkspaceSize(NamedTuple):
    """The bytes that a run's checkouts take; there may be more than anybody cared to count."""

    run_id: str
    size: int
    is_more: bool


def workspace_sizes(project: Context) -> list[WorkspaceSize]:
    """Return how much room workspaces take on this disk, those of the newest run first."""
    try:
        root = workspaces(project)
    except ConfigError:
        return []
    folders: dict[str, list[Path]] = {}
    for name in sorted(walk.names(root), reverse=True):
        if is_run_id(run_id := name.partition(".")[0]):
            folders.setdefault(run_id, []).append(root / name)
    return [WorkspaceSize(run_id, *_room(found)) for run_id, found in folders.items()]


def _room(folders: Iterable[Path]) -> tuple[int, bool]:
    walked = (entry for folder in folders for entry in os.walk(folder))
    files = (Path(place, name) for place, _, names in walked for name in names)
    sizes = [file_size(path) for path in islice(files, _MOST + 1)]
    return sum(sizes[:_MOST]), len(sizes) > _MOST


def file_size(path: Path) -> int:
    """Return how long a file is; one that is gone takes no room."""
    try:
        return path.lstat().st_size
    except OSError:
        return 0
