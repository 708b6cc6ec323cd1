"""What `next` changes: a task is lent, a report is taken, the store follows a mission's files."""

import os
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from treadle.cli import main
from treadle.cli.next import placed, take_in
from treadle.errors import BlockedError, FormatError
from treadle.layout import Layout
from treadle.missions import adopt, report, state
from treadle.missions.mission import Mission
from treadle.missions.report import Report
from treadle.missions.state import Decision
from treadle.project import Place, refuse_inside_run
from treadle.store.store import Store


def decide(args: Namespace, found: Place, mission: Mission, agent: str) -> Decision:
    """Take a report, or let everything be tried again; the task of the next step is lent."""
    refuse_inside_run(os.environ)
    with Store.open(found.layout) as store:
        take_in(found, store)
        adopt.name_mission(store, mission, store.now())
        stands = state.read(found.layout, store, mission, store.now(), agent)
        if args.retry:
            told = report.retry(stands, store, found.lease, args.step)
        elif args.result:
            word = Report(args.result, args.note, args.step, args.task, args.no_change)
            judge = partial(main.call, "verify.judge")
            accept = partial(main.call, "mission.record_acceptance")
            told = report.report(stands, store, word, found.lease, judge, accept)
        else:
            told = report.lend(stands, store, found.lease)
        return placed(args, stands, store, told)


def catch_up(layout: Layout, behind: Sequence[Mission]) -> None:
    """Let the store know what missions' files say is over, as a clone's does not."""
    with Store.open(layout) as store:
        for mission in behind:
            with suppress(BlockedError, FormatError):  # `next` says it of the one it is about
                report.catch_up(store, state.read(layout, store, mission, store.now()))
