"""Look at everything treadle needs and say what is missing and what would help."""

import contextlib
import importlib.util
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import treadle
from treadle.config import agents
from treadle.config.schema import TOOLS, AgentConfig, Config
from treadle.contract import ROLES
from treadle.errors import ConfigError, ProjectError, TreadleError, argument
from treadle.git import refs
from treadle.git import repo as git
from treadle.ids import OWN_PREFIX
from treadle.proc import environment
from treadle.project import key, refuse_links, trust
from treadle.project.context import (
    Context,
    open_repository,
    refuse_tracked,
    require_commit,
    reread,
    tracked,
    workspace_sizes,
    workspaces,
)
from treadle.sandbox import home, jails
from treadle.sandbox.policy import Closed, Policy, layers, real
from treadle.store import address
from treadle.store.store import Reader, Store
from treadle.text import plural

OLDEST_GIT = (2, 38)


class Check(NamedTuple):
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str
    fix: tuple[str, ...] = ()


def run(cwd: Path, env: Mapping[str, str]) -> Iterator[Check]:
    """Look at all of it; what cannot be looked at without something missing is left out."""
    yield ask("python", _python)
    yield ask("bytecode", _bytecode)
    yield ask("git", _git)
    name = "repository"
    try:
        project = open_repository(cwd, env)
        yield Check(name, True, _place(project))
        name = "project"
        refuse_links(project.layout)
        project = refuse_tracked(project)
        yield ask("commit", _commit, project)
        yield ask(name, _files, project)
        yield (store := ask("store", _store, project))
        if store.ok:
            yield ask("file system", _journal, project)
        name = "config"
        project = reread(project)
    except TreadleError as error:
        yield Check(name, False, error.message, error.fix)
        return
    yield from _configured(project)


def _configured(project: Context) -> Iterator[Check]:
    config, origins = project.settings
    count = sum(origin.kind != "default" for origin in origins.values())
    yield Check("config", True, f"valid, values set: {count}")
    yield ask("trust", _trust, project)
    for name, agent in config.agents.items():
        if not agent.use:
            yield ask(f"agent {name}", _agent, project, agent)
    yield ask("workspaces", _workspaces, project)
    if project.layout.worktrees.is_dir():
        yield ask("worktrees", _worktrees, project)
    if config.mail != Config().mail:
        yield ask("mail", _mail, project)
    yield ask("sandbox", _sandbox, config)
    if config.sandbox.mode != "off":
        yield ask("home", _home, project)
    if config.artifacts:
        yield ask("fleet key", _fleet_key, project)


def _fleet_key(project: Context) -> str:
    found = key.read(project.env, project.layout.root)
    return f"{found.name} in {found.path}"


def ask(name: str, look: Callable[..., str], *about: object) -> Check:
    """Look at one thing; an error says what is wrong with it."""
    try:
        return Check(name, True, look(*about))
    except TreadleError as error:
        fix = (it for it in error.fix if it not in ("treadle doctor", "treadle fleet check"))
        return Check(name, False, error.message, tuple(fix))


def _python() -> str:
    return f"{platform.python_version()} at {environment.PYTHON}"


def _bytecode() -> str:
    """Without compiled files every command starts several times slower."""
    module = Path(treadle.__file__)
    compiled = Path(importlib.util.cache_from_source(str(module)))
    if compiled.exists():
        return "compiled"
    if not sys.dont_write_bytecode and os.access(_existing(compiled.parent), os.W_OK):
        return "compiled when first used"
    raise ProjectError(
        "treadle is not compiled and cannot be, so commands start slowly",
        fix=[shlex.join([environment.PYTHON, "-I", "-m", "compileall", "-q", str(module.parent)])],
    )


def _git() -> str:
    found = git.version()
    text = ".".join(map(str, found))
    if found < OLDEST_GIT:
        oldest = ".".join(map(str, OLDEST_GIT))
        raise ProjectError(f"git {text} is too old; treadle needs {oldest} or newer")
    return text


def _place(project: Context) -> str:
    layout, text = project.layout, str(project.layout.root)
    text += f", a project in {project.repo.root}" if project.repo.prefix else ""
    return text + (f", shares {layout.home}" if layout.shared != layout.root else "")


def _commit(project: Context) -> str:
    require_commit(project)
    head = git.head(project.repo)
    return f"{(head.commit or '')[:12]} on {head.branch or 'no branch'}"


def _files(project: Context) -> str:
    layout = project.layout
    found = layout.config_files()
    if not found:
        raise ProjectError(f"{layout.home} has no configuration yet", fix=["treadle init"])
    if not layout.home_gitignore.exists():
        raise ProjectError(
            f"{layout.home_gitignore} is missing, so git would see what runs leave behind",
            fix=["treadle init"],
        )
    return layout.relative(found[0])


def _store(project: Context) -> str:
    with Reader.open(project.layout) as reader:
        address.require_kept(project.layout, reader)
        if not address.find(project.layout).exists():
            return "no run yet"
        # Reading whole tables meets a damaged page that a single row would miss.
        steps, tasks = sum(map(len, reader.step_names().values())), len(reader.task_ids())
        size = f"{plural(steps, 'step')}, {plural(tasks, 'task')}"
        return f"{size}, newest run {reader.last_run_id() or 'none'}"


