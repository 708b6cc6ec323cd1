"""Decide when a run has used up what it was given."""

from msgspec import Struct, structs

from treadle.config.schema import BudgetsConfig
from treadle.engine.run.memory import Spent

RISKY = "max_risky_files"
# What these count is known once the change is there; what the others count goes on growing.
_OF_ONE_CHANGE = ("max_changed_files", "max_patch_kb", RISKY)


class Exceeded(Struct, frozen=True, kw_only=True):
    """The budget that stops the run."""

    key: str
    limit: float
    used: float

    @property
    def sentence(self) -> str:
        """Say it to the user."""
        return f"{self.key} is {self.limit:g} and {self.used:g} was used"

    @property
    def needed(self) -> str:
        """Return the setting with which the run can go on."""
        enough = self.used if self.key in _OF_ONE_CHANGE else max(2 * self.limit, self.used + 1)
        return f"{self.key}={enough:g}"


def add(spent: Spent, *, seconds: float, tokens: int, cost_usd: float, output_bytes: int) -> Spent:
    """Return what is spent after one more step."""
    return Spent(
        minutes=spent.minutes + seconds / 60,
        tokens=spent.tokens + tokens,
        cost_usd=spent.cost_usd + cost_usd,
        output_mb=spent.output_mb + output_bytes / 2**20,
    )


def exceeded(budgets: BudgetsConfig, spent: Spent) -> Exceeded | None:
    """Return the first amount that is used up before another step may begin."""
    for name, used in spent._asdict().items():
        limit = getattr(budgets, f"max_{name}")
        if limit is not None and used >= limit:
            return Exceeded(key=f"max_{name}", limit=limit, used=round(used, 3))
    return None


def as_request(budgets: BudgetsConfig) -> dict[str, float]:
    """Return the limits that are set, as agents are told."""
    return {key: value for key, value in structs.asdict(budgets).items() if value is not None}
