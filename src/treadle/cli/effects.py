"""Let letters have their effects: loaded only when there is something to do."""

from treadle.layout import Layout
from treadle.mail.send import deliver as deliver
from treadle.mail.sync import refresh as refresh
from treadle.mail.sync import settle as settle
from treadle.store.store import Store
from treadle.tasks import claim


def renew(layout: Layout, agent: str) -> None:
    """Prolong an owner's leases."""
    with Store.open(layout) as store:
        claim.renew_all(store, agent, store.now())
