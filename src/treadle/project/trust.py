"""Remember, outside every repository, whose commands the user lets run."""

import contextlib
import fcntl
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from treadle import layout as user_paths
from treadle.config import agents, keys
from treadle.config.load import Loaded
from treadle.config.schema import AgentConfig, ChecksConfig, SandboxConfig
from treadle.errors import BlockedError, ProjectError
from treadle.files import atomic
from treadle.git import repo as git
from treadle.ids import mask, utc
from treadle.project.project import Project


class Entry(Struct, frozen=True, kw_only=True):
    """One trusted repository, and what `init` wrote into it."""

    root: str
    identity: str
    since: str
    wrote: dict[str, str] = {}


class _Book(Struct, frozen=True, kw_only=True):
    version: int = 1
    repositories: tuple[Entry, ...] = ()


class Command(NamedTuple):
    """Something that a configuration makes treadle run."""

    key: str
    command: str
    source: str


def commands(loaded: Loaded) -> tuple[Command, ...]:
    """Return what the repository's own files would run, or allow to what runs."""
    found = (*_commands(loaded), *_loosened(loaded))
    return tuple(item for item, is_theirs in found if is_theirs)


def require(project: Project, loaded: Loaded, more: Sequence[Command] = ()) -> None:
    """Stop unless the user trusts what this repository brings; `more` is what its files add."""
    refuse_tracked(project)
    found = (*commands(loaded), *more)
    if not found or entry(project) is not None:
        return
    listed = "; ".join(f"{item.command} ({item.key})" for item in found)
    raise BlockedError(
        f"{project.layout.root} is not trusted, and its configuration would run or allow: {listed}",
        code="untrusted",
        fix=["treadle trust"],
        details={"commands": [item._asdict() for item in found]},
    )


def refuse_tracked(project: Project) -> None:
    """Stop if the repository brings a history of runs: it would be believed."""
    ours = [
        project.layout.relative(path) for path in (project.layout.database, project.layout.runs)
    ]
    tracked = git.tracked(project.repo, ours)
    if tracked:
        raise BlockedError(
            f"{tracked[0]} is tracked by git; records of runs must not come from a repository",
            code="state_tracked",
            fix=[f"git rm -r --cached --ignore-unmatch {' '.join(ours)}"],
            details={"files": list(tracked)},
        )


def entry(project: Project) -> Entry | None:
    """Return the record of this very repository, or None if it is not trusted."""
    for item in _read(user_paths.trust_file(project.env)).repositories:
        if (item.root, item.identity) == _key(project):
            return item
    return None


def grant(project: Project, wrote: Mapping[str, str] | None = None) -> None:
    """Trust this repository from now on."""
    root, identity = _key(project)
    with _update(project.env) as book:
        known = next(
            (item for item in book if (item.root, item.identity) == (root, identity)), None
        )
        written = {**(known.wrote if known else {}), **(wrote or {})}
        since = known.since if known else utc(datetime.now(UTC))
        book[:] = [item for item in book if item.root != root]
        book.append(Entry(root=root, identity=identity, since=since, wrote=written))


def revoke(project: Project) -> bool:
    """Forget this repository; tells whether there was anything to forget."""
    if not user_paths.trust_file(project.env).exists():
        return False
    with _update(project.env) as book:
        rest = [item for item in book if item.root != str(project.layout.root.resolve())]
        was_there, book[:] = len(rest) < len(book), rest
    return was_there


