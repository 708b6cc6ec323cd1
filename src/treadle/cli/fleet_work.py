"""Do what `treadle worker` asks, with the engine loaded."""

import os
from argparse import Namespace

from treadle.cli import fleet_place, output
from treadle.cli.progress import watcher
from treadle.errors import UsageError
from treadle.fleet import queue, submit, worker
from treadle.fleet.worker import Wishes
from treadle.project import trust
from treadle.project.project import open_project
from treadle.project.root import refuse_inside_run


def run(args: Namespace) -> int:
    """Work until it is time to leave, say how many runs were driven."""
    refuse_inside_run(os.environ)
    _check(args)
    site, loaded = fleet_place.find(os.environ)
    if site.layout:
        trust.require(open_project(site.layout.root, os.environ), loaded)
    submit.sealing(site, os.environ)
    config = loaded.config
    name = worker.new_id()
    os.environ["PGAPPNAME"] = name  # by it the others end what this worker has open if it is lost
    dispatcher = queue.queue_of(site, config.fleet, name)
    wishes = Wishes(args.slots or config.fleet.slots, args.once, args.idle_exit, args.until)
    if not args.json:
        output.line(f"worker {name} takes {wishes.slots} runs at a time", flush=True)
    driven = worker.work_until_done(
        site, config, wishes, name, dispatcher, watcher(args.json), os.environ
    )
    told = {"worker_id": name, "runs": driven}
    return output.say(args.json, told, f"worker {name} leaves after {driven} runs")


def _check(args: Namespace) -> None:
    if args.slots is not None and not 1 <= args.slots <= 100:
        raise UsageError("--slots must be from 1 to 100")
    for name in ("idle_exit", "until"):
        value = getattr(args, name)
        if value is not None and value < 0:
            raise UsageError(f"--{name.replace('_', '-')} must be 0 or more")
