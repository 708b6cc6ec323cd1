"""What `treadle next` writes: reports, retries and leases."""

import os
from argparse import Namespace
from datetime import timedelta

from treadle.layout import Layout
from treadle.missions import lend as loans
from treadle.missions import report as reports
from treadle.missions.decision import Decision
from treadle.missions.mission import Mission
from treadle.missions.report import Report
from treadle.project.root import refuse_inside_run
from treadle.store.task_store import TaskStore


def report(args: Namespace, layout: Layout, mission: Mission, agent: str) -> Decision:
    """Take a report, or let everything be tried again."""
    refuse_inside_run(os.environ)
    with TaskStore.open(layout) as store:
        now = store.now()
        if args.retry:
            return reports.retry(layout, store, mission, agent, now)
        word = Report(args.result, args.note, args.step)
        return reports.report(layout, store, mission, agent, now, word)


def lend(layout: Layout, mission: Mission, agent: str, lease: timedelta) -> Decision:
    """Give the task of the next step to an agent that has a name."""
    with TaskStore.open(layout) as store:
        return loans.lend(layout, store, mission, agent, store.now(), lease)
