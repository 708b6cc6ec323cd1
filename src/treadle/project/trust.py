"""Remember, outside every repository, whose commands the user lets run."""

import difflib
import hashlib
import os
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import msgspec

from treadle import layout as user_paths
from treadle.config import agents, identity, schema
from treadle.config.load import Loaded
from treadle.config.schema import AgentConfig, ChecksConfig, Config, HooksConfig, RoutineConfig
from treadle.config.trust import TrustRecord, find_trust, trust_records
from treadle.errors import BlockedError, FormatError
from treadle.files import atomic, walk
from treadle.git import judge, trees, workspace
from treadle.git import repo as git
from treadle.git.refs import MADE_HERE, Arrivals
from treadle.git.trees import GITLINK
from treadle.ids import mask, utc
from treadle.layout import CONFIG_NAMES, HOME_NAME, Layout
from treadle.project.context import Context, refuse_tracked, reread
from treadle.text import plural

_SHA = "sha256:"
_LANDINGS = ("treadle: land ", "treadle: undo ")
_MAX_FILE = 64 << 20
_MAX_KEPT = 40
_MAX_LINES = 400


class Seen(NamedTuple):
    """What the covered files say now, on disk and in the last commit, and which are not yours."""

    head: str | None
    files: Mapping[str, tuple[str, ...]]
    foreign: tuple[str, ...]
    is_known: bool = False


class ForeignChange(NamedTuple):
    """A covered file that somebody else's commit brought, against what was accepted before."""

    file: str
    diff: str


# Settings that decide where work goes and how much of it there may be.
_TOLD: tuple[schema.KeyPath, ...] = (
    *(("sandbox", key) for key in ("tier", "read", "memory_mb", "processes", "disk_mb")),
    *(("land", key) for key in ("run", "process", "protected", "subject", "conventional", "hooks")),
    ("budgets", "max_risky_files"),
    *((*table, "allow") for table in (("policy",), ("policy", "do"), ("policy", "act"))),
    ("budgets", "max_cost_usd"),
    ("mail", "root"),
    ("workspace", "root"),
)


class BroughtCommand(NamedTuple):
    """Something that a configuration makes treadle run."""

    key: str
    command: str
    source: str


def commands(loaded: Loaded) -> tuple[BroughtCommand, ...]:
    """Return what the repository's own files would run, or allow to what runs."""
    found = (*_commands(loaded), *_loosened(loaded))
    return tuple(item for item, is_theirs in found if is_theirs)


def require(project: Context, more: Sequence[BroughtCommand] = ()) -> None:
    """Stop unless the user trusts this repository, as it is now; `more` is what its files add."""
    project = _configured(project)
    known = entry(project)
    if known is None:
        raise _untrusted(project, (*commands(project.settings), *more))
    seen = look(project)
    if seen.foreign:
        raise _changed(project, seen, known)
    if not seen.is_known:
        _record(project, seen)


def look(project: Context) -> Seen:
    """Return what runs, schedules, prompts or sets policy here, held against the record."""
    asked = project if project.tracked is not None else refuse_tracked(project)
    return _compare(_configured(asked), entry(project))


def _configured(project: Context) -> Context:
    """Judge no repository by settings that were never read."""
    return project if project.settings.origins else reread(project)


def changes(project: Context, seen: Seen) -> tuple[ForeignChange, ...]:
    """Return what somebody else's commits brought since the user trusted this repository."""
    return tuple(_brought(project, seen, entry(project)))


def entry(project: Context) -> TrustRecord | None:
    """Return the record of this very repository, or None if it is not trusted."""
    found = record(project)
    return found if found and found.trusted else None


def record(project: Context) -> TrustRecord | None:
    """Return what is on record of this very repository, trusted or not."""
    return find_trust(project.env, project.layout.shared, project.repo.common_dir)


def grant(project: Context, wrote: Mapping[str, str] | None = None) -> None:
    """Trust this repository from now on, with what is in it now."""
    _record(project, look(reread(project)), wrote)


