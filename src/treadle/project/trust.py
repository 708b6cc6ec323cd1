"""Remember, outside every repository, whose commands the user lets run."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from treadle import layout as user_paths
from treadle.config import agents, keys, trusted
from treadle.config.load import Loaded, load
from treadle.config.schema import AgentConfig, ChecksConfig, Config
from treadle.config.trusted import Entry
from treadle.errors import BlockedError
from treadle.ids import mask, utc
from treadle.project import covered
from treadle.project.covered import Change, Seen
from treadle.project.project import Project, refuse_tracked

# Settings that decide where work goes and how much of it there may be.
_TOLD = (
    *(("sandbox", key) for key in ("tier", "read", "memory_mb", "processes", "disk_mb")),
    ("land", "run"),
    ("budgets", "max_risky_files"),
    ("budgets", "max_cost_usd"),
    ("mail", "root"),
    ("workspace", "root"),
)


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
    """Stop unless the user trusts this repository, as it is now; `more` is what its files add."""
    known = entry(project)
    if known is None:
        raise _untrusted(project, (*commands(loaded), *more))
    seen = look(project, loaded)
    if seen.foreign:
        raise _changed(project, seen, known)
    if not seen.is_known:
        _record(project, seen)


def look(project: Project, loaded: Loaded) -> Seen:
    """Return what runs, schedules, prompts or sets policy here, held against the record."""
    asked = project if project.tracked is not None else refuse_tracked(project)
    return covered.look(asked, loaded.config, entry(project))


def changes(project: Project, seen: Seen) -> tuple[Change, ...]:
    """Return what somebody else's commits brought since the user trusted this repository."""
    return tuple(covered.changes(project, seen, entry(project)))


def entry(project: Project) -> Entry | None:
    """Return the record of this very repository, or None if it is not trusted."""
    found = record(project)
    return found if found and found.trusted else None


def record(project: Project) -> Entry | None:
    """Return what is on record of this very repository, trusted or not."""
    return trusted.find(project.env, project.layout.root, project.repo.common_dir)


def grant(project: Project, wrote: Mapping[str, str] | None = None) -> None:
    """Trust this repository from now on, with what is in it now."""
    _record(project, look(project, load(project.layout, project.env)), wrote)


def note(project: Project, wrote: Mapping[str, str]) -> None:
    """Remember what `init` wrote into a repository that is not trusted."""
    _record(project, Seen(None, {}, ()), wrote, is_trusted=False)


def revoke(project: Project) -> bool:
    """Forget this repository; tells whether there was anything to forget."""
    if not user_paths.trust_file(project.env).exists():
        return False
    with trusted.update(project.env) as book:
        rest = [item for item in book if item.root != str(project.layout.root.resolve())]
        was_there, book[:] = len(rest) < len(book), rest
    return was_there


def _record(
    project: Project, seen: Seen, wrote: Mapping[str, str] | None = None, *, is_trusted: bool = True
) -> None:
    root, common = project.layout.root, project.repo.common_dir
    with trusted.update(project.env) as book:
        known = next((item for item in book if item.is_of(root, common)), None)
        book[:] = [item for item in book if item.root != str(root.resolve())]
        book.append(
            Entry(
                root=str(root.resolve()),
                identity=trusted.identity(common),
                since=known.since if known else utc(datetime.now(UTC)),
                wrote={**(known.wrote if known else {}), **(wrote or {})},
                trusted=is_trusted,
                head=seen.head,
                files=covered.accept(seen, known.files if known else {}),
            )
        )


def _untrusted(project: Project, found: Sequence[Command]) -> BlockedError:
    listed = "; ".join(f"{item.command} ({item.key})" for item in found)
    brings = f", and its configuration would run or allow: {listed}" if found else ""
    return BlockedError(
        f"{project.layout.root} is not trusted{brings or ', so nothing of it runs'}",
        code="untrusted",
        fix=["treadle trust"],
        details={"commands": [item._asdict() for item in found]},
    )


def _changed(project: Project, seen: Seen, known: Entry) -> BlockedError:
    found = [item._asdict() for item in covered.changes(project, seen, known)]
    return BlockedError(
        f"somebody else's commit brought {', '.join(seen.foreign)}, which decides what runs here",
        code="trust_changed",
        fix=["treadle trust --show", "treadle trust"],
        details={"changes": found},
    )


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
    if config.network == "full":
        yield _setting(loaded, ("network",), "full")
    if config.store:
        yield _setting(loaded, ("store",), mask(config.store))
    default = Config()
    for table, key in _TOLD:
        if (value := getattr(getattr(config, table), key)) != getattr(getattr(default, table), key):
            yield _setting(loaded, (table, key), value)


def _setting(loaded: Loaded, path: keys.Path, value: object) -> tuple[Command, bool]:
    text = msgspec.json.encode(value).decode()
    return _command(loaded, path, f"{keys.dotted(path)} = {text}")


def _command(loaded: Loaded, path: keys.Path, command: str) -> tuple[Command, bool]:
    origin = loaded.origins[keys.dotted(path)]
    return Command(keys.dotted(path), command, origin.source), origin.kind == "project"
