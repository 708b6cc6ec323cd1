"""Hold all runs of a day to what a project may use in it."""

from datetime import datetime

from msgspec import structs

from treadle.config import schema
from treadle.config.schema import NightConfig
from treadle.contract.events import EventType, NewEvent
from treadle.engine.run import days
from treadle.engine.run.days import DayTotal
from treadle.engine.run.memory import NIGHT_LIMIT
from treadle.engine.run.order import Exceeded
from treadle.engine.run.run import Run, Tools
from treadle.errors import SpentError
from treadle.ids import day_begin, local, utc
from treadle.store.store import Reader

_TABLE = "night"


def limits_document(store: Reader, limits: NightConfig, now: datetime) -> dict[str, object]:
    """Return what this day has used, beside its limits, and what raises one that is reached."""
    used = days.today(store, now)
    told = {"since": utc(day_begin(now)), **used._asdict(), **structs.asdict(limits)}
    return told | {"needed": (over := _over(limits, used)) and _setting(over)}


def require(tools: Tools, *, begins: bool) -> None:
    """Refuse to begin a run, or to go on with one, on a day whose limits are reached."""
    over = exceeded(tools, begins=begins)
    if over is None:
        return
    raise SpentError(
        f"the runs of this day are at their limit: {over.sentence};"
        f" it ends at {local(utc(days.day_end(tools.now())))}",
        fix=[f"export {_setting(over)}", "treadle status"],
        details={"needed": _setting(over)},
    )


def _setting(over: Exceeded) -> str:
    """Return the variable that raises a limit, with enough for more."""
    key, _, enough = over.needed.partition("=")
    return f"{schema.variable(tuple(key.split('.')))}={enough}"


def stops(run: Run) -> bool:
    """Stop a run between two steps on a day whose limits are reached; it goes on the next day.

    Workers of the fleet count what they spend, and are held by the queue and not by a day.
    """
    over = None if run.tools.worker else exceeded(run.tools, begins=False)
    if over is None:
        return False
    event = NewEvent(EventType.BUDGET_EXCEEDED, over.sentence, over._asdict())
    more = {"budget_needed": over.needed, "resume_at": utc(days.day_end(run.tools.now()))}
    run.end("stopped", NIGHT_LIMIT, over.sentence, event, **more)
    return True


def exceeded(tools: Tools, *, begins: bool, more: float = 0.0) -> Exceeded | None:
    """Return which limit of the day is reached, with what is at work besides."""
    limits = tools.project.settings.config.night
    if limits == NightConfig():
        return None
    used = days.today(tools.store, tools.now())
    return _over(limits, used._replace(cost_usd=round(used.cost_usd + more, 6)), begins)


def _over(limits: NightConfig, used: DayTotal, begins: bool = True) -> Exceeded | None:
    if limits.max_cost_usd is not None and used.cost_usd >= limits.max_cost_usd:
        return Exceeded(f"{_TABLE}.max_cost_usd", limits.max_cost_usd, used.cost_usd)
    if begins and limits.max_runs is not None and used.runs >= limits.max_runs:
        return Exceeded(f"{_TABLE}.max_runs", limits.max_runs, used.runs)
    return None