def note(project: Context, wrote: Mapping[str, str]) -> None:
    """Remember what `init` wrote into a repository that is not trusted."""
    _record(project, Seen(None, {}, ()), wrote, is_trusted=False)


def withdraw(project: Context, names: Collection[str]) -> tuple[str, ...]:
    """Trust this repository no longer if others committed any of these files; return those."""
    head, names = git.head(project.repo).commit, {f"{project.repo.prefix}{it}" for it in names}
    found = trees.files(project.repo, head, names) if head and names else {}
    blobs = {name: leaf.id for name, leaf in found.items()}
    theirs = tuple(_foreign(_configured(project), blobs, {})) if blobs else ()
    if theirs and entry(project):
        _record(project, Seen(None, {}, ()), is_trusted=False)
    return theirs


def revoke(project: Context) -> bool:
    """Forget this repository; tells whether there was anything to forget."""
    if not user_paths.trust_file(project.env).exists():
        return False
    with trust_records(project.env) as book:
        return book.pop(str(project.layout.shared.resolve()), None) is not None


def _compare(project: Context, entry: TrustRecord | None) -> Seen:
    """Compare every covered file with what was accepted; git is asked only where that differs.

    Yours is what you changed in the work tree or committed in this clone, as long as it began
    with nothing or with something accepted. What a pull, a merge or a checkout brought is not.
    """
    head, accepted = git.head(project.repo).commit, entry.files if entry else {}
    on_disk = {name: mark for name in _names(project) if (mark := _mark(project, name))}
    same = all(mark in accepted.get(name, ()) for name, mark in on_disk.items())
    if entry and same and head and head == entry.head:
        return Seen(head, {}, (), is_known=True)
    wanted = {*on_disk, *_programs(project)}
    found = trees.files(project.repo, head, wanted) if head else {}
    blobs = {name: leaf.id for name, leaf in found.items() if leaf.mode != GITLINK}
    marks = {
        name: tuple(mark for mark in (on_disk.get(name), blobs.get(name)) if mark)
        for name in wanted
        if name in on_disk or name in blobs
    }
    doubtful = {name: blob for name, blob in blobs.items() if blob not in accepted.get(name, ())}
    foreign = tuple(_foreign(project, doubtful, accepted)) if doubtful else ()
    return Seen(head, marks, foreign)


