"""Hold a step to what is left of its run's tokens and money, and of the day's, while it works."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from treadle.agents import table
from treadle.agents.backend import (
    AgentResult,
    AgentUsage,
    Usage,
    costs_unknown,
    tokens_unknown,
    used_by_all,
)
from treadle.config.schema import BudgetsConfig
from treadle.contract.events import EventType, NewEvent
from treadle.engine.run import days, night
from treadle.engine.run.memory import Spent
from treadle.engine.run.order import Exceeded, NamedAgent, exceeded_budget
from treadle.engine.run.run import Run
from treadle.engine.run.step_folder import Stage
from treadle.files import atomic, walk
from treadle.layout import USED
from treadle.store.runs import CUT_OFF, UsageRow

_LEAST = 0.001  # USD: no tool takes less
_MAX = 64 << 10
# Of each limit, what tells why it cannot be known whether an agent keeps it.
_UNKNOWN = {"max_cost_usd": costs_unknown, "max_tokens": tokens_unknown}


class Counted(NamedTuple):
    """What a step has used by now, and which one it is: a later owner counts anew."""

    epoch: int
    step_index: int
    rows: tuple[UsageRow, ...]


def count(
    run: Run, stage: Stage, agent: str, before: Sequence[AgentUsage], used: Usage
) -> str | None:
    """Keep what a step has used by now, so that a kill loses none of it; say if it is too much."""
    tries = [*before, AgentUsage(agent, used)]
    total = used_by_all(tries) or used
    if run.counted != tries:
        run.counted = tries
        rows = [row._replace(step_index=CUT_OFF) for row in usage_rows(run, stage, tries)]
        found = Counted(run.row.claim_epoch, stage.index, tuple(rows))
        atomic.write(stage.live / USED, msgspec.json.encode(found))
    run.tools.counted[run.id] = total.cost_usd
    over = exceeded(run, total)
    return over.sentence if over else None


def usage_rows(run: Run, stage: Stage, tries: Sequence[AgentUsage]) -> tuple[UsageRow, ...]:
    """Return what the store keeps of it, a row for each agent; the last has the step's time."""
    names = dict.fromkeys(item.agent for item in tries)
    by_agent = ((name, used_by_all(it for it in tries if it.agent == name)) for name in names)
    told = [(name, used) for name, used in by_agent if used]
    return tuple(
        UsageRow(
            run_id=run.id,
            step_index=stage.index,
            agent=name,
            model=run.tools.mask.text(used.model) if used.model else None,
            input_tokens=used.input_tokens,
            cached_tokens=used.cached_tokens,
            output_tokens=used.output_tokens,
            cost_usd=used.cost_usd,
            seconds=round(stage.seconds(), 3) if number == len(told) else 0.0,
        )
        for number, (name, used) in enumerate(told, 1)
    )


def left_behind(run: Run, epoch: int) -> tuple[UsageRow, ...]:
    """Return what the step had used that a kill cut off; nothing if that is known."""
    path = run.folder.live / USED
    if not path.is_file():
        return ()
    try:
        found = msgspec.json.decode(walk.read(path, max_bytes=_MAX), type=Counted)
    except msgspec.DecodeError:
        return ()
    is_its = found.epoch == epoch and found.step_index == run.row.current_step_index + 1
    return found.rows if is_its else ()


def with_rows(spent: Spent, rows: Sequence[UsageRow]) -> Spent:
    """Return what a run has used with a step that never ended."""
    tokens = sum((row.input_tokens or 0) + (row.output_tokens or 0) for row in rows)
    return spent._replace(
        minutes=spent.minutes + sum(row.seconds or 0 for row in rows) / 60,
        tokens=spent.tokens + tokens,
        cost_usd=spent.cost_usd + sum(row.cost_usd or 0 for row in rows),
    )


def exceeded(run: Run, used: Usage) -> Exceeded | None:
    """Return which limit of tokens or money is reached with what a step has used."""
    budgets, spent = run.order.budgets, run.spent
    limits = BudgetsConfig(max_tokens=budgets.max_tokens, max_cost_usd=budgets.max_cost_usd)
    tokens = spent.tokens + used.input_tokens + used.output_tokens
    over = exceeded_budget(limits, Spent(tokens=tokens, cost_usd=spent.cost_usd + used.cost_usd))
    return over or exceeded_day(run, used)


