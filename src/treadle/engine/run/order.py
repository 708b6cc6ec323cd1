"""What a run was asked to do, frozen when it starts, and how much of it today's settings allow."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from msgspec import UNSET, Struct, structs

from treadle import markdown
from treadle.config import agents
from treadle.config.schema import (
    AgentConfig,
    Approval,
    BudgetsConfig,
    ChecksConfig,
    Config,
    Network,
    PolicyConfig,
    RoutineConfig,
    SandboxConfig,
    WorkspaceConfig,
)
from treadle.contract import ROLES, Criterion, Role
from treadle.contract.messages import AskedCriterion
from treadle.engine.run.memory import Spent
from treadle.errors import ConfigError, argument
from treadle.tasks import task as criteria_flags

_TAKEN_OVER = ("budgets", "checks", "workspace", "sandbox", "network", "approve", "policy")


class NamedAgent(Struct, frozen=True, kw_only=True):
    """An agent as it was configured when the run began."""

    name: str
    config: AgentConfig


class MessageOrder(Struct, frozen=True, kw_only=True):
    """The message that a run carries out, and how its routine was chosen."""

    id: str
    chain: str
    seq: int
    type: str
    routine: str
    source: str
    reason: str
    input_file: str | None = None
    spec: str | None = None
    spec_digest: str | None = None
    spec_text: str | None = None
    digest: str | None = None
    parent: str | None = None
    depth: int = 0


class Script(Struct, frozen=True, kw_only=True):
    """A routine of the project's own: what to execute, where, and with which fields."""

    argv: tuple[str, ...]
    in_project: bool = False
    env: dict[str, str] = {}
    unix_sockets: bool = False


