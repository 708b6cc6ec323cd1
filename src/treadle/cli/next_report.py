"""What `treadle next` writes: reports, retries and leases."""

import os
from argparse import Namespace

from treadle.cli.place import Place
from treadle.missions import next
from treadle.missions.mission import Mission
from treadle.missions.next import Report, is_lent
from treadle.missions.state import Asking, Decision
from treadle.project.root import refuse_inside_run
from treadle.store.store import Store


def answer(args: Namespace, found: Place, mission: Mission, agent: str) -> Decision:
    """Take a report, or let everything be tried again; the task of the next step is lent."""
    refuse_inside_run(os.environ)
    with Store.open(found.layout) as store:
        asking = Asking(found.layout, mission, agent, store.now())
        decided = None
        if args.retry:
            decided = next.retry(asking, store)
        elif args.result:
            word = Report(args.result, args.note, args.step)
            decided = next.report(asking, store, word)
        if decided and is_lent(asking, store, decided, found.lease):
            return decided
        return next.lend(asking, store, found.lease)