def _accepted(seen: Seen, before: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the record with what was seen in it; a branch that comes back is known again."""
    kept = dict(before)
    for name, marks in seen.files.items():
        old = [mark for mark in kept.get(name, ()) if mark not in marks]
        kept[name] = (*old, *marks)[-_MAX_KEPT:]
    return kept


def _brought(project: Context, seen: Seen, entry: TrustRecord | None) -> Iterator[ForeignChange]:
    """Yield what somebody else's commits brought, as a diff against what was accepted last."""
    for name in seen.foreign:
        known = entry.files.get(name, ()) if entry else ()
        blobs = [mark for mark in known if not mark.startswith(_SHA)]
        before = trees.read_blob(project.repo, blobs[-1]) if blobs else b""
        yield ForeignChange(name, _unified(name, before or b"", _content(project, name) or b""))


def _foreign(
    project: Context, doubtful: Mapping[str, str], accepted: Mapping[str, tuple[str, ...]]
) -> Iterator[str]:
    ours = Arrivals(project.repo, doubtful, MADE_HERE)
    # A landing that changed one of these waited on the desk for you, unless a budget let it pass.
    budgets = project.settings.config.budgets
    asked = () if budgets.max_risky_files else tuple(filter(judge.is_own_config, doubtful))
    landed = Arrivals(project.repo, asked, (*MADE_HERE, *_LANDINGS)) if asked else ours
    for name, blob in sorted(doubtful.items()):
        known = accepted.get(name, ())
        if not (landed if name in asked else ours).is_own(name, blob, known):
            yield name


def _names(project: Context) -> Collection[str]:
    layout = project.layout
    names = {f"{HOME_NAME}/{name}" for name in CONFIG_NAMES}
    for folder in (layout.routines, layout.roles, layout.cron):
        names |= {layout.relative(path) for path in _files(folder)}
    names |= {name for name in project.tracked or () if name.startswith(f"{HOME_NAME}/inbox/")}
    names = {f"{project.repo.prefix}{name}" for name in names} | {workspace.INCLUDE}
    names |= _programs(project)
    return names | {inside for name in names if (inside := _target(project, name))}


def _files(folder: Path) -> Iterator[Path]:
    """Yield every file and link below a folder; a linked folder is not entered."""
    for place, folders, files in os.walk(folder):
        above = Path(place)
        yield from (above / name for name in files)
        yield from (above / name for name in folders if (above / name).is_symlink())


def _programs(project: Context) -> set[str]:
    """Return the words of commands that can be files of the repository."""
    words = {word for _, line in lines(project.settings.config) for word in line}
    paths = {os.path.normpath(project.layout.root / word) for word in words if "\0" not in word}
    top = f"{project.repo.root}/"
    return {path.removeprefix(top) for path in paths if path.startswith(top)}


def lines(config: Config) -> Iterator[tuple[schema.KeyPath, tuple[str, ...]]]:
    """Yield every program of the configuration with its arguments and its key."""
    for name, agent in config.agents.items():
        yield ("agents", name, "cmd"), agent.cmd or ()
        yield ("agents", name, "run"), agent.run or ()
    yield ("workspace", "setup"), config.workspace.setup or ()
    for hook in schema.field_types(HooksConfig):
        yield ("hooks", hook), getattr(config.hooks, hook) or ()
    yield ("notify", "command"), config.notify.command or ()
    router = config.commands.router or ()
    yield ("commands", "router"), tuple(router.split()) if isinstance(router, str) else router


def _target(project: Context, name: str) -> str | None:
    """Return the file of the repository that a link leads to."""
    path, root = _path(project, name), project.repo.root.resolve()
    if not path.is_symlink():
        return None
    real = Path(os.path.realpath(path))
    return real.relative_to(root).as_posix() if real.is_relative_to(root) else None


def _path(project: Context, name: str) -> Path:
    """Return where a file lies: here, or in the main work tree, if only that has settings."""
    path, prefix = project.repo.root / name, project.repo.prefix
    if os.path.lexists(path) or not name.startswith(prefix):
        return path
    return project.layout.shared / name.removeprefix(prefix)


def _mark(project: Context, name: str) -> str | None:
    """Return the digest of a file, or of where a link points; None if there is no such file."""
    path = _path(project, name)
    data = os.fsencode(path.readlink()) if path.is_symlink() else _content(project, name)
    if data is not None:
        return _SHA + hashlib.sha256(data).hexdigest()
    # A pipe, or too big to read: it is there all the same, and its commit is looked at.
    return _SHA if os.path.lexists(path) and not walk.is_folder(path) else None


def _content(project: Context, name: str) -> bytes | None:
    try:
        return walk.read(_path(project, name), max_bytes=_MAX_FILE)
    except FormatError:
        return None


def _unified(name: str, before: bytes, after: bytes) -> str:
    old, new = (text.decode(errors="replace").splitlines() for text in (before, after))
    lines = list(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm=""))
    rest = [f"({plural(len(lines) - _MAX_LINES, 'more line')})"] if len(lines) > _MAX_LINES else []
    return "\n".join([*lines[:_MAX_LINES], *rest])


def _record(
    project: Context, seen: Seen, wrote: Mapping[str, str] | None = None, *, is_trusted: bool = True
) -> None:
    root, common = str(project.layout.shared.resolve()), identity(project.repo.common_dir)
    _hide_shared(project.layout)
    new = TrustRecord(root, common, since=utc(datetime.now(UTC)))
    with trust_records(project.env) as book:
        known = book.get(root, new)
        if known.identity != common:
            known = new
        book[root] = known._replace(
            wrote={**known.wrote, **(wrote or {})},
            trusted=is_trusted,
            head=seen.head,
            files=_accepted(seen, known.files),
        )


def _hide_shared(layout: Layout) -> None:
    """Keep what is shared out of git where the main work tree's branch does not know treadle.

    The file ignores itself too, so that git may put a branch's own in its place.
    """
    ignore = layout.home / layout.home_gitignore.name
    if layout.home != layout.settings and not ignore.exists():
        layout.home.mkdir(parents=True, exist_ok=True)
        atomic.write(ignore, b"*\n", mode=0o644)


