"""Specs on disk: which there are, what each asks for, and the list of those that are done."""

import contextlib
import functools
import hashlib
import itertools
import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple, cast, get_args

from treadle import frontmatter
from treadle.config.agents import parse_swaps
from treadle.config.load import parse_budgets
from treadle.config.schema import Landing
from treadle.engine.landing import tracker
from treadle.errors import BlockedError, FormatError, NotFoundError, TreadleError
from treadle.files import walk
from treadle.frontmatter import Value
from treadle.ids import nearest
from treadle.inbox import box
from treadle.inbox.box import SUFFIX
from treadle.inbox.message import FIELDS, read_text
from treadle.layout import Layout, is_within
from treadle.text import line

KEYS = ("routine", "depends_on", "agents", "budgets", "priority", "land")
_NUMBER = re.compile(r"\d+")
_PRIORITY = re.compile(r"-?\d{1,4}")
_TEXTS = (".txt", ".markdown", ".mdx", ".md", ".rst")
_SHOWN = 5


class SpecWish(NamedTuple):
    """What a spec's fields ask for, besides what its text says."""

    routine: str | None = None
    depends_on: tuple[str, ...] = ()
    agents: Mapping[str, str] = {}
    budgets: Mapping[str, float] = {}
    priority: int = 0
    land: Landing | None = None
    own: Mapping[str, Value] = {}


class Spec(NamedTuple):
    """One spec: its file's name, its text without fields, what it asks for, and all it says."""

    name: str
    digest: str
    text: str
    wish: SpecWish
    source: str

    @property
    def routine(self) -> str | None:
        """Return the routine it names."""
        return self.wish.routine


class Glance(NamedTuple):
    """What can be seen of a spec at once; no digest if it cannot be read."""

    digest: str | None = None
    wish: SpecWish = SpecWish()
    problem: str | None = None
    is_empty: bool = False
    warnings: tuple[str, ...] = ()


def require_folder(layout: Layout) -> None:
    """Refuse a folder of specs that git does not see into: its list could never land."""
    what = "a symbolic link" if layout.specs.is_symlink() else "a repository of its own"
    if layout.specs.is_symlink() or os.path.lexists(layout.specs / ".git"):
        name = layout.relative(layout.specs)
        raise BlockedError(
            f"{name} is {what}, so the list of finished specs in it cannot be landed;"
            " make it a plain folder of this repository",
            code="specs_elsewhere",
            fix=[f"ls -la {name}"],
        )


def names(layout: Layout, without: Collection[str] = ()) -> list[str]:
    """Return every spec's file name, in the order they are worked on."""
    found = [name for name in _all(layout) if is_listable(name) and name not in without]
    return sorted(found, key=lambda name: (glance(layout, name).wish.priority, name))


def _all(layout: Layout) -> list[str]:
    """Return the names of all specs, also those that cannot stand in a list of one name a line."""
    found = walk.names(layout.specs)
    return sorted(name for name in found if name.endswith(SUFFIX) and not name.startswith("."))


def is_listable(name: str) -> bool:
    """Tell whether a name is one line of text."""
    return name.isprintable() and name == name.strip()


def processed(layout: Layout) -> set[str]:
    """Return the names in the list of finished specs."""
    return tracker.names(tracker.read(layout))


def path_of(name: str) -> str:
    """Return what a message for this spec has as its `input_file`."""
    return f"specs/{name}"


def glance(layout: Layout, name: str) -> Glance:
    """Return a spec's digest and what its fields ask for, or what is wrong with them."""
    path = f"{layout.specs}/{name}"
    try:
        state = os.lstat(path)
    except OSError:
        return Glance()
    return _glance(path, name, state.st_size, state.st_mtime_ns, state.st_ino)


@functools.lru_cache(maxsize=4096)
def _glance(path: str, name: str, *_: int) -> Glance:
    try:
        data = box.read(path)
    except (FormatError, OSError):
        return Glance()
    digest = hashlib.sha256(data).hexdigest()
    try:
        fields, body = frontmatter.read(data)
    except FormatError:  # its message says so, and where
        return Glance(digest)
    known = (*KEYS, *FIELDS)
    near = [(key, nearest(key, KEYS)) for key in fields if key not in known]
    told = tuple(f"{name}: {key} means nothing here; did you mean {it}?" for key, it in near if it)
    is_empty = not body.strip()
    try:
        return Glance(digest, _wish(fields), None, is_empty, told)
    except TreadleError as error:
        routine = read_text(fields.get("routine"))
        return Glance(digest, SpecWish(routine), error.message, is_empty, told)


def read_spec(layout: Layout, input_file: str | None) -> Spec:
    """Return a spec by its path in the project; FormatError if it is not there or no text."""
    path = PurePosixPath(input_file or "")
    if input_file is None or path.is_absolute() or ".." in path.parts or "\0" in input_file:
        raise _missing(input_file)
    try:
        is_inside = is_within(layout.root, str(path))
        data = box.read(f"{layout.root}/{path}") if is_inside else None
    except OSError as error:
        raise _missing(input_file) from error
    if data is None:
        raise _missing(input_file)
    fields, body = frontmatter.read(data)
    try:
        wish = _wish(fields)
    except TreadleError as error:
        raise FormatError(f"{path.name}: {error.message}", code="spec_invalid") from error
    digest = hashlib.sha256(data).hexdigest()
    return Spec(path.name, digest, body.decode(), wish, data.decode())


