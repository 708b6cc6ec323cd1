"""`treadle mission`: create missions, take them through their gates, see where they stand."""

import os
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime

from treadle.cli import main, output, place
from treadle.layout import Layout
from treadle.missions import mission as missions
from treadle.missions import status
from treadle.missions.status import Listed, Status
from treadle.project.root import here
from treadle.store.store import Reader


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    created = actions.add_parser("create", help="Begin a mission")
    created.add_argument("slug", metavar="SLUG", help="Its name, such as add-login")
    created.add_argument("--title", help="What it is called")
    for name, text in {
        "setup-plan": "Write the plan's scaffold, or commit a plan that is one",
        "tasks": "Write task files from the plan's list",
        "status": "Show where a mission stands",
        "dossier": "Index a mission's files",
    }.items():
        named = actions.add_parser(name, help=text)
        named.add_argument("--mission", metavar="SLUG", help="Which mission, if there are several")
    actions.add_parser("list", help="List missions")


def run(args: Namespace) -> int:
    """Look here; what changes files is loaded only when it is asked for."""
    if args.action not in _LOOKS:
        code: int = main.load("mission_change").run(args)
        return code
    layout = place.find(os.environ).layout
    with Reader.open(layout) as store:
        return _LOOKS[args.action](layout, store, args)


def _status(layout: Layout, store: Reader, args: Namespace) -> int:
    mission = missions.choose(layout, args.mission, here())
    found = status.read(layout, store, mission, datetime.now(UTC))
    reasons = [line for line in (found.blocked_reason, *found.missing) if line]
    counts = [f"{number} {lane}" for lane, number in found.tasks.items()]
    lines = [f"{found.mission_slug}: {found.phase}", *(f"  {it}" for it in (*reasons, *counts))]
    return output.say(args.json, status.document(found), *lines)


def _list(layout: Layout, store: Reader, args: Namespace) -> int:
    found = status.read_all(layout, store, datetime.now(UTC))
    rows = [(i.mission.slug, _phase(i), _tasks(i.status), i.title) for i in found]
    heads = ["mission", "phase", "tasks", "title"]
    nothing = "no missions; begin one with: treadle mission create SLUG"
    return output.table(args.json, status.list_document(found), heads, rows, nothing)


_LOOKS = {"status": _status, "list": _list}


def _phase(item: Listed) -> str:
    if item.status is None:
        return f"broken: {item.error.message if item.error else ''}"
    return "complete" if item.status.phase_complete else item.status.phase


def _tasks(found: Status | None) -> str:
    return ", ".join(f"{n} {lane}" for lane, n in found.tasks.items()) if found else ""
