"""`treadle replay`: run a recording again, or make one."""

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from treadle.cli import consent, output, shape
from treadle.cli.progress import watcher
from treadle.config import agents
from treadle.config.load import load
from treadle.engine import loop, orchestrator, recording, start
from treadle.engine.find import find
from treadle.errors import ExitCode, UsageError, argument
from treadle.git import repo
from treadle.layout import Layout
from treadle.project.project import open_project
from treadle.project.root import find_root, here, refuse_inside_run
from treadle.store.store import Reader


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument(
        "words", nargs="+", metavar="FILE", help="A recording; or: export RUN FILE, to make one"
    )
    parser.add_argument(
        "--swap", action="append", default=[], metavar="ROLE=NAME", help="Let an agent play a role"
    )
    parser.add_argument(
        "--allow-commands", action="store_true", help="Run check commands of a foreign recording"
    )


def run(args: Namespace) -> int:
    """Export a run, or replay a file."""
    if args.words[0] == "export":
        if len(args.words) != 3 or args.swap:
            raise UsageError("write it as: treadle replay export RUN FILE")
        return _export(args.words[1], here() / args.words[2], args.json)
    if len(args.words) != 1:
        raise UsageError("give one recording, or: treadle replay export RUN FILE")
    return _replay(here() / args.words[0], args)


def _export(run_id: str, target: Path, as_json: bool) -> int:
    layout = Layout(find_root(here(), os.environ))
    with Reader.open(layout) as store:
        row = find(store, run_id)
        count = recording.export(layout, row, target)
    told = {"run_id": row.run_id, "file": str(target), "files": count}
    again = f"treadle replay {argument(str(target))}"
    return output.say(as_json, told, f"wrote {target} with {count} files; replay it with: {again}")


def _replay(source: Path, args: Namespace) -> int:
    swaps, as_json = agents.parse_swaps(args.swap, "--swap"), args.json
    refuse_inside_run(os.environ)
    project = open_project(here(), os.environ)
    loaded = load(project.layout, project.env)
    consent.require(args, project, loaded)
    found = recording.unpack(project.layout, source)
    if not args.allow_commands:
        with Reader.open(project.layout) as store:
            recording.require_known(found, store)
    head = repo.head(project.repo).commit
    if found.asked.base_commit != head:
        base = (found.asked.base_commit or "")[:12]
        output.warn(f"it was recorded on {base}, not on your HEAD; its changes may not apply")
    asked = recording.order(loaded.config, found, swaps)
    with orchestrator.opened(project, watch=watcher(as_json)) as tools:
        row = loop.drive_run(start.begin(tools, asked))
        kv = tools.store.kv(row.run_id)
    said = f"{row.status.upper()} {row.run_id} {row.goal} ({kv.get('reason') or ''})"
    output.say(as_json, shape.run_result(row, kv), said)
    return ExitCode.DONE if row.status == "passed" else ExitCode.FAILED
