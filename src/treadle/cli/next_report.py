"""What `treadle next` writes: reports and retries."""

import os
from argparse import Namespace

from treadle.layout import Layout
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