def exceeded_day(run: Run, used: Usage) -> Exceeded | None:
    """Return the limit of the day, if it is reached with what all runs at work have used."""
    if run.tools.worker or run.tools.project.settings.config.night.max_cost_usd is None:
        return None
    others = sum(cost for run_id, cost in run.tools.counted.items() if run_id != run.id)
    return night.exceeded(run.tools, begins=False, more=others + used.cost_usd)


def left_usd(run: Run, before: Sequence[AgentUsage]) -> float | None:
    """Return what a step may cost at most; None without a limit."""
    used = used_by_all(before) or Usage()
    limits, found = run.order.budgets, list[float]()
    if limits.max_cost_usd is not None:
        found.append(limits.max_cost_usd - run.spent.cost_usd)
    day = run.tools.project.settings.config.night.max_cost_usd
    if day is not None and not run.tools.worker:
        found.append(day - days.today(run.tools.store, run.tools.now()).cost_usd)
    return max(min(found) - used.cost_usd, _LEAST) if found else None


def unheld(run: Run) -> Iterator[NewEvent]:
    """Yield of whose cost or tokens nothing can be known, or too late, where they are limited."""
    limits = _limits(run)
    for agent in _tools(run).values():
        tool, name = table.tool(agent.config), agent.name
        asked = {limit: _UNKNOWN[limit](tool, name, agent.config) for limit in limits}
        told = [f"{key} cannot hold for agent {name}: {why}" for key, why in asked.items() if why]
        if limits and not told and not (tool and tool.start):
            late = "says what it has used only after it has answered"
            told = [
                f"{' and '.join(limits)} can be exceeded by a step of agent {name}, which {late}"
            ]
        yield from (_unknown(name, text) for text in told)


def untold(run: Run, tries: Sequence[AgentUsage], result: AgentResult) -> Iterator[NewEvent]:
    """Yield what a tool did not tell of its answer, or its cost, that usually does so."""
    agent = _tools(run).get(tries[-1].agent) if result.response and tries else None
    used = (tries[-1].usage if tries else None) or Usage()
    if agent and not (used.input_tokens or used.output_tokens or used.cost_usd):
        tool, name = table.tool(agent.config), agent.name
        held = [key for key in _limits(run) if not _UNKNOWN[key](tool, name, agent.config)]
        mend = "its version may not be the tested one" if tool else f"correct agents.{name}.usage"
        text = f"cannot hold for agent {name}: it did not tell what it has used; {mend}"
        if held:
            run.tools.note(run.id, text := f"{' and '.join(held)} {text}")
            yield _unknown(name, text)
    yield from _unpriced(run, tries)


def _unpriced(run: Run, tries: Sequence[AgentUsage]) -> Iterator[NewEvent]:
    agents = _tools(run) if "max_cost_usd" in _limits(run) else {}
    for name, used in tries:
        agent = agents.get(name)
        if agent is None or used is None or used.cost_usd or agent.config.prices:
            continue
        count = used.input_tokens + used.output_tokens
        if count and not costs_unknown(table.tool(agent.config), name, agent.config):
            text = f"agent {name} told no cost of {count} tokens of {used.model or 'its model'}"
            text = f"{text}; unless they are free, set agents.{name}.prices"
            run.tools.note(run.id, text)
            yield _unknown(name, text)


def _unknown(name: str, text: str) -> NewEvent:
    return NewEvent(EventType.COST_UNKNOWN, text, {"agent": name})


def _limits(run: Run) -> list[str]:
    """Return which limits of tokens and money are set."""
    budgets, day = run.order.budgets, run.tools.project.settings.config.night.max_cost_usd
    money = budgets.max_cost_usd if day is None else day
    limits = {"max_cost_usd": money, "max_tokens": budgets.max_tokens}
    return [key for key, limit in limits.items() if limit is not None]


def _tools(run: Run) -> dict[str, NamedAgent]:
    """Return the agents that are asked in words, by their names."""
    return {it.name: it for it in run.order.agents.values() if table.is_prompted(it.config)}
