"""Hold the queue while a tool's service or login is broken: which one, why, until which try."""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from treadle.agents import table
from treadle.agents.backend import AgentResult, AgentSpec
from treadle.config.schema import AgentConfig
from treadle.contract.events import StepError
from treadle.engine.run.order import NamedAgent, Order, equipped, stand_ins
from treadle.engine.run.run import Run, Tools, reach
from treadle.errors import BlockedError
from treadle.ids import local, utc
from treadle.store import outages
from treadle.store.outages import OutageRow
from treadle.store.questions import LEAVE, Action, Subject
from treadle.store.store import Transaction
from treadle.tasks import questions
from treadle.tasks.questions import Question

# What keeps a tool from working whatever it is asked.
KINDS = (
    *(StepError.RATE_LIMIT, StepError.SERVER_ERROR, StepError.NETWORK),
    *(StepError.IDLE_TIMEOUT, StepError.AUTH_FAILED, StepError.USAGE_LIMIT),
)
# The same of a run that a tool has stopped.
STOPS = (*KINDS, StepError.TIMEOUT)
DOWN = "agent_down"  # the code of what is not begun because of it
# A person hears of what lasts at once, of the rest when it does not pass by itself.
LASTS = (StepError.AUTH_FAILED, StepError.USAGE_LIMIT)
_ASKED_AFTER = 3  # failures in a row
# The same of a run whose tool is missing: whether it is there can be seen without a try.
UNREADY = "agent_unready"
_LOOK_AGAIN, _SELDOM = 60.0, 900.0
_LOOK = 0.5


class Holding(NamedTuple):
    """What keeps work from being begun, and how long an agent waits for it."""

    row: OutageRow
    patience: float

    def sentence(self, now: datetime) -> str:
        """Say what is waited for, and until when."""
        row = self.row
        since, then = clock(row.since, now), clock(row.next_at, now)
        return f"{row.service} has not worked since {since}, next try at {then}: {row.message}"


def is_down(result: AgentResult) -> bool:
    """Tell whether a try shows that the tool cannot work, and not only that this turn failed.

    A limit of time is the turn's own, unless the model had not said a word until then.
    """
    if result.error == StepError.TIMEOUT:
        return result.may_retry
    return result.error in KINDS and not result.is_overtaken


def service(name: str, config: AgentConfig) -> str:
    """Return what several agents share that are the same tool: its login and its service.

    An agent with variables of its own may have another login, or another address to ask.
    """
    tool = config.preset or (config.cmd or (config.type,))[0]
    return f"{tool} (agent {name})" if config.env else tool


def service_of(tools: Tools, agent: NamedAgent) -> str:
    """Return the same of an agent of an order."""
    return service(agent.name, equipped(agent, tools.today))


def clock(stamp: str, now: datetime) -> str:
    """Write a moment near to now for a person."""
    is_today = datetime.fromisoformat(stamp).astimezone().date() == now.astimezone().date()
    return local(stamp, "%H:%M:%S %Z" if is_today else "%Y-%m-%d %H:%M %Z")


def note(run: Run, spec: AgentSpec, result: AgentResult, next_at: datetime, *, stops: bool) -> None:
    """Write down that a tool cannot work until then, and ask a person about it, all at once.

    `stops` tells that the run does not wait for it. A login is one machine's, so that workers of
    the fleet hold nobody but themselves.
    """
    if run.tools.worker:
        return
    name, now = service(spec.name, spec.config), run.tools.now()
    text = run.tools.mask.text(result.message)

    def change(tx: Transaction) -> None:
        known = outages.find(tx, name)
        since, failures = (known.since, known.failures) if known else (utc(now), 0)
        error = str(result.error)
        row = OutageRow(name, error, text, run.id, since, failures + 1, utc(next_at))
        outages.note(tx, row)
        if stops or row.failures >= _ASKED_AFTER or result.error in LASTS:
            _ask(tx, row, now, [f"treadle why {row.run_id}"])

    run.tools.store.write(change)
    reach("after_outage")


def _ask(tx: Transaction, row: OutageRow, now: datetime, look: Sequence[str]) -> None:
    about = Subject("agent", row.service)
    last = questions.newest(tx, about)
    if last and (last.is_open or (last.action == "leave" and last.created_at >= row.since)):
        return
    summary = f"{row.service} has not worked since {local(row.since)}: {row.message}"
    ways = (Action("retry", target=row.run_id or None), LEAVE)
    questions.ask(tx, Question("held", summary, about, ways, tuple(look)), now)


def try_on(run: Run, name: str, seconds: float) -> None:
    """Keep others from trying, too, while this run does."""
    if not run.tools.worker:
        then = utc(run.tools.now() + timedelta(seconds=seconds))
        outages.set_next_try(run.tools.store, name, then)


