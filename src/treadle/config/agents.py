"""Find the agent that plays a role, and the program it runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from treadle.config import schema, wrong
from treadle.config.schema import BACKENDS, AgentConfig, Config, owners, takes
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
            return f"{key}.{extra} is only for {' and '.join(owners(extra))} agents, not {type_}"
    for need in BACKENDS[type_].needs:
        if need not in table:
            what = schema.expectation(schema.field_types(AgentConfig)[need])
            return f"{key}.{need} is missing; {type_} agents need {what}"
    if type_ == "acp" and ("cmd" in table) == ("preset" in table):
        return f"{key} needs cmd or preset, one of them"
    return None


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


def _is_known(name: str, known: Mapping[str, object]) -> bool:
    return name in known or name == BUILTIN