class Order(Struct, frozen=True, kw_only=True):
    """Goal, criteria, limits and agents of one run; later edits of the config don't reach it."""

    goal: str
    text: str
    criteria: tuple[AskedCriterion, ...]
    budgets: BudgetsConfig
    agents: dict[str, NamedAgent]
    checks: ChecksConfig
    workspace: WorkspaceConfig
    sandbox: SandboxConfig = SandboxConfig()
    network: Network = "full"
    task_id: str | None = None
    message: MessageOrder | None = None
    script: Script | None = None
    images: tuple[str, ...] = ()  # of the task, in the run's folder
    approve: tuple[Approval, ...] = ()
    policy: PolicyConfig = PolicyConfig()

    def agent(self, role: Role) -> NamedAgent:
        """Return who has this role."""
        return self.agents[role]

    @property
    def name(self) -> str | None:
        """Return the task or the spec that it is about."""
        return self.task_id or (self.message.spec if self.message else None)

    @property
    def in_project(self) -> bool:
        """Tell whether the run works in the user's own checkout instead of a workspace."""
        return self.script is not None and self.script.in_project

    @property
    def commands(self) -> tuple[AskedCriterion, ...]:
        """Return the criteria that treadle can observe itself."""
        return tuple(item for item in self.criteria if item.verify is not UNSET)

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids of all criteria."""
        return tuple(item.id for item in self.criteria)


def freeze(
    config: Config,
    *,
    text: str,
    criteria: Sequence[Criterion],
    swaps: Mapping[str, str],
    task_id: str | None,
) -> Order:
    """Write down what was asked, with the configuration of this moment."""
    known = criteria_flags.with_configured_commands(criteria, config.verify)
    return Order(
        goal=short_goal(text),
        text=text,
        criteria=tuple(
            AskedCriterion(id=item.id, text=item.text, verify=item.verify or UNSET)
            for item in known
        ),
        agents=named(config, ROLES, swaps),
        task_id=task_id,
        **_taken_over(config),
    )


def freeze_script(config: Config, *, text: str, message: MessageOrder, script: Script) -> Order:
    """Write down what was asked of a routine, with the configuration of this moment."""
    limit = config.agents["do"].timeout if "do" in config.agents else AgentConfig().timeout
    asked = agents.routine(config, message.routine)
    own = _granted(asked, type="builtin", run=script.argv, timeout=asked.timeout or limit)
    worker = NamedAgent(name=message.routine, config=own)
    nobody = NamedAgent(name="builtin", config=AgentConfig())
    return Order(
        goal=markdown.title(text) or f"message {message.id}",
        text=text,
        criteria=(),
        agents={role: worker if role == "do" else nobody for role in ROLES},
        message=message,
        script=structs.replace(script, unix_sockets=bool(asked.unix_sockets)),
        **_taken_over(config),
    )


def _granted(asked: RoutineConfig, **known: Any) -> AgentConfig:
    """Return a routine as the agent that it is in a run."""
    return AgentConfig(
        env_allow=asked.env_allow, writable=asked.writable, network=asked.network, **known
    )


def _taken_over(config: Config) -> dict[str, Any]:
    return {name: getattr(config, name) for name in _TAKEN_OVER}


def with_note(text: str, note: str | None) -> str:
    """Return what is asked with what a person says to it."""
    return f"{text}\n\nA person says:\n\n{note.strip()}" if note and note.strip() else text


def short_goal(text: str) -> str:
    """Return the first heading or line, at most 200 characters."""
    return markdown.title(text) or text.strip()[: markdown.MAX_TITLE]


def tried(config: Config, order: Order, text: str) -> Order:
    """Return the order with the agent that `text` names in place of the one that does the work.

    It has do and act, and plan where that was the same agent's; who checks is the same for all.
    """
    name, agent = agents.find_try(config, text)
    plans = order.agent("plan") == order.agent("do") and order.agent("plan").name != agents.BUILTIN
    roles = ("plan", "do", "act") if plans else ("do", "act")
    found = dict.fromkeys(roles, _without_variables(name, agent))
    return structs.replace(order, agents=order.agents | found)


def named(config: Config, roles: Iterable[str], swaps: Mapping[str, str]) -> dict[str, NamedAgent]:
    """Return who has each of these roles."""
    return {role: _without_variables(*agents.resolve(config, role, swaps)) for role in roles}


def _without_variables(name: str, agent: AgentConfig) -> NamedAgent:
    """Return an agent as orders have it: variables may be secret, and are written nowhere."""
    return NamedAgent(name=name, config=structs.replace(agent, env={}))


def variables(agent: NamedAgent, today: Config) -> Mapping[str, str]:
    """Return the variables that today's configuration gives to an agent."""
    return _own(today, agent.name).env if is_known(agent, today) else {}


def equipped(agent: NamedAgent, today: Config) -> AgentConfig:
    """Return what an agent works with: its configuration with its variables."""
    return structs.replace(agent.config, env=dict(variables(agent, today)))


def stand_ins(agent: NamedAgent, today: Config) -> Iterator[NamedAgent]:
    """Yield who may take an agent's place, as far as today's configuration has them."""
    for at, name in enumerate(agent.config.fallback, 1):
        with contextlib.suppress(ConfigError):
            (found,) = named(today, (name,), {name: name}).values()
            left = structs.replace(found.config, fallback=agent.config.fallback[at:])
            yield NamedAgent(name=found.name, config=left)


C = TypeVar("C", bound=Struct)
_Rule = Callable[[Any, Any], Any]

# From loose to strict.
_MODES = ("off", "auto", "required")
_TIERS = ("B", "A")
_NETWORKS = ("full", "none")
_PLACES = ("workspace", "clean")
_CACHES = ("shared", "private")
_FLAKY_MODES = ("pass", "fail")
_PROTECT_MODES = ("warn", "fail", "ask")
# What tells one program from another; what is granted to one is not granted to the next.
_PROGRAM = ("type", "cmd", "run", "preset", "extra_args")
_ADVISED = ("timeout", "idle_timeout", "model", "prices", "retry_wait", "patience")


