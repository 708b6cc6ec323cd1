"""What a run was asked to do, frozen when it starts."""

from collections.abc import Mapping, Sequence

from msgspec import UNSET, Struct

from treadle.config import agents
from treadle.config.schema import (
    AgentConfig,
    BudgetsConfig,
    ChecksConfig,
    Config,
    Network,
    SandboxConfig,
    WorkspaceConfig,
)
from treadle.contract.criterion import Criterion
from treadle.contract.request import AskedCriterion
from treadle.contract.role import ROLES, Role
from treadle.tasks import criteria as criteria_flags

GOAL_LENGTH = 200


class NamedAgent(Struct, frozen=True, kw_only=True):
    """An agent as it was configured when the run began."""

    name: str
    config: AgentConfig


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

    def agent(self, role: Role) -> NamedAgent:
        """Return who has this role."""
        return self.agents[role]

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
    known = criteria_flags.with_config(criteria, config.verify)
    return Order(
        goal=short_goal(text),
        text=text,
        criteria=tuple(
            AskedCriterion(id=item.id, text=item.text, verify=item.verify or UNSET)
            for item in known
        ),
        budgets=config.budgets,
        agents={role: _named(config, role, swaps) for role in ROLES},
        checks=config.checks,
        workspace=config.workspace,
        sandbox=config.sandbox,
        network=config.network,
        task_id=task_id,
    )


def short_goal(text: str) -> str:
    """Return the first heading or line, at most 200 characters."""
    for line in text.splitlines():
        if words := line.strip().lstrip("#").strip():
            return words if len(words) <= GOAL_LENGTH else words[: GOAL_LENGTH - 1] + "…"
    return text.strip()[:GOAL_LENGTH]


def _named(config: Config, role: Role, swaps: Mapping[str, str]) -> NamedAgent:
    name, agent = agents.resolve(config, role, swaps)
    return NamedAgent(name=name, config=agent)
