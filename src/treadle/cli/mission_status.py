"""Where missions stand: `mission status` and `mission list`."""

import os
from argparse import Namespace
from datetime import UTC, datetime

from treadle.cli import output
from treadle.cli.next import reading
from treadle.missions import mission as missions
from treadle.missions import status
from treadle.missions.status import Listed, Status
from treadle.project import find_place, here


def show_status(args: Namespace) -> int:
    layout = find_place(here(), os.environ).layout
    mission = missions.choose(layout, args.mission, here())
    with reading(layout, [mission]) as store:
        found = status.read_status(layout, store, mission, datetime.now(UTC))
    reasons = [line for line in (found.blocked_reason, *found.missing) if line]
    counts = [f"{number} {lane}" for lane, number in found.tasks.items()]
    if any(found.coverage.values()):
        counts += [f"{id_}: {', '.join(by) or 'no task'}" for id_, by in found.coverage.items()]
    lines = [f"{found.mission_slug}: {found.phase}", *(f"  {it}" for it in (*reasons, *counts))]
    return output.say(args.json, status.status_document(found), *lines)


def list_missions(args: Namespace) -> int:
    layout = find_place(here(), os.environ).layout
    with reading(layout, missions.find_all(layout)) as store:
        found = status.read_statuses(layout, store, datetime.now(UTC))
    rows = [(i.mission.slug, _phase(i), _tasks(i.status), i.title) for i in found]
    heads = ["mission", "phase", "tasks", "title"]
    nothing = "no missions; treadle mission create --help shows how to begin one"
    return output.table(args.json, status.list_document(found), heads, rows, nothing)


def _phase(item: Listed) -> str:
    if item.status is None:
        return f"broken: {item.error.message if item.error else ''}"
    return "complete" if item.status.phase_complete else item.status.phase


def _tasks(found: Status | None) -> str:
    return ", ".join(f"{n} {lane}" for lane, n in found.tasks.items()) if found else ""
