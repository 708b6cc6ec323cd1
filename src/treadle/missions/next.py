"""Tell a host agent what to do now."""

from datetime import timedelta

from treadle.errors import FormatError
from treadle.ids import utc
from treadle.missions import halt, prompt, state
from treadle.missions.decision import NOT_RESOLVABLE, Decision, Step, Where
from treadle.missions.state import Asking, At, State
from treadle.store.task_reader import TaskReader
from treadle.tasks.owner import HUMAN


def decide(asking: Asking, store: TaskReader) -> Decision:
    """Say what to do now; a prompt file is all that is written."""
    try:
        found = state.read(asking, store)
        at = state.current(found)
        if at is None or found.is_stuck(at.key):
            return halt.nothing_to_do(found, store, at)
        return _step(found, at)
    except FormatError as error:  # of a task: whatever comes before has been read
        return halt.unreadable(Where(asking.mission.slug, "tasks"), error)


def query(asking: Asking, store: TaskReader) -> Decision:
    """Say where a mission stands, without a prompt."""
    try:
        return halt.query(state.read(asking, store))
    except FormatError as error:  # of a task: whatever comes before has been read
        return halt.unreadable(Where(asking.mission.slug, "tasks"), error)


def is_lent(asking: Asking, store: TaskReader, found: Decision, lease: timedelta) -> bool:
    """Tell whether nothing is to be lent: no task, no name to lend it to, or it has it for long."""
    agent = asking.agent
    if agent == HUMAN or not isinstance(found, Step) or found.where.phase != "implement":
        return True
    task = store.task(found.where.task_id or "")
    is_own = task is not None and task.owner == agent and task.claim_id is not None
    return is_own and task is not None and (task.lease_until or "") > utc(asking.now + lease / 2)


def _step(found: State, at: At) -> Decision:
    where = halt.where(found.mission, at)
    try:
        return Step(where, prompt.write(found, at))
    except OSError:
        return halt.no_prompt(found, where)
    except FormatError as error:
        is_missing = error.code == NOT_RESOLVABLE
        return halt.no_prompt(found, where) if is_missing else halt.unreadable(where, error)