def _commands(loaded: Loaded) -> Iterator[tuple[Command, bool]]:
    """Yield every command with whether the repository brings it: the line, or the program."""
    for name, agent in loaded.config.agents.items():
        for key in ("cmd", "run"):
            if words := getattr(agent, key):
                found, theirs = _command(loaded, ("agents", name, key), shlex.join(words))
                yield found, theirs or agents.is_in_project(words[0])
        if agent.extra_args:
            line = shlex.join([agent.type, "...", *agent.extra_args])
            yield _command(loaded, ("agents", name, "extra_args"), line)
    if setup := loaded.config.workspace.setup:
        yield _command(loaded, ("workspace", "setup"), shlex.join(setup))
    for hook in ("beforeAll", "afterAll", "beforeEach", "afterEach"):
        if words := getattr(loaded.config.hooks, hook):
            found, theirs = _command(loaded, ("hooks", hook), shlex.join(words))
            yield found, theirs or agents.is_in_project(words[0])
    if router := loaded.config.commands.router:
        line = router if isinstance(router, str) else shlex.join(router)
        found, theirs = _command(loaded, ("commands", "router"), line)
        yield found, theirs or agents.is_in_project(line.split()[0])
    for text, command in loaded.config.verify.items():
        yield _command(loaded, ("verify", text), command)


def _loosened(loaded: Loaded) -> Iterator[tuple[Command, bool]]:
    """Yield the settings that open the sandbox or name a history of runs, and whose they are."""
    config = loaded.config
    holders: list[tuple[keys.Path, AgentConfig | ChecksConfig]] = [
        (("agents", name), agent) for name, agent in config.agents.items()
    ]
    for path, holder in (*holders, (("checks",), config.checks)):
        for key in ("network", "writable", "env_allow", "unix_sockets"):
            if (value := getattr(holder, key, None)) and value != "none":
                yield _setting(loaded, (*path, key), value)
    if config.sandbox.mode == "off":
        yield _setting(loaded, ("sandbox", "mode"), "off")
    yield _setting(loaded, ("sandbox", "hide"), config.sandbox.hide)
    for key in ("read", "memory_mb", "processes", "disk_mb"):
        if (value := getattr(config.sandbox, key)) != getattr(SandboxConfig(), key):
            yield _setting(loaded, ("sandbox", key), value)
    if config.network == "full":
        yield _setting(loaded, ("network",), "full")
    if config.store:
        yield _setting(loaded, ("store",), mask(config.store))


def _setting(loaded: Loaded, path: keys.Path, value: object) -> tuple[Command, bool]:
    text = msgspec.json.encode(value).decode()
    return _command(loaded, path, f"{keys.dotted(path)} = {text}")


def _command(loaded: Loaded, path: keys.Path, command: str) -> tuple[Command, bool]:
    origin = loaded.origins[keys.dotted(path)]
    return Command(keys.dotted(path), command, origin.source), origin.kind == "project"


def _key(project: Project) -> tuple[str, str]:
    return str(project.layout.root.resolve()), _identity(project.repo.common_dir)


def _identity(git_dir: Path) -> str:
    """Tell this git folder from any other that may come to stand at its path.

    Numbers of deleted files are soon used again, so the age of a file that git writes
    once and never touches is part of it; without that file, the device must do.
    """
    found = git_dir.stat()
    with contextlib.suppress(OSError):
        birth = (git_dir / "description").stat()
        return f"{found.st_ino}-{birth.st_ino}-{birth.st_mtime_ns}"
    return f"{found.st_dev}-{found.st_ino}"


def _read(path: Path) -> _Book:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Book)
    except FileNotFoundError:
        return _Book()
    except msgspec.DecodeError as error:
        raise ProjectError(
            f"{path} is damaged ({error}); remove it and trust your repositories again",
            code="trust_damaged",
            fix=[f"rm {shlex.quote(str(path))}", "treadle trust"],
        ) from error


@contextlib.contextmanager
def _update(env: Mapping[str, str]) -> Iterator[list[Entry]]:
    """Hand out the record for a change; the folder itself is the lock."""
    path = user_paths.trust_file(env)
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        book = list(_read(path).repositories)
        yield book
        _write(path, book)
    finally:
        os.close(folder)


def _write(path: Path, book: list[Entry]) -> None:
    if not book:
        path.unlink(missing_ok=True)
        return
    data = msgspec.json.encode(_Book(repositories=tuple(book)))
    atomic.write(path, msgspec.json.format(data, indent=2) + b"\n", mode=0o600)
