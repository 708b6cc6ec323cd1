"""`treadle why`: explain how a run ended and what to do now."""

import os
from argparse import ArgumentParser, Namespace

from treadle.cli import main, output
from treadle.engine.explain import Explanation, explain
from treadle.engine.find import find
from treadle.layout import Layout
from treadle.project.root import find_root, here
from treadle.store.store import Reader


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("run", metavar="RUN", help="Id of the run, or its beginning")


def run(args: Namespace) -> int:
    """Read, explain, print."""
    layout = Layout(find_root(here(), os.environ))
    with Reader.open(layout) as store:
        row = find(store, args.run)
        found = explain(layout, store, row)
    if row.status == "running" and (gone := main.load("cutoff").refusal(row)):
        found = found._replace(reason=gone.message, reason_code=gone.code, next=gone.fix)
    told = found._asdict() | {
        "run_id": row.run_id,
        "status": row.status,
        "failing": [view._asdict() for view in found.failing],
    }
    return output.tell(args.json, told, _print, found)


def _print(found: Explanation) -> None:
    output.line(output.paint(found.headline, "bold"))
    if found.reason:
        output.line(f"because: {found.reason}")
    for view in found.failing:
        seen = "observed to fail" if view.observed is False else "claimed to fail"
        output.line(f"  {view.id} {view.text}: {seen} ({view.evidence or 'no evidence'})")
        if view.note:
            output.line(f"    {view.note}")
    for line in found.events:
        output.line(f"  {line}")
    if found.protected:
        output.line(f"protected: {found.protected}")
    if found.usage:
        output.line(f"used: {found.usage}")
    for line in found.weather:
        output.line(f"weather: {line}")
    for path in found.look:
        output.line(f"look: {path}")
    for command in found.next:
        output.line(f"next: {command}")
