"""Move a role to the next agent of a list when its own cannot work; the run remembers it."""

from msgspec import structs

from treadle.agents import table
from treadle.contract import Role
from treadle.contract.events import EventType, NewEvent
from treadle.engine.run import outage
from treadle.engine.run.order import stand_ins
from treadle.engine.run.run import Run
from treadle.ids import utc
from treadle.store import outages


def take_next(run: Run, role: Role, error: str, why: str) -> bool:
    """Let the next agent that today's configuration has take the role; False if there is none.

    It is committed at once, so that neither a kill nor a resume asks the first one again.
    """
    before = run.order.agent(role)
    found = next(stand_ins(before, run.tools.today), None)
    if found is None:
        return False
    run.order = structs.replace(run.order, agents=run.order.agents | {role: found})
    text = f"{role}: agent {before.name} cannot work, {found.name} takes its place: {why}"
    told = {"role": role, "agent": before.name, "by": found.name, "code": error}
    run.tools.note(run.id, text)
    run.record(NewEvent(EventType.AGENT_REPLACED, text, told))
    return True


def skip_broken(run: Run, role: Role) -> None:
    """Move a role on at once as long as its tool is known to be out of its limit or login."""
    while (agent := run.order.agent(role)).config.fallback and table.is_prompted(agent.config):
        row = outages.find(run.tools.store, outage.service_of(run.tools, agent))
        if row is None or row.error not in outage.LASTS or row.next_at <= utc(run.tools.now()):
            return
        if not take_next(run, role, row.error, row.message):
            return