def settle(tools: Tools, name: str) -> None:
    """Take note that a tool has worked: whatever waits for it goes on."""
    if tools.worker or outages.find(tools.store, name) is None:
        return

    def change(tx: Transaction) -> None:
        outages.forget(tx, name)
        questions.close(tx, Subject("agent", name), "it works again", tools.now())

    tools.store.write(change)


def is_due(tools: Tools, name: str) -> bool:
    """Tell whether a tool may be tried now, because it is time or because somebody says so."""
    row = outages.find(tools.store, name)
    return row is None or row.next_at <= utc(tools.now())


def holding(tools: Tools, agents: Iterable[NamedAgent]) -> Holding | None:
    """Return what keeps a run by these agents from being begun now."""
    now = utc(tools.now())
    known = outages.outages(tools.store)
    down = {it.service: it for it in known if it.next_at > now and it.error != UNREADY}
    asked = [agent for agent in agents if down and table.is_prompted(agent.config)]
    found = [(row, agent) for agent in asked if (row := down.get(service_of(tools, agent)))]
    held = [it for it in found if not _has_other(tools, *it, down)]
    return next((Holding(row, agent.config.patience) for row, agent in held), None)


def _has_other(
    tools: Tools, row: OutageRow, agent: NamedAgent, down: Mapping[str, OutageRow]
) -> bool:
    """Tell whether another agent takes the place of one whose tool cannot work."""
    others = stand_ins(agent, tools.today) if row.error in LASTS else ()
    return any(service_of(tools, other) not in down for other in others)


def require(tools: Tools, agents: Iterable[NamedAgent], waiting: str | None = None) -> None:
    """Wait until a run by these agents may be begun; BlockedError if that is too long."""
    asked = [*agents]
    while held := holding(tools, asked):
        if not wait_out(tools, held, waiting):
            raise blocked(tools, held)


def require_ready(tools: Tools, order: Order) -> None:
    """Refuse to begin a run that would stop at a tool that is missing or has no service.

    For a message that is an outage as well: it waits, and one item on the desk says for what.
    """
    for agent in order.agents.values():
        able = (agent, *stand_ins(agent, tools.today))
        reasons = [
            table.unready(tools.layout.root, equipped(it, tools.today), tools.env) for it in able
        ]
        row = outages.find(tools.store, service_of(tools, agent))
        if not all(reasons):
            if row and row.error == UNREADY:
                settle(tools, row.service)
            continue
        text = "; ".join(f"agent {it.name}: {why}" for it, why in zip(able, reasons, strict=True))
        fix = [f"treadle agent show {agent.name}", "treadle doctor"]
        if order.message:
            _note_unready(tools, agent, row, text, fix)
        raise BlockedError(text, code=UNREADY, fix=fix)


def _note_unready(
    tools: Tools, agent: NamedAgent, row: OutageRow | None, text: str, look: Sequence[str]
) -> None:
    """Say when it is looked again whether a tool is there, and ask a person to see to it."""
    now = tools.now()
    if row and (row.error != UNREADY or row.next_at > utc(now)):
        return
    since, failures = (row.since, row.failures + 1) if row else (utc(now), 1)
    then = utc(now + timedelta(seconds=min(failures * _LOOK_AGAIN, _SELDOM)))
    found = OutageRow(service_of(tools, agent), UNREADY, text, "", since, failures, then)

    def change(tx: Transaction) -> None:
        outages.note(tx, found)
        _ask(tx, found, now, look)

    tools.store.write(change)


def wait_out(tools: Tools, held: Holding, waiting: str | None = None) -> bool:
    """Wait for the next try; False if that is past the agent's patience, or work must stop.

    What waits by this name gives way to other work, also if that comes later.
    """
    row, now = held.row, tools.now()
    end = datetime.fromisoformat(row.since) + timedelta(seconds=held.patience)
    if datetime.fromisoformat(row.next_at) > end:
        return False
    tools.note(row.run_id, held.sentence(now))
    while not (tools.interrupted() or (waiting and tools.gives_way(waiting))):
        if is_due(tools, row.service):
            return True
        time.sleep(_LOOK)
    return False


def blocked(tools: Tools, held: Holding) -> BlockedError:
    """Return why something is not begun, and how it goes on before the next try."""
    asked = questions.newest(tools.store, Subject("agent", held.row.service))
    fix = asked.answers[:1] if asked and asked.is_open else ()
    text = f"not begun: {held.sentence(tools.now())}"
    return BlockedError(text, code=DOWN, fix=[*fix, f"treadle run --resume {held.row.run_id}"])