def _journal(project: Context) -> str:
    if not address.find(project.layout).exists():
        return "asked when the store is made"
    store = Store.open(project.layout)
    mode = store.journal_mode
    store.close()
    if mode in ("wal", "postgresql"):
        return mode
    return f"{mode}: no WAL on this file system, writing is slower"


def _trust(project: Context) -> str:
    trust.require(project)
    count = len(trust.commands(project.settings))
    return f"trusted, commands it brings: {count}" if count else "trusted, brings no commands"


def _agent(project: Context, agent: AgentConfig) -> str:
    if agent.type == "replay":
        return _recording(project.layout.root / str(agent.recording))
    words = (agent.type,) if agent.type in TOOLS else agents.argv(project.layout.root, agent)
    if not words:
        return f"{agent.type}, nothing to start"
    program = words[0]
    if shutil.which(program, path=project.env.get("PATH")):
        return f"{agent.type}, {program}"
    if Path(program).is_file():
        fix = [f"chmod +x {shlex.quote(program)}"]
        raise ProjectError(f"{program} cannot be executed", code="not_executable", fix=fix)
    raise ProjectError(f"{program} is missing", code="agent_missing")


def _recording(folder: Path) -> str:
    if not (folder / "steps").is_dir():
        raise ProjectError(f"{folder} holds no recorded run", code="agent_missing")
    return f"replay, {folder}"


def _workspaces(project: Context) -> str:
    folder = workspaces(project)
    parent = _existing(folder)
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise ProjectError(f"{parent} cannot be written, and workspaces belong in {folder}")
    found = workspace_sizes(project)
    size = sum(item.size for item in found) / 1_000_000
    return f"{folder}: {plural(len(found), 'workspace')}, {size:.0f} MB"


def _worktrees(project: Context) -> str:
    """Name the first worktree of a task that is gone."""
    found = sorted(project.layout.worktrees.glob("*.base"))
    for path in (base.with_suffix("") for base in found):
        slug, _, id_ = path.name.rpartition(".")
        branch = f"{OWN_PREFIX}{slug}/{id_}"
        if not path.is_dir() and refs.resolve(project.repo, branch):
            raise ProjectError(
                f"the worktree {path} is gone; the work committed on {branch} is kept",
                code="worktree_gone",
                fix=[f"git worktree add -f {argument(str(path))} {branch}"],
            )
    return f"{project.layout.worktrees}: {plural(len(found), 'task')}"


def _mail(project: Context) -> str:
    root = project.layout.mail.root.resolve()
    inside = root.is_relative_to(project.layout.shared.resolve())
    if not inside or not tracked(project, [project.settings.config.mail.root]):
        return str(root)
    return f"{root}, which git tracks: mail commands change your work tree"


def _sandbox(config: Config) -> str:
    asked, found = config.sandbox, jails.probe(config.sandbox.tier)
    used = [agents.resolve(config, role) for role in ROLES]
    closed = agents.closing_key(config.network, config.checks.network, used)
    if closed and (asked.mode == "off" or found.tier == "0"):
        reason = jails.OFF.reason if asked.mode == "off" else found.reason
        raise ConfigError(f'{closed} is "none", and {reason}', fix=found.fix)
    if asked.mode == "off":
        return f"tier 0: {jails.OFF.reason}"
    if found.tier == "0" and asked.mode == "required":
        raise ConfigError(f'sandbox is "required", and {found.reason}', fix=found.fix)
    return f'tier {found.tier}, asked for "{asked.mode}"'


def _home(project: Context) -> str:
    """Say what of the home children may read, and which programs they would find and not start."""
    asked = project.settings.config.sandbox
    found = home.closed(project.env, hide=asked.hide, read=asked.read)
    if found.home is None:
        return "no HOME, so that only sandbox.hide is closed"
    inside = f"{found.home}/"
    opened = [
        it.path for it in layers(found) if it.kind == "readable" and it.path.startswith(inside)
    ]
    names = ", ".join(f"~/{path.removeprefix(inside)}" for path in sorted(opened))
    text = f"readable: {names or 'nothing'}"
    if astray := _unreadable_programs(found, project.env):
        listed = ", ".join(f"{program} ({target})" for program, target in astray[:5])
        text += f"; programs on PATH that need a line in sandbox.read or less in hide: {listed}"
    return text


def _existing(path: Path) -> Path:
    """Return the nearest folder on the way to `path` that is there."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _unreadable_programs(policy: Policy, env: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return programs on PATH with the file behind them, where a child could not read that."""
    closed = Closed(layers(policy))
    found: list[tuple[str, str]] = []
    for folder in home.program_folders(env):
        with contextlib.suppress(OSError):
            for item in sorted(Path(folder).iterdir()):
                target = real(item)
                if target and closed.around(target) and os.access(target, os.X_OK):
                    found.append((str(item), target))
    return found
