"""What `treadle next` writes: reports, retries and leases."""

import os
from argparse import Namespace
from datetime import timedelta

from treadle.layout import Layout
from treadle.missions import lend as loans
from treadle.missions import report as reports
from treadle.missions.decision import Decision
from treadle.missions.mission import Mission
from treadle.missions.next import is_lent
from treadle.missions.report import Report
from treadle.project.root import refuse_inside_run
from treadle.store.task_store import TaskStore


def report(
    args: Namespace, layout: Layout, mission: Mission, agent: str, lease: timedelta
) -> Decision:
    """Take a report, or let everything be tried again; the step that follows is lent too."""
    refuse_inside_run(os.environ)
    with TaskStore.open(layout) as store:
        now = store.now()
        if args.retry:
            found = reports.retry(layout, store, mission, agent, now)
        else:
            word = Report(args.result, args.note, args.step)
            found = reports.report(layout, store, mission, agent, now, word)
        if is_lent(store, found, agent, now, lease):
            return found
        return loans.lend(layout, store, mission, agent, now, lease)


def lend(layout: Layout, mission: Mission, agent: str, lease: timedelta) -> Decision:
    """Give the task of the next step to an agent that has a name."""
    with TaskStore.open(layout) as store:
        return loans.lend(layout, store, mission, agent, store.now(), lease)
