"""`treadle routine`: list, show and check routines."""

import os
from argparse import ArgumentParser, Namespace

from treadle.cli import consent, output
from treadle.config.load import load
from treadle.config.schema import Config
from treadle.errors import ExitCode
from treadle.inbox import decide, hooks, routine
from treadle.inbox.hooks import Host
from treadle.inbox.routine import Routine
from treadle.proc.keeper import Keeper
from treadle.project.project import Project, open_project
from treadle.project.root import here


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    commands = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    commands.add_parser("list", help="List routines")
    show = commands.add_parser("show", help="Show what a routine says about itself")
    show.add_argument("name", metavar="NAME", help="The routine")
    check = commands.add_parser("check", help="Check one routine or all of them")
    check.add_argument("name", metavar="NAME", nargs="?", help="The routine; all without it")


def run(args: Namespace) -> int:
    """Do what was asked."""
    project = open_project(here(), os.environ)
    loaded = load(project.layout, project.env)
    notebooks = loaded.config.notebook_support
    if args.action == "list":
        return _list(args, project, notebooks)
    if args.action == "show":
        return _show(args, project, routine.find(project.layout, args.name, notebooks))
    consent.require(args, project, loaded, tuple(decide.commands(project.layout)))
    if args.name:
        found = [routine.find(project.layout, args.name, notebooks)]
    else:
        found = list(routine.discover(project.layout, notebooks).values())
    return _check(args, project, loaded.config, found)


def _list(args: Namespace, project: Project, notebooks: bool) -> int:
    found = routine.discover(project.layout, notebooks).values()
    told = {"routines": [_document(project, item) for item in found]}
    lines = [f"{item.name}  {item.summary}" for item in found]
    return output.say(args.json, told, *lines or ["no routines"])


def _show(args: Namespace, project: Project, found: Routine) -> int:
    document = _document(project, found)
    texts = {key: ", ".join(it) if isinstance(it, list) else it for key, it in document.items()}
    lines = [f"{key}: {'; '.join(str(text).splitlines())}" for key, text in texts.items() if text]
    return output.say(args.json, document, *lines)


def _check(args: Namespace, project: Project, config: Config, found: list[Routine]) -> int:
    held = hooks.bounds_for(config, project)
    with Keeper() as keeper:
        host = Host(project.layout.root, project.env, keeper, held)
        results = {item.name: list(routine.problems(host, item)) for item in found}
    rows = [{"name": name, "ok": not bad, "problems": bad} for name, bad in results.items()]
    lines = [f"{name}: {'; '.join(bad) or 'ok'}" for name, bad in results.items()]
    output.say(args.json, {"routines": rows}, *lines)
    return ExitCode.FAILED if any(results.values()) else ExitCode.DONE


def _document(project: Project, found: Routine) -> dict[str, object]:
    return {
        "name": found.name,
        "kind": found.kind,
        "file": project.layout.relative(found.path) if found.path else None,
        "description": found.description,
        "when": found.when,
        "workspace": "project" if found.in_project else "own",
        "parameters": list(found.parameters),
        "pre_check": found.pre_check,
    }
