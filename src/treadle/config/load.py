"""Lay the sources of a configuration over each other and remember where each value came from."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

import msgspec

from treadle import layout as user_paths
from treadle.config import agents, schema
from treadle.config.early import read_file, wrong
from treadle.config.schema import BACKENDS, AgentConfig, BudgetsConfig, Config, SandboxConfig, takes
from treadle.errors import ConfigError, UsageError
from treadle.ids import STORES, hint, is_schema, mask
from treadle.layout import Layout

AGENT_NAME = re.compile(r"[a-z][a-z0-9]*([._-][a-z0-9]+)*")
_TESTS = re.compile(r"tests>=[1-9][0-9]{0,6}")
_UNFIT_FOR_BRANCH = re.compile(
    r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|//|@\{|/\.|\.lock(/|\Z)|\A[-/.]|[/.]\Z"
)


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
    if path == ("agents",) and not (AGENT_NAME.fullmatch(name) and len(name) <= 64):
        raise _wrong(
            source,
            (*path, name),
            "is not a valid agent name; use lower-case letters, digits and . _ -",
        )
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


OriginKind = Literal["default", "user", "project", "environment", "flag"]


class Origin(NamedTuple):
    """Where a value came from: the kind of source, and the file or variable itself."""

    kind: OriginKind
    source: str


class Loaded(NamedTuple):
    """A configuration and, for every key in force, its origin."""

    config: Config
    origins: Mapping[str, Origin]


class _Value(NamedTuple):
    value: object
    origin: Origin


_Merged = dict[schema.KeyPath, _Value]


def load(
    layout: Layout, env: Mapping[str, str], overrides: Mapping[str, object] | None = None
) -> Loaded:
    """Return what is in force; `overrides` has the shape of a file and holds what flags said."""
    merged: _Merged = {}
    for origin, raw in _files(layout, env):
        _lay_over(merged, leaves(raw, origin.source), origin)
    merged.update(_environment(merged, env))
    flags = Origin("flag", "command line")
    merged.update(_with(leaves(overrides or {}, flags.source), flags))
    agents.check({path: (item.value, item.origin.source) for path, item in merged.items()})
    config = msgspec.convert(_nested(merged), Config)
    return Loaded(config, _origins(merged, config))


def _files(layout: Layout, env: Mapping[str, str]) -> Iterator[tuple[Origin, dict[str, object]]]:
    user = user_paths.user_config(env)
    if user.is_file():
        yield Origin("user", str(user)), read_file(user, name=str(user))
    found = layout.config_files()
    if len(found) > 1:
        first, second = (layout.relative(path) for path in found)
        raise ConfigError(
            f"{first} and {second} are both there; keep one of them", fix=[f"rm {second}"]
        )
    for path in found:
        name = layout.relative(path)
        yield Origin("project", name), read_file(path, name=name)


def _lay_over(merged: _Merged, values: dict[schema.KeyPath, object], origin: Origin) -> None:
    """Put a file's values on top; an agent it names replaces the one below as a whole."""
    named = {path[:2] for path in values if path[0] == "agents"}
    for path in [path for path in merged if path[:2] in named]:
        del merged[path]
    merged.update(_with(values, origin))


def _with(values: dict[schema.KeyPath, object], origin: Origin) -> _Merged:
    return {path: _Value(value, origin) for path, value in values.items()}


def _environment(merged: _Merged, env: Mapping[str, str]) -> _Merged:
    found: _Merged = {}
    for key in _settable(merged):
        name = schema.variable(key.path)
        if env.get(name):
            value = leaf(env[name], key.type, key.path, name, text=True)
            found[key.path] = _Value(value, Origin("environment", name))
    return found


def _settable(merged: _Merged) -> Iterator[schema.ConfigKey]:
    """Yield the scalar keys with a fixed name, and those of every agent the files name."""
    names = {path[1] for path in merged if path[0] == "agents"}
    for key in schema.leaves():
        if not key.is_scalar:
            continue
        if schema.ANY_NAME not in key.path:
            yield key
        elif key.path[0] == "agents":
            for name in names:
                yield key._replace(path=("agents", name, key.path[-1]))


def _nested(merged: _Merged) -> dict[str, object]:
    tree: dict[str, object] = {}
    for path, item in merged.items():
        folder = tree
        for part in path[:-1]:
            folder = folder.setdefault(part, {})  # type: ignore[assignment]  # only dicts inside
        folder[path[-1]] = item.value
    return tree


def _origins(merged: _Merged, config: Config) -> dict[str, Origin]:
    default = Origin("default", "default")
    paths = [key.path for key in schema.leaves() if schema.ANY_NAME not in key.path]
    for name, agent in config.agents.items():
        paths.extend(("agents", name, key) for key in agent_keys(agent))
    paths.extend(path for path in merged if path[0] == "verify")
    return {
        schema.dotted(path): merged[path].origin if path in merged else default for path in paths
    }


def agent_keys(agent: AgentConfig) -> tuple[str, ...]:
    """Return the keys that mean something for this agent."""
    return ("use",) if agent.use else takes(agent.type)


def parse_budgets(items: Sequence[str]) -> dict[str, int | float]:
    """Return the limits by name, or raise UsageError with the nearest name."""
    limits: dict[str, int | float] = {}
    for item in items:
        name, value = _split(item)
        if name in limits:
            raise UsageError(f"--budget {name} is given twice")
        limits[name] = value
    return limits


def _split(item: str) -> tuple[str, int | float]:
    known = schema.field_types(BudgetsConfig)
    name, equals, text = (part.strip() for part in item.partition("="))
    if name not in known:
        raise UsageError(f"--budget {name}: no such budget{hint(name, known, or_all=True)}")
    if not equals:
        raise UsageError(f"--budget {item}: write it as --budget {name}=NUMBER")
    return name, _number(name, text, known[name])


def _number(name: str, text: str, type_: object) -> int | float:
    complaint = f"--budget {name} must be {schema.expectation(type_)}, not {text!r}"
    try:
        value = leaf(text, type_, ("budgets", name), "--budget", text=True)
    except ConfigError as error:
        raise UsageError(complaint) from error
    if not isinstance(value, int | float):
        raise UsageError(complaint)
    return value
