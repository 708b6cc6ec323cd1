"""Let letters have their effects: loaded only when there is something to do."""

from datetime import datetime

from treadle.layout import Layout
from treadle.mail.letter import Letter
from treadle.mail.post import Sent
from treadle.mail.send import deliver
from treadle.mail.sync import refresh as refresh
from treadle.mail.sync import settle as settle
from treadle.store.task_store import TaskStore
from treadle.tasks import claim


def send(layout: Layout, letter: Letter, now: datetime) -> Sent:
    """Send a letter with what it brings about."""
    return deliver(layout, letter, now)


def renew(layout: Layout, agent: str) -> None:
    """Prolong an owner's leases."""
    with TaskStore.open(layout) as store:
        claim.renew_all(store, agent, store.now())
