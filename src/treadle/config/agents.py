"""Find the agent that plays a role, and the program it runs."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from msgspec import structs

from treadle.config import schema, wrong
from treadle.config.schema import (
    BACKENDS,
    TOOLS,
    AgentConfig,
    Config,
    RoutineConfig,
    owners,
    takes,
)
from treadle.contract import ROLES
from treadle.errors import ConfigError, UsageError
from treadle.ids import hint

BUILTIN = "builtin"


def resolve(
    config: Config, role: str, swaps: Mapping[str, str] | None = None
) -> tuple[str, AgentConfig]:
    """Return the name and configuration of who plays `role`; without an agent, the builtin one."""
    name = (swaps or {}).get(role)
    if name is None:
        name = role if role in config.agents else BUILTIN
    elif not _is_known(name, config.agents):
        near = hint(name, [*config.agents, BUILTIN], or_all=True)
        text = f"--agent {role}={name}: no such agent{near}"
        raise ConfigError(text, fix=["treadle config show"])
    agent = config.agents.get(name, AgentConfig())
    if agent.use:
        return agent.use, config.agents.get(agent.use, AgentConfig())
    return name, agent


def routine(config: Config, name: str) -> RoutineConfig:
    """Return what a routine may reach: what all may, and what its own table adds or changes."""
    usual, own = config.routine, config.routines.get(name, RoutineConfig())
    return RoutineConfig(
        env_allow=(*usual.env_allow, *own.env_allow),
        network=own.network or usual.network,
        writable=(*usual.writable, *own.writable),
        unix_sockets=usual.unix_sockets if own.unix_sockets is None else own.unix_sockets,
        timeout=own.timeout or usual.timeout,
    )


def parse_swaps(items: Sequence[str], flag: str = "--agent") -> dict[str, str]:
    """Read `--agent role=NAME` flags."""
    swaps: dict[str, str] = {}
    for item in items:
        role, equals, name = (part.strip() for part in item.partition("="))
        if not equals or not name:
            raise UsageError(f"{flag} {item!r}: write it as {flag} role=NAME")
        if role not in ROLES:
            raise UsageError(f"{flag} {role}: the roles are {', '.join(ROLES)}")
        if role in swaps:
            raise UsageError(f"{flag} {role} is given twice")
        swaps[role] = name
    return swaps


def find_try(config: Config, text: str) -> tuple[str, AgentConfig]:
    """Return the agent that `--try NAME` or `--try NAME:MODEL` names.

    It is an agent of the configuration, one that is this tool, or else the tool without settings.
    """
    name, _, model = text.partition(":")
    own = [it for it, agent in config.agents.items() if agent.type == name and not agent.use]
    if _is_known(name, config.agents):
        name, agent = resolve(config, name, {name: name})
    elif own:
        name, agent = own[0], config.agents[own[0]]
    elif name in TOOLS:
        agent = AgentConfig(type=name)
    else:
        near = hint(name, [*config.agents, *TOOLS], or_all=True)
        text = f"--try {name}: no agent or tool has this name{near}"
        raise UsageError(text, fix=["treadle config show"])
    if not model:
        return name, agent
    if "model" not in takes(agent.type) or (agent.type == "command" and not agent.model):
        raise UsageError(f"--try {text}: agent {name} ({agent.type}) takes no model from treadle")
    return name, structs.replace(agent, model=model)


def secrets(config: Config) -> dict[str, str]:
    """Return the variables that agents are given, by names of which no two are the same."""
    return {
        f"{name}.{key}": value
        for name, agent in config.agents.items()
        for key, value in agent.env.items()
    }


def closing_key(
    network: str, checks: str | None, used: Iterable[tuple[str, AgentConfig]]
) -> str | None:
    """Return the first key that closes the network to somebody; None if it is open to all."""
    found = [("network", network), ("checks.network", checks)]
    found += [(f"agents.{name}.network", agent.network) for name, agent in used]
    return next((key for key, value in found if value == "none"), None)


def argv(root: Path, agent: AgentConfig) -> tuple[str, ...]:
    """Return what to execute; a relative program is one of the project's own files."""
    words = agent.cmd or agent.run or ()
    if words and is_in_project(words[0]):
        return (str(root / words[0]), *words[1:])
    return words


def is_in_project(program: str) -> bool:
    """Tell whether a program is named by a path relative to the project."""
    return "/" in program and not program.startswith("/")


def check(values: Mapping[schema.KeyPath, tuple[object, str]]) -> None:
    """Refuse agents whose keys do not fit together; values come with their source's name."""
    tables: dict[str, dict[str, object]] = {}
    sources: dict[str, str] = {}
    for path, (value, source) in values.items():
        if path[0] == "agents":
            tables.setdefault(path[1], {})[path[2]] = value
            sources[path[1]] = source
    for name, table in tables.items():
        if complaint := _complaint(name, table, tables):
            raise wrong(sources[name], complaint, schema.dotted(("agents", name)))