def held_to(order: Order, floor: Config) -> Order:
    """Return the order with nothing looser in it than `floor`, whoever wrote it.

    What no rule knows is the floor's in the sandbox, and the order's elsewhere. An agent is granted
    variables, folders and network if the floor has an agent of its name that runs the same program.
    """
    network = _stricter(_NETWORKS)(order.network, floor.network)
    held = _hold(order.checks, floor.checks, _CHECKS)
    wanted = _network(order.checks.network or order.network, floor.checks.network or floor.network)
    return structs.replace(
        order,
        script=_script(order, floor),
        sandbox=_sandbox(order.sandbox, floor.sandbox),
        network=network,
        policy=_hold(order.policy, floor.policy, _POLICY),
        checks=structs.replace(held, network=_said(order.checks.network, network, wanted)),
        agents={
            role: structs.replace(agent, config=_agent(order, agent, network, floor))
            for role, agent in order.agents.items()
        },
    )


def lowered(before: Order, after: Order) -> list[str]:
    """Return the keys of an order that were held to something stricter, as a config spells them."""
    found = [*_differing("sandbox", before.sandbox, after.sandbox)]
    found += ["network"] if before.network != after.network else []
    found += _differing("checks", before.checks, after.checks)
    found += _differing("policy", before.policy, after.policy)
    agents = {item.name: (item, after.agents[role]) for role, item in before.agents.items()}
    for name, (asked, held) in agents.items():
        found += _differing(f"agents.{name}", asked.config, held.config)
    return found


def is_known(agent: NamedAgent, floor: Config) -> bool:
    """Tell whether the floor has an agent of this name that runs the same program."""
    known = _own(floor, agent.name)
    return all(getattr(agent.config, key) == getattr(known, key) for key in _PROGRAM)


def mended(agent: NamedAgent, today: Config) -> NamedAgent:
    """Return an agent with what a person may have set after its trouble, as they were told to."""
    if not is_known(agent, today):
        return agent
    own = _own(today, agent.name)
    now = {key: getattr(own, key) for key in _ADVISED}
    return structs.replace(agent, config=structs.replace(agent.config, **now))


def names_in_both(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    """Return what both lists of variables allow; a final `*` stands for any ending."""
    other = tuple(second)
    pairs = ((one, two) for one in first for two in other)
    return tuple(dict.fromkeys(found for pair in pairs if (found := _overlap(*pair))))


def places_in_both(asked: Iterable[str], allowed: Iterable[str]) -> tuple[str, ...]:
    """Return the allowed folders that were asked for, themselves or with what is around them.

    A folder inside an allowed one is not granted: it may be a link that leads elsewhere.
    """
    wanted = tuple(f"{path.rstrip('/')}/" for path in asked)
    return tuple(path for path in allowed if f"{path.rstrip('/')}/".startswith(wanted))


def _stricter(ranks: tuple[str, ...]) -> _Rule:
    return lambda asked, held: max(asked, held, key=ranks.index)


def _union(asked: tuple[str, ...], held: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*asked, *held)))


def _lower(asked: float | None, held: float | None) -> float | None:
    """Return the smaller limit; None is none."""
    return min((limit for limit in (asked, held) if limit is not None), default=None)


def _all_expected(
    asked: tuple[str, ...] | str, held: tuple[str, ...] | str
) -> tuple[str, ...] | str:
    """Return what either expects, as it was written where that is all."""
    both = [(item,) if isinstance(item, str) else item for item in (asked, held)]
    found = _union(*both)
    return asked if found == both[0] else found


_network = _stricter(_NETWORKS)
_SANDBOX: Mapping[str, _Rule] = {
    "mode": _stricter(_MODES),
    "tier": _stricter(_TIERS),
    "hide": _union,
    "read": places_in_both,
    **dict.fromkeys(("memory_mb", "processes", "disk_mb"), _lower),
}
_GRANTS: Mapping[str, _Rule] = {"env_allow": names_in_both, "writable": places_in_both}
_CHECKS: Mapping[str, _Rule] = {
    **_GRANTS,
    "unix_sockets": lambda asked, held: asked and held,
    "caches": _stricter(_CACHES),
    "place": _stricter(_PLACES),
    "protect": _union,
    "protect_mode": _stricter(_PROTECT_MODES),
    "flaky": _stricter(_FLAKY_MODES),
    "repeat": _lower,
    "expect": _all_expected,
}


