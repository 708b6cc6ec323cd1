"""`treadle stop`: end a run that works in another terminal."""

import os
from argparse import ArgumentParser, Namespace

from treadle.cli import main, output
from treadle.engine.find import find
from treadle.errors import BlockedError
from treadle.layout import Layout
from treadle.project.root import find_root, here, refuse_inside_run
from treadle.store.store import Store


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("run", metavar="RUN", help="Id of the run, or its beginning")
    parser.add_argument("--reason", default="", help="Say why, for the timeline")


def run(args: Namespace) -> int:
    """Leave a request that the run's owner reads within a second."""
    refuse_inside_run(os.environ)
    with Store.open(Layout(find_root(here(), os.environ))) as store:
        row = find(store, args.run)
        reason = args.reason or "stopped by `treadle stop`"
        if row.status == "stopped" and store.kv_value(row.run_id, "reason_code") == "queued":
            # A worker that takes it this very moment finds the request below.
            main.load("fleet_queue").call_off(store, row, reason)
        elif row.status != "running":
            raise BlockedError(
                f"run {row.run_id} is not running: it has {row.status}",
                code="not_running",
                fix=[f"treadle why {row.run_id}"],
            )
        elif refusal := main.load("cutoff").refusal(row):
            raise refusal
        store.request_stop(row.run_id, reason, store.now())
    said = f"asked run {row.run_id} to stop; its agent is ended and the step recorded"
    return output.say(args.json, {"run_id": row.run_id, "stop_requested": True}, said)
