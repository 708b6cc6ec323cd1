"""What to do now: `next`, and where missions stand."""

import os
from argparse import Namespace
from datetime import UTC, datetime

from treadle.cli import output
from treadle.errors import UsageError
from treadle.ids import HUMAN, acting_agent
from treadle.missions import mission as missions
from treadle.missions import state
from treadle.missions.next import Report, decide, lend, query, report, retry
from treadle.missions.state import Decision, Listed, NextStep, Status
from treadle.project import Place, find_place, here, refuse_inside_run
from treadle.store.store import Reader, Store


def show_status(args: Namespace) -> int:
    layout = find_place(here(), os.environ).layout
    with Reader.open(layout) as store:
        mission = missions.choose(layout, args.mission, here())
        found = state.read_status(layout, store, mission, datetime.now(UTC))
    reasons = [line for line in (found.blocked_reason, *found.missing) if line]
    counts = [f"{number} {lane}" for lane, number in found.tasks.items()]
    lines = [f"{found.mission_slug}: {found.phase}", *(f"  {it}" for it in (*reasons, *counts))]
    return output.say(args.json, state.status_document(found), *lines)


def list_missions(args: Namespace) -> int:
    layout = find_place(here(), os.environ).layout
    with Reader.open(layout) as store:
        found = state.read_statuses(layout, store, datetime.now(UTC))
    rows = [(i.mission.slug, _phase(i), _tasks(i.status), i.title) for i in found]
    heads = ["mission", "phase", "tasks", "title"]
    nothing = "no missions; begin one with: treadle mission create SLUG"
    return output.table(args.json, state.list_document(found), heads, rows, nothing)


def _phase(item: Listed) -> str:
    if item.status is None:
        return f"broken: {item.error.message if item.error else ''}"
    return "complete" if item.status.phase_complete else item.status.phase


def _tasks(found: Status | None) -> str:
    return ", ".join(f"{n} {lane}" for lane, n in found.tasks.items()) if found else ""


def next_step(args: Namespace) -> int:
    """Answer with one decision; every decision is a success."""
    if sum((args.result is not None, args.retry, args.query)) > 1:
        raise UsageError("give only one of --result, --retry and --query")
    if args.result is None and (args.note is not None or args.step is not None):
        raise UsageError("--note and --step belong to --result")
    found = _decide(args, find_place(here(), os.environ))
    return output.tell(args.json, state.document(found), _print_decision, found)


def _decide(args: Namespace, found: Place) -> Decision:
    """Take a report, or let everything be tried again; the task of the next step is lent."""
    mission = missions.choose(found.layout, args.mission, here())
    agent = acting_agent(args.agent or os.environ.get("TREADLE_AGENT") or HUMAN)
    lease = found.lease
    is_told = args.retry or args.result is not None
    if args.query or (not is_told and (agent == HUMAN or os.environ.get("TREADLE_RUN"))):
        with Reader.open(found.layout) as store:
            stands = state.read(found.layout, store, mission, store.now(), agent)
            return query(stands) if args.query else decide(stands, store)
    refuse_inside_run(os.environ)
    with Store.open(found.layout) as store:
        stands = state.read(found.layout, store, mission, store.now(), agent)
        if args.retry:
            return retry(stands, store, lease)
        if args.result:
            word = Report(args.result, args.note, args.step)
            return report(stands, store, word, lease)
        return lend(stands, store, lease)


def _print_decision(found: Decision) -> None:
    where = found.where
    output.line(f"{where.mission_slug}: {where.phase} {where.task_id or ''}".rstrip())
    if isinstance(found, NextStep):
        output.line(f"  {found.prompt_file}")
        return
    output.line(f"  {found.kind}: {found.reason}")
    for command in found.unblock:
        output.line(f"  try: {command}")