_RULES: Mapping[str, _Rule] = {
    "allow": lambda asked, held: tuple(glob for glob in asked if glob in held),
    "ask": _union,
    "deny": _union,
}
_POLICY: Mapping[str, _Rule] = {
    **_RULES,
    **dict.fromkeys(("do", "act"), lambda asked, held: _hold(asked, held, _RULES)),
}


def _sandbox(asked: SandboxConfig, held: SandboxConfig) -> SandboxConfig:
    known = {name: getattr(asked, name) for name in asked.__struct_fields__ if name in _SANDBOX}
    return _hold(structs.replace(held, **known), held, _SANDBOX)


def _hold(asked: C, held: C, rules: Mapping[str, _Rule]) -> C:
    names = [name for name in asked.__struct_fields__ if name in rules]
    found = {name: rules[name](getattr(asked, name), getattr(held, name)) for name in names}
    return structs.replace(asked, **found)


def _agent(order: Order, agent: NamedAgent, network: Network, floor: Config) -> AgentConfig:
    asked = agent.config
    known = _own(floor, agent.name) if is_known(agent, floor) else AgentConfig()
    if order.script and asked.run == order.script.argv:
        known = _granted(agents.routine(floor, agent.name))
    wanted = _network(asked.network or order.network, known.network or floor.network)
    held = _hold(asked, known, _GRANTS)
    return structs.replace(held, network=_said(asked.network, network, wanted))


def _script(order: Order, floor: Config) -> Script | None:
    if order.script is None or order.message is None:
        return order.script
    allowed = bool(agents.routine(floor, order.message.routine).unix_sockets)
    return structs.replace(order.script, unix_sockets=order.script.unix_sockets and allowed)


def _own(floor: Config, name: str) -> AgentConfig:
    found = floor.agents.get(name, AgentConfig())
    return floor.agents.get(found.use, found) if found.use else found


def _said(asked: Network | None, general: Network, wanted: Network) -> Network | None:
    """Keep what was written where it comes to the same."""
    return asked if (asked or general) == wanted else wanted


def _overlap(one: str, two: str) -> str | None:
    for wide, narrow in ((one, two), (two, one)):
        if narrow == wide or (wide.endswith("*") and narrow.startswith(wide[:-1])):
            return narrow
    return None


def _differing(name: str, before: C, after: C) -> list[str]:
    keys = before.__struct_fields__
    return [f"{name}.{key}" for key in keys if getattr(before, key) != getattr(after, key)]


RISKY_FILES = "max_risky_files"


class Exceeded(NamedTuple):
    """The budget that stops the run."""

    key: str
    limit: float
    used: float

    @property
    def sentence(self) -> str:
        """Say it to the user."""
        verb = "was" if self.used == 1 else "were"
        return f"{self.key} is {self.limit:g} and {self.used:g} {verb} used"

    @property
    def needed(self) -> str:
        """Return the setting with which the run can go on."""
        return f"{self.key}={max(2 * self.limit, self.used + 1):g}"


def exceeded_budget(budgets: BudgetsConfig, spent: Spent) -> Exceeded | None:
    """Return the first amount that is used up before another step may begin."""
    for name, used in spent._asdict().items():
        limit = getattr(budgets, f"max_{name}")
        if limit is not None and used >= limit:
            return Exceeded(f"max_{name}", limit, round(used, 3))
    return None


def after_conflict(order: Order, run_id: str) -> list[str]:
    """Return what goes on with a change that conflicts; a script does its work anew."""
    message = order.message
    if order.script is None or message is None:
        return [f"treadle rebase {run_id}"]
    again = f"spec retry {argument(message.spec)}" if message.spec else f"dead retry {message.id}"
    return [f"treadle {again}", "treadle process"]
