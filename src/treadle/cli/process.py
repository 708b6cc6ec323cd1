"""`treadle process`: carry out every waiting message and every unprocessed spec, once."""

import os
from argparse import ArgumentParser, Namespace

from treadle.cli import consent, main, output
from treadle.cli.progress import watcher
from treadle.config.load import Loaded, load
from treadle.engine import orchestrator, work
from treadle.inbox import decide, process
from treadle.inbox.decide import Outcome, Planned, Summary
from treadle.project.project import Project, open_project, place_mail
from treadle.project.root import here, refuse_inside_run
from treadle.store.store import Reader

_FINE = ("done", "duplicate", "queued")
_COLOURS: dict[str, output.Colour] = {"done": "green", "duplicate": "dim", "dead": "red"}


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("--dry-run", action="store_true", help="Say what would be done")
    parser.add_argument("--fail-fast", action="store_true", help="Stop at the first failure")
    parser.add_argument("--wait", action="store_true", help="Wait for another treadle to finish")
    parser.add_argument("--fleet", action="store_true", help="Let workers drive the runs")


def run(args: Namespace) -> int:
    """Open the project, go through the inbox, say what came of it."""
    refuse_inside_run(os.environ)
    project = open_project(here(), os.environ)
    loaded = load(project.layout, project.env)
    place_mail(project, loaded.config)
    if args.dry_run:
        return _dry_run(args, project, loaded)
    consent.require(args, project, loaded, tuple(decide.commands(project.layout)))
    work.require_sandbox(loaded.config)
    with orchestrator.opened(project, watch=watcher(args.json), wait=args.wait) as tools:
        submit = None
        if args.fleet:
            submit = main.load("worker").load("submit").submitter(tools, loaded)
        found = process.process(tools, loaded.config, fail_fast=args.fail_fast, submit=submit)
    output.tell(args.json, document(found), _print, found)
    return found.exit_code


def document(found: Summary) -> dict[str, object]:
    """Return a pass as JSON."""
    return {
        "processed": [item.name for item in found.outcomes if item.status == "done"],
        "failed": [item.name for item in found.outcomes if item.status not in _FINE],
        "dead": [item.name for item in found.outcomes if item.status == "dead"],
        "messages": [_message(item) for item in found.outcomes],
        "interrupted": found.interrupted,
        "failed_hook": found.failed_hook,
    }


def _message(item: Outcome) -> dict[str, object]:
    return {
        "id": item.message_id,
        "name": item.name,
        "routine": item.routine,
        "status": item.status,
        "run_id": item.run_id,
        "run_ids": list(item.run_ids),
        "reason": item.reason or None,
    }


def _dry_run(args: Namespace, project: Project, loaded: Loaded) -> int:
    with Reader.open(project.layout) as store:
        found = decide.plan(project.layout, loaded.config, store)
    lines = [_line(item) for item in found] or ["nothing to do"]
    return output.say(args.json, decide.plan_document(found), *lines)


def _line(item: Planned) -> str:
    return f"{item.name}: {item.routine if item.would == 'run' else item.would} ({item.reason})"


def _print(found: Summary) -> None:
    for item in found.outcomes:
        word = output.paint(item.status.upper(), _COLOURS.get(item.status, "yellow"))
        run = f" {item.run_id}" if item.run_id else ""
        tail = f": {item.reason}" if item.reason else ""
        output.line(word, f"{item.name}{run}{tail}")
    if found.failed_hook:
        output.line(output.paint("FAILED", "red"), found.failed_hook)
    done = sum(item.status == "done" for item in found.outcomes)
    output.line(
        f"{done} done, {len(found.outcomes) - done} not" if found.outcomes else "nothing to do"
    )
