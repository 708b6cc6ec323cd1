"""Check everything treadle needs."""

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from treadle.cli import output
from treadle.config.backends import TOOLS
from treadle.config.load import load
from treadle.engine import lock, orchestrator, rehearse, repair
from treadle.engine.progress import nobody
from treadle.errors import ExitCode, ProjectError, TreadleError
from treadle.layout import Layout
from treadle.project import doctor
from treadle.project.doctor import Check
from treadle.project.project import open_project
from treadle.project.root import find_top, here, refuse_inside_run
from treadle.sandbox.probe import Sandbox


def add_arguments(parser: ArgumentParser) -> None:
    """Say what doctor understands."""
    parser.add_argument("--repair", action="store_true", help="Mend what can be mended")


def run(args: Namespace) -> int:
    """Mend if asked to, then look, say what was found, and how to help."""
    mended = _repair() if args.repair else []
    found = doctor.run(here(), os.environ)
    checks = (*found.checks, *_tools(here()), *_lock(here()))
    if args.json:
        output.print_json(
            {
                "ok": found.ok,
                "checks": [check._asdict() for check in checks],
                "sandbox": found.sandbox._asdict(),
                "repaired": mended,
            }
        )
    else:
        for run_id in mended:
            print(f"mended run {output.clean(run_id)}")
        _print(checks, found.sandbox)
    return ExitCode.DONE if found.ok else ExitCode.FAILED


def _repair() -> list[str]:
    refuse_inside_run(os.environ)
    project = open_project(here(), os.environ)
    with orchestrator.opened(project, watch=nobody) as tools:
        return repair.repair(tools)


def _tools(cwd: Path) -> list[Check]:
    """Say of every agent tool in the configuration which version it is and how it would log in."""
    try:
        project = open_project(cwd, os.environ)
        config = load(project.layout, project.env).config
    except TreadleError:
        return []  # said already
    names = [name for name, agent in config.agents.items() if agent.type in TOOLS]
    shown = [rehearse.preview(project, config, name, "do") for name in names]
    return [
        Check(
            f"agent {item.name} login",
            True,
            f"{item.version or 'no version'}; {item.login or 'NO LOGIN SEEN: log in with it'};"
            f" runs: {rehearse.line(item)}",
        )
        for item in shown
        if item.program
    ]


def _lock(cwd: Path) -> list[Check]:
    try:
        who = lock.holder(Layout(find_top(cwd, os.environ)).run_lock)
    except ProjectError:
        return []
    if who is None:
        return [Check("lock", True, "free")]
    text = f"held by pid {who.get('pid', '?')} on {who.get('host', '?')}"
    return [Check("lock", True, f"{text} since {who.get('since', '?')}")]


def _print(checks: tuple[Check, ...], sandbox: Sandbox) -> None:
    width = max(len(check.name) for check in checks)
    for check in checks:
        mark = output.paint("ok ", "green") if check.ok else output.paint("NOT", "red")
        print(f"{mark}  {check.name:{width}}  {output.clean(check.detail)}")
        for command in check.fix:
            print(f"     {'':{width}}  try: {output.clean(command)}")
    print(f"sandbox tier {sandbox.tier}: {output.clean(sandbox.reason)}")
    for command in sandbox.fix:
        print(f"     try: {command}")
