"""What a run was asked to do, frozen when it starts."""

from collections.abc import Iterable, Mapping, Sequence

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
from treadle.tasks import checks as criteria_flags
from treadle.tasks import markdown


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
    digest: str | None = None
    parent: str | None = None
    depth: int = 0


class Script(Struct, frozen=True, kw_only=True):
    """A routine of the project's own: what to execute, where, and with which fields."""

    argv: tuple[str, ...]
    in_project: bool = False
    env: dict[str, str] = {}


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

    def agent(self, role: Role) -> NamedAgent:
        """Return who has this role."""
        return self.agents[role]

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
        budgets=config.budgets,
        agents=named(config, ROLES, swaps),
        checks=config.checks,
        workspace=config.workspace,
        sandbox=config.sandbox,
        network=config.network,
        task_id=task_id,
    )


def short_goal(text: str) -> str:
    """Return the first heading or line, at most 200 characters."""
    return markdown.title(text) or text.strip()[: markdown.MAX_TITLE]


def named(config: Config, roles: Iterable[str], swaps: Mapping[str, str]) -> dict[str, NamedAgent]:
    """Return who has each of these roles."""
    found = {role: agents.resolve(config, role, swaps) for role in roles}
    return {role: NamedAgent(name=name, config=agent) for role, (name, agent) in found.items()}