def _complaint(
    name: str, table: Mapping[str, object], tables: Mapping[str, Mapping[str, object]]
) -> str | None:
    key = schema.dotted(("agents", name))
    if "use" in table:
        return _use_complaint(key, table, tables)
    if "type" not in table:
        return f"{key}.type is missing; it must be one of {', '.join(BACKENDS)}"
    type_ = str(table["type"])
    for extra in table:
        if extra not in takes(type_):
            return f"{key}.{extra} is only for {', '.join(owners(extra))} agents, not {type_}"
    for need in BACKENDS[type_].needs:
        if need not in table:
            what = schema.expectation(schema.field_types(AgentConfig)[need])
            return f"{key}.{need} is missing; {type_} agents need {what}"
    if complaint := _fallback_complaint(f"{key}.fallback", name, table, tables):
        return complaint
    if type_ == "acp" and ("cmd" in table) == ("preset" in table):
        return f"{key} needs cmd or preset, one of them"
    if type_ == "command":
        return _place_complaint(key, table) or _usage_complaint(key, str(table.get("usage", "")))
    return None


# What stands in braces in the command line of a `command` agent.
PLACES = ("prompt", "prompt_file", "step", "workspace", "model")
PLACE = re.compile(r"\{(\w+)\}")
USAGE = ("input", "cached", "output", "cost")
# A set, the beginning of a group, its end, an alternative, a repeat, or any other character.
_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\??|\)|\||(?:[*+?]|\{\d*,?\d*\})[?+]?|.", re.DOTALL
)


def _place_complaint(key: str, table: Mapping[str, object]) -> str | None:
    """Say what is wrong with the places in a command line, if something is."""
    words = table["cmd"] if isinstance(table["cmd"], tuple) else ()
    used = {place for word in words for place in PLACE.findall(word)}
    for place in sorted(used - {*PLACES}):
        near = hint(place, PLACES, or_all=True)
        spaced = f"; literal braces need spaces: {{ {place} }}"
        return f"{key}.cmd: {{{place}}} is not a placeholder{near}{spaced}"
    way = table.get("prompt", "stdin")
    for place, its_way in (("prompt", "argument"), ("prompt_file", "file")):
        if (place in used) == (way == its_way):
            continue
        if place in used:
            return f'{key}.cmd has {{{place}}}, which needs {key}.prompt = "{its_way}"'
        return f'{key}.prompt is "{way}", so {key}.cmd must have {{{place}}} in it'
    if ("model" in used) != ("model" in table):
        missing = f"{key}.model is missing" if "model" in used else f"{key}.cmd has no {{model}}"
        return f"{missing}; {key}.model takes the place of {{model}} in {key}.cmd"
    return None


def _usage_complaint(key: str, pattern: str) -> str | None:
    """Say what is wrong with a pattern for usage; without one, nothing."""
    try:
        named = re.compile(pattern).groupindex
    except (re.error, OverflowError, RecursionError) as error:
        return f"{key}.usage is not a regular expression: {error}"
    if pattern and not {*named} & {*USAGE}:
        groups = ", ".join(f"(?P<{name}>…)" for name in USAGE)
        return f"{key}.usage finds nothing; name what it finds by one or more of {groups}"
    for name in sorted({*named} - {*USAGE}):
        return f"{key}.usage: no group can be called {name!r}{hint(name, USAGE, or_all=True)}"
    if _may_not_end(pattern):
        return (
            f"{key}.usage repeats a group that has a repeat, a choice or an optional part in it,"
            " which can take for ever; write it without that, such as [0-9.,]+"
        )
    return None


def _may_not_end(pattern: str) -> bool:
    """Tell whether a repeated group could match one text in many ways."""
    tokens, groups = [*_TOKEN.findall(pattern), ""], [False]  # whether each open group varies
    for token, after in pairwise(tokens):
        if token in ("(", "(?"):
            groups.append(False)
        elif token == ")":
            varies = groups.pop()
            if varies and (after[:1] in ("*", "+") or (after[:1] == "{" and len(after) > 1)):
                return True
            groups[-1] |= varies
        elif token[:1] in ("|", "*", "+", "?") or (token[:1] == "{" and "," in token):
            groups[-1] = True
    return False


def _use_complaint(
    key: str, table: Mapping[str, object], tables: Mapping[str, Mapping[str, object]]
) -> str | None:
    target = str(table["use"])
    others = [extra for extra in table if extra != "use"]
    if others:
        return f"{key}.use stands alone; move {key}.{others[0]} to agents.{target}"
    if not _is_known(target, tables):
        near = hint(target, [*tables, BUILTIN], or_all=True)
        return f"{key}.use: no agent is called {target!r}{near}"
    if "use" in tables.get(target, {}):
        return f"{key}.use: {target!r} itself uses another agent; name that one"
    return None


def _fallback_complaint(
    key: str, name: str, table: Mapping[str, object], tables: Mapping[str, Mapping[str, object]]
) -> str | None:
    listed = table.get("fallback", ())
    assert isinstance(listed, list | tuple)
    for other in listed:
        if other == name:
            return f"{key}: {other!r} cannot stand in for itself"
        if other not in tables:
            others = [it for it in tables if it != name]
            return f"{key}: no agent is called {other!r}{hint(other, others, or_all=True)}"
    return None


def _is_known(name: str, known: Mapping[str, object]) -> bool:
    return name in known or name == BUILTIN
