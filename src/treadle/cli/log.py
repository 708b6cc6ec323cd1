"""`treadle log`: show a run's timeline, and follow it while it grows."""

import gc
import os
from argparse import ArgumentParser, Namespace
from contextlib import closing

from treadle.cli import main, output
from treadle.cli.live import LiveEvents
from treadle.engine.find import find
from treadle.errors import ExitCode
from treadle.layout import Layout
from treadle.project.root import find_root, here
from treadle.store.address import open_waker
from treadle.store.database.interface import Waker
from treadle.store.runs import Event
from treadle.store.store import Reader

_PAUSE = 0.3


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("run", metavar="RUN", help="Id of the run, or its beginning")
    parser.add_argument("-f", "--follow", action="store_true", help="Go on until the run has ended")


def run(args: Namespace) -> int:
    """Print one line for each event; with --json, one document a line."""
    gc.enable()
    layout = Layout(find_root(here(), os.environ))
    with Reader.open(layout) as store:
        run_id = find(store, args.run).run_id
        seq = _print_after(store, run_id, 0, args.json)
        if args.follow:
            live = LiveEvents(layout.run(run_id).live_events)
            seq = _follow(store, open_waker(layout), live, (run_id, seq), args.json)
        _print_after(store, run_id, seq, args.json)
    return ExitCode.DONE


def _follow(
    store: Reader, waker: Waker, live: LiveEvents, start: tuple[str, int], as_json: bool
) -> int:
    run_id, seq = start
    with closing(waker):
        while _is_running(store, run_id):
            live.show(as_json)
            waker.wait(_PAUSE)
            seq = _print_after(store, run_id, seq, as_json)
    return seq


def _print_after(store: Reader, run_id: str, seq: int, as_json: bool) -> int:
    for event in store.events(run_id, seq):
        _print(event, as_json)
        seq = event.seq
    return seq


def _print(event: Event, as_json: bool) -> None:
    if as_json:
        output.print_json_line(event._asdict())
    else:
        kind = output.paint(f"{event.type:<21}", "dim")
        output.line(event.ts[11:19], kind, event.message, flush=True)


def _is_running(store: Reader, run_id: str) -> bool:
    row = store.run(run_id)
    if row is None or row.status in ("passed", "failed"):
        return False
    if row.status == "running":
        gone = main.load("cutoff").refusal(row)
        if gone:
            output.warn(gone.message, f"go on with: {gone.fix[0]}")
        return gone is None
    return store.kv_value(run_id, "reason_code") == "queued"
