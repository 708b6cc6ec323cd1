"""Lay the sources of a configuration over each other, judged key by key, and keep their origins."""

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

import msgspec

from treadle.config import agents, read_files, schema, wrong
from treadle.config.schema import BACKENDS, BudgetsConfig, Config, NightConfig, SandboxConfig, takes
from treadle.errors import ConfigError, UsageError
from treadle.ids import STORES, hint, is_agent_id, is_schema, mask
from treadle.layout import Layout
from treadle.proc import environment

_TESTS = re.compile(r"tests>=[1-9][0-9]{0,6}")
_UNFIT_FOR_BRANCH = re.compile(
    r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|//|@\{|/\.|\.lock(/|\Z)|\A[-/.]|[/.]\Z"
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NIGHT = "night."
OriginKind = Literal["default", "user", "project", "environment", "flag"]


class Origin(NamedTuple):
    """Where a value came from: the kind of source, and the file or variable itself."""

    kind: OriginKind
    source: str


class Loaded(NamedTuple):
    """A configuration and, for every key in force, its origin."""

    config: Config
    origins: Mapping[str, Origin]


_Merged = dict[schema.KeyPath, tuple[object, Origin]]


def load(
    layout: Layout, env: Mapping[str, str], overrides: Mapping[str, object] | None = None
) -> Loaded:
    """Return what is in force; `overrides` has the shape of a file and holds what flags said."""
    merged: _Merged = {}
    for kind, name, raw in read_files(layout, env):
        values = leaves(raw, name)
        # An agent that a file names replaces the one below as a whole.
        named = {path[:2] for path in values if path[0] == "agents"}
        merged = {path: item for path, item in merged.items() if path[:2] not in named}
        merged |= {path: (value, Origin(kind, name)) for path, value in values.items()}
    merged |= dict(_environment(merged, env))
    flags = Origin("flag", "command line")
    said = leaves(overrides or {}, flags.source)
    merged |= {path: (value, flags) for path, value in said.items()}
    agents.check({path: (value, origin.source) for path, (value, origin) in merged.items()})
    config = msgspec.convert(_nested(merged), Config)
    return Loaded(config, _origins(merged, config))


def _environment(
    merged: _Merged, env: Mapping[str, str]
) -> Iterator[tuple[schema.KeyPath, tuple[object, Origin]]]:
    """Yield what variables say of scalar keys with a fixed name and of agents that files name."""
    if not any(name.startswith(schema.PREFIX) for name in env):
        return
    names = {path[1] for path in merged if path[0] == "agents"}
    for key in filter(lambda key: key.is_scalar, schema.leaves()):
        paths = [key.path] if schema.ANY_NAME not in key.path else []
        if key.path[:2] == ("agents", schema.ANY_NAME) and len(key.path) == 3:
            paths = [("agents", name, key.path[-1]) for name in names]
        for path in paths:
            name = schema.variable(path)
            if env.get(name):
                value = leaf(env[name], key.type, path, name, text=True)
                yield path, (value, Origin("environment", name))


def _nested(merged: _Merged) -> dict[str, object]:
    tree: dict[str, object] = {}
    for path, (value, _) in merged.items():
        folder = tree
        for part in path[:-1]:
            folder = folder.setdefault(part, {})  # type: ignore[assignment]  # only dicts inside
        folder[path[-1]] = value
    return tree


def _origins(merged: _Merged, config: Config) -> dict[str, Origin]:
    default = Origin("default", "default")
    paths = [key.path for key in schema.leaves() if schema.ANY_NAME not in key.path]
    for name, agent in config.agents.items():
        keys = ("use",) if agent.use else takes(agent.type)
        paths.extend(("agents", name, key) for key in keys if key != "env")
    free = [("verify",), ("fleet", "limits"), *(("agents", name, "env") for name in config.agents)]
    paths.extend(path for path in merged if path[:-1] in free)
    return {schema.dotted(path): merged.get(path, (None, default))[1] for path in paths}


def parse_limits(items: Sequence[str]) -> dict[str, dict[str, int | float]]:
    """Return the limits of a run and those of its day, as the tables of a configuration."""
    ours = [item for item in items if not item.strip().startswith(_NIGHT)]
    days = [item.strip().removeprefix(_NIGHT) for item in items if item not in ours]
    found = {"budgets": parse_budgets(ours), "night": parse_budgets(days, NightConfig)}
    return {name: limits for name, limits in found.items() if limits}


def parse_budgets(
    items: Sequence[str], table: type[msgspec.Struct] = BudgetsConfig, flag: str = "--budget"
) -> dict[str, int | float]:
    """Return the limits by name, or raise UsageError with the nearest name."""
    limits: dict[str, int | float] = {}
    known = schema.field_types(table) if items else {}
    for item in items:
        name, equals, text = (part.strip() for part in item.partition("="))
        if name not in known:
            raise UsageError(f"{flag} {name}: no such budget{hint(name, known, or_all=True)}")
        if not equals:
            raise UsageError(f"{flag} {item}: write it as {flag} {name}=NUMBER")
        if name in limits:
            raise UsageError(f"{flag} {name} is given twice")
        limits[name] = _limit(name, text, known[name], flag)
    return limits


def _limit(name: str, text: str, type_: object, flag: str) -> int | float:
    with contextlib.suppress(ConfigError):
        value = leaf(text, type_, ("budgets", name), flag, text=True)
        if isinstance(value, int | float):
            return value
    raise UsageError(f"{flag} {name} must be {schema.expectation(type_)}, not {text!r}")


def leaves(raw: Mapping[str, object], source: str) -> dict[schema.KeyPath, object]:
    """Return the source's values by key path, or raise ConfigError for the first bad one."""
    return dict(_table(raw, Config, (), source))


def leaf(
    value: object, type_: object, path: schema.KeyPath, source: str, *, text: bool = False
) -> object:
    """Return one value as its type wants it; `text` reads numbers and flags from strings."""
    try:
        found: object = msgspec.convert(value, type_, strict=not text)
    except msgspec.ValidationError as error:
        raise _wrong(
            source, path, f"must be {schema.expectation(type_)}, not {_short(value)}"
        ) from error
    if any("\0" in item for item in _strings(found)):
        raise _wrong(source, path, "must not contain a NUL character")
    if isinstance(found, tuple) and found[:1] == ("",):
        raise _wrong(source, path, "must begin with a program, not with an empty string")
    _check_meaning(found, path, source)
    return found


def _table(
    raw: object, struct: type[msgspec.Struct], path: schema.KeyPath, source: str
) -> Iterator[tuple[schema.KeyPath, object]]:
    known = schema.field_types(struct)
    # An agent's type decides what its other keys mean: complain about it first.
    for key, value in sorted(
        _mapping(raw, path, source).items(), key=lambda item: item[0] != "type"
    ):
        here = (*path, key)
        if key not in known:
            raise _unknown(source, here, known)
        yield from _value(value, known[key], here, source)


def _value(
    value: object, type_: object, path: schema.KeyPath, source: str
) -> Iterator[tuple[schema.KeyPath, object]]:
    inner = schema.table_of(type_)
    if inner is not None:
        for name, item in _mapping(value, path, source).items():
            _check_name(name, path, source)
            yield from _value(item, inner, (*path, name), source)
    elif isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        if type_ is SandboxConfig and isinstance(value, str):
            value = {"mode": value}
        yield from _table(value, type_, path, source)
    elif value is not None:
        yield path, leaf(value, type_, path, source)


def _mapping(value: object, path: schema.KeyPath, source: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise _wrong(source, path, f"must be a table, not {_short(value)}")
    return value


def _check_name(name: str, path: schema.KeyPath, source: str) -> None:
    if path == ("agents",) and not is_agent_id(name):
        raise _wrong(
            source,
            (*path, name),
            "is not a valid agent name; use lower-case letters, digits and . _ -",
        )
    if path[2:] == ("env",) and (environment.is_system(name) or not _VARIABLE.fullmatch(name)):
        raise _wrong(source, (*path, name), "is not a variable that an agent may be given")
    if not name.strip():
        raise _wrong(source, (*path, name), "needs a name that is not empty")


def _check_meaning(value: object, path: schema.KeyPath, source: str) -> None:
    """Apply the rules that a type cannot say."""
    where = (path[0], path[-1]) if path[0] == "agents" else path
    for fits, words in _RULES.get(where, ()):
        for text in _strings(value):
            if not fits(text):
                near = hint(text, BACKENDS) if where == ("agents", "type") else ""
                raise _wrong(source, path, f"must {words}, not {_short(mask(text))}{near}")


def _is_inside(value: str) -> bool:
    path = PurePosixPath(value)
    return not path.is_absolute() and ".." not in path.parts


def _fits_branch(value: str) -> bool:
    name = value.replace("{run_id}", "20250101-000000-000000")
    return "{" not in name and "}" not in name and not _UNFIT_FOR_BRANCH.search(name)


def _can_be_expected(value: str) -> bool:
    path = value.removeprefix("junit:")
    return bool(_TESTS.fullmatch(value)) or (path not in ("", value) and _is_inside(path))


# What each key's text must be, and how that is said.
_RULES: dict[schema.KeyPath, list[tuple[Callable[[str], bool], str]]] = {
    ("agents", "type"): [(lambda text: text in BACKENDS, f"be one of {', '.join(BACKENDS)}")],
    ("agents", "path"): [(_is_inside, "be a folder inside the repository")],
    ("checks", "expect"): [
        (_can_be_expected, "be junit:PATH with a path inside the repository, or tests>=N")
    ],
    ("store",): [(lambda text: text.startswith(STORES), f"begin with {' or '.join(STORES)}")],
    ("store_schema",): [(is_schema, "be lower-case letters, digits and _")],
    ("workspace", "branch"): [
        (lambda text: "{run_id}" in text, "contain {run_id}, so that every run has its own branch"),
        (_fits_branch, "be a name that git takes for a branch"),
    ],
    ("workspace", "root"): [
        (lambda text: text.startswith(("/", "~/")), "be an absolute folder or begin with ~/")
    ],
}


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        yield from (item for item in value if isinstance(item, str))


def _unknown(source: str, path: schema.KeyPath, known: Mapping[str, object]) -> ConfigError:
    return _wrong(source, path, f"is not a key{hint(path[-1], known, or_all=True)}")


def _wrong(source: str, path: schema.KeyPath, complaint: str) -> ConfigError:
    key = schema.dotted(path)
    return wrong(source, f"{key} {complaint}", key)


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