def _untrusted(project: Context, found: Sequence[BroughtCommand]) -> BlockedError:
    listed = "; ".join(f"{item.command} ({item.key})" for item in found)
    brings = f", and its configuration would run or allow: {listed}" if found else ""
    return BlockedError(
        f"{project.layout.root} is not trusted{brings or ', so nothing of it runs'}",
        code="untrusted",
        fix=["treadle trust"],
        details={"commands": [item._asdict() for item in found]},
    )


def _changed(project: Context, seen: Seen, known: TrustRecord) -> BlockedError:
    found = [item._asdict() for item in _brought(project, seen, known)]
    return BlockedError(
        f"somebody else's commit brought {', '.join(seen.foreign)}, which decides what runs here",
        code="trust_changed",
        fix=["treadle trust --show", "treadle trust"],
        details={"changes": found},
    )


def _commands(loaded: Loaded) -> Iterator[tuple[BroughtCommand, bool]]:
    """Yield every command with whether the repository brings it: the line, or the program."""
    for path, words in lines(loaded.config):
        if words:
            found, theirs = _command(loaded, path, shlex.join(words))
            yield found, theirs or agents.is_in_project(words[0])
    for name, agent in loaded.config.agents.items():
        if agent.extra_args:
            line = shlex.join([agent.type, "...", *agent.extra_args])
            yield _command(loaded, ("agents", name, "extra_args"), line)
    for text, command in loaded.config.verify.items():
        yield _command(loaded, ("verify", text), command)


def _loosened(loaded: Loaded) -> Iterator[tuple[BroughtCommand, bool]]:
    """Yield the settings that open the sandbox or name a history of runs, and whose they are."""
    config = loaded.config
    holders: list[tuple[schema.KeyPath, AgentConfig | ChecksConfig | RoutineConfig]] = [
        *((("agents", name), agent) for name, agent in config.agents.items()),
        *((("routines", name), own) for name, own in config.routines.items()),
        (("routine",), config.routine),
    ]
    for path, holder in (*holders, (("checks",), config.checks)):
        for key in ("network", "writable", "env_allow", "unix_sockets"):
            if (value := getattr(holder, key, None)) and value != "none":
                yield _setting(loaded, (*path, key), value)
        yield from _own_of_tools(loaded, path, holder)
    if config.sandbox.mode == "off":
        yield _setting(loaded, ("sandbox", "mode"), "off")
    yield _setting(loaded, ("sandbox", "hide"), config.sandbox.hide)
    if config.network == "full":
        yield _setting(loaded, ("network",), "full")
    if config.store:
        yield _setting(loaded, ("store",), mask(config.store))
    if config.notify.webhook:
        yield _setting(loaded, ("notify", "webhook"), mask(config.notify.webhook))
    default = Config()
    for path in _TOLD:
        if (value := reduce(getattr, path, config)) != reduce(getattr, path, default):
            yield _setting(loaded, path, value)


def _own_of_tools(
    loaded: Loaded, path: schema.KeyPath, holder: object
) -> Iterator[tuple[BroughtCommand, bool]]:
    """Yield the variables that an agent is given, maybe secret ones, and whose settings."""
    if isinstance(holder, AgentConfig):
        for name in holder.env:
            yield _setting(loaded, (*path, "env", name), "…")
        if holder.settings == "user":
            yield _setting(loaded, (*path, "settings"), "user")


def _setting(loaded: Loaded, path: schema.KeyPath, value: object) -> tuple[BroughtCommand, bool]:
    text = msgspec.json.encode(value).decode()
    return _command(loaded, path, f"{schema.dotted(path)} = {text}")


def _command(loaded: Loaded, path: schema.KeyPath, command: str) -> tuple[BroughtCommand, bool]:
    origin = loaded.origins[schema.dotted(path)]
    return BroughtCommand(schema.dotted(path), command, origin.source), origin.kind == "project"
