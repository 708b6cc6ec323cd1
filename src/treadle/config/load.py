"""Lay the sources of a configuration over each other and remember where each value came from."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from treadle import layout as user_paths
from treadle.config import agents, complain, schema
from treadle.config.early import read_file
from treadle.config.schema import AgentConfig, BudgetsConfig, Config, takes
from treadle.errors import ConfigError, UsageError
from treadle.ids import hint
from treadle.layout import Layout

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
        _lay_over(merged, complain.leaves(raw, origin.source), origin)
    merged.update(_environment(merged, env))
    flags = Origin("flag", "command line")
    merged.update(_with(complain.leaves(overrides or {}, flags.source), flags))
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
            value = complain.leaf(env[name], key.type, key.path, name, text=True)
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
        value = complain.leaf(text, type_, ("budgets", name), "--budget", text=True)
    except ConfigError as error:
        raise UsageError(complaint) from error
    if not isinstance(value, int | float):
        raise UsageError(complaint)
    return value
