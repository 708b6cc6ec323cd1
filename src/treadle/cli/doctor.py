"""Check everything treadle needs."""

import os
from argparse import ArgumentParser, Namespace

from treadle.cli import output
from treadle.engine import health, orchestrator, repair
from treadle.engine.progress import nobody
from treadle.errors import ExitCode
from treadle.project.doctor import Check
from treadle.project.project import open_project
from treadle.project.root import here, refuse_inside_run
from treadle.sandbox.probe import Sandbox


def add_arguments(parser: ArgumentParser) -> None:
    """Say what doctor understands."""
    parser.add_argument("--repair", action="store_true", help="Mend what can be mended")


def run(args: Namespace) -> int:
    """Mend if asked to, then look, say what was found, and how to help."""
    mended = _repair() if args.repair else []
    found = health.examine(here(), os.environ)
    told = health.document(found, mended)
    output.tell(args.json, told, _print, mended, found.checks, found.sandbox)
    return ExitCode.DONE if found.ok else ExitCode.FAILED


def _repair() -> list[str]:
    refuse_inside_run(os.environ)
    project = open_project(here(), os.environ)
    with orchestrator.opened(project, watch=nobody) as tools:
        return repair.repair(tools)


def _print(mended: list[str], checks: tuple[Check, ...], sandbox: Sandbox) -> None:
    for run_id in mended:
        output.line(f"mended run {run_id}")
    width = max(len(check.name) for check in checks)
    for check in checks:
        mark = output.paint("ok ", "green") if check.ok else output.paint("NOT", "red")
        output.line(mark, f" {check.name:{width}}  {check.detail}")
        for command in check.fix:
            output.line(f"     {'':{width}}  try: {command}")
    output.line(f"sandbox tier {sandbox.tier}: {sandbox.reason}")
    for command in sandbox.fix:
        output.line(f"     try: {command}")