def _missing(input_file: str | None) -> FormatError:
    what = f"{input_file[:200]!r} is not a file of this project" if input_file else "there is none"
    return FormatError(f"input_file: {what}; name a spec in it", code="spec_not_found")


def _wish(fields: Mapping[str, Value]) -> SpecWish:
    """Read what the fields ask for; TreadleError names the one that is wrong."""
    priority, land = fields.get("priority") or "0", fields.get("land") or None
    if not isinstance(priority, str) or not _PRIORITY.fullmatch(priority):
        raise FormatError("priority must be a whole number from -9999 to 9999, the lowest first")
    if land is not None and land not in get_args(Landing):
        raise FormatError(f"land must be one of {', '.join(get_args(Landing))}, not {land!r}")
    return SpecWish(
        routine=read_text(fields.get("routine")),
        depends_on=tuple(dict.fromkeys(_listed(fields.get("depends_on")))),
        agents=parse_swaps(_pairs("agents", fields.get("agents")), "agents:"),
        budgets=parse_budgets(_pairs("budgets", fields.get("budgets")), flag="budgets:"),
        priority=int(priority),
        land=cast(Landing | None, land),
        own={key: value for key, value in fields.items() if key not in (*KEYS, *FIELDS)},
    )


def _listed(value: Value | None) -> Iterator[str]:
    for item in value if isinstance(value, list) else [value] if value else []:
        if not isinstance(item, str) or not item.strip():
            raise FormatError("depends_on must be the name of a spec, or a list of names")
        yield item.strip()


def _pairs(key: str, value: Value | None) -> list[str]:
    if not isinstance(value or {}, dict):
        raise FormatError(f"{key} must have a name and a value on each line below it")
    found = value if isinstance(value, dict) else {}
    return [f"{name}={item if isinstance(item, str) else ''}" for name, item in found.items()]


def match(known: Collection[str], text: str) -> str:
    """Return the one spec that a text names: whole, without its ending, or by its beginning."""
    word = text.removeprefix("specs/")
    for name in (word, f"{word}{SUFFIX}", f"{word.removesuffix('.md')}{SUFFIX}"):
        if name in known:
            return name
    found = sorted(name for name in known if word and name.startswith(word))
    if len(found) == 1:
        return found[0]
    if found:
        told = f"{text!r} is the beginning of {', '.join(found[:_SHOWN])}"
        told += f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise NotFoundError(told, code="spec_ambiguous", fix=["treadle spec list"])
    stems = {name.removesuffix(SUFFIX): name for name in known}
    close = nearest(word.removesuffix(".md").removesuffix(".spec"), stems)
    near = f"; did you mean {stems[close]}?" if close else ""
    raise NotFoundError(f"there is no spec {text!r}{near}", fix=["treadle spec list"])


def find_circle(layout: Layout, known: Collection[str], name: str) -> list[str]:
    """Return the specs that depend on each other in a circle through this one, in order."""
    paths = [[name]]
    seen = {name}
    while paths:
        path = paths.pop()
        for word in glance(layout, path[-1]).wish.depends_on:
            with contextlib.suppress(NotFoundError):
                found = match(known, word)
                if found == name:
                    return [*path, name]
                if found not in seen:
                    seen.add(found)
                    paths.append([*path, found])
    return []


class NotTaken(NamedTuple):
    """A file among the specs that is none by its name or place, why, and what makes it one."""

    name: str
    reason: str
    next: str


def complaints(layout: Layout) -> Iterator[str]:
    """Yield what stands in the folder and is not taken, or not as its author may think."""
    found = names(layout)
    by_name = sorted(found)
    numbered = [(int(number[0]), name) for name in by_name if (number := _NUMBER.match(name))]
    pairs = itertools.pairwise(numbered)
    if pair := next(((one[1], two[1]) for one, two in pairs if one[0] > two[0]), None):
        yield f"{pair[0]} comes before {pair[1]}: names count, not numbers"
    for name in _all(layout):
        if not is_listable(name):
            yield f"{line(name)} is not taken: its name is not a single line of text"
    if len(numbered) * 2 > len(found):
        for name in by_name:
            if not _NUMBER.match(name):
                yield f"{name} has no number where others have one; its name decides when it comes"
    yield from (f"{it.name} is not taken: {it.reason}; {it.next}" for it in not_taken(layout))
    for name in by_name:
        yield from glance(layout, name).warnings


def not_taken(layout: Layout) -> Iterator[NotTaken]:
    """Yield the files that look like specs and are called or placed otherwise, by name."""
    for name in sorted(walk.names(layout.specs)):
        path, where = layout.specs / name, layout.relative(layout.specs)
        if name.startswith((".", "README")) or name == layout.tracker.name:
            continue
        if walk.is_folder(path):
            for inner in filter(lambda it: it.endswith((SUFFIX, ".md")), walk.names(path)):
                move = f"mv {shlex.quote(f'{where}/{name}/{inner}')} {where}/"
                yield NotTaken(line(f"{name}/{inner}"), "it lies in a sub-folder", move)
        elif not name.endswith(SUFFIX) and name.lower().endswith(_TEXTS):
            stem = re.sub(r"(\.spec)?\.[A-Za-z]+$", "", name, flags=re.IGNORECASE)
            move = shlex.join(["mv", f"{where}/{name}", f"{where}/{stem}{SUFFIX}"])
            yield NotTaken(line(name), f"the name of a spec ends with {SUFFIX}", move)
