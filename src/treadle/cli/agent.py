"""`treadle agent`: show how an agent is run, and try it."""

import os
from argparse import ArgumentParser, Namespace

from treadle.agents.backend import AgentResult
from treadle.cli import consent, output
from treadle.config.load import load
from treadle.contract.role import ROLES, Role
from treadle.engine import rehearse
from treadle.engine.rehearse import Preview
from treadle.errors import ExitCode
from treadle.project.project import open_project
from treadle.project.root import here, refuse_inside_run


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    shown = actions.add_parser("show", help="Show the exact command an agent would run")
    shown.add_argument("name", metavar="NAME", help="Name of an agent, or a role")
    shown.add_argument("--role", choices=ROLES, help="The role it would play")
    tried = actions.add_parser("try", help="Ask an agent something harmless")
    tried.add_argument("name", metavar="NAME", help="Name of an agent, or a role")


def run(args: Namespace) -> int:
    """Open the project, look or try, say what came back."""
    refuse_inside_run(os.environ)
    project = open_project(here(), os.environ)
    loaded = load(project.layout, project.env)
    if args.action == "show":
        named: Role | None = next((role for role in ROLES if role == args.name), None)
        role: Role = args.role or named or "do"
        found = rehearse.preview(project, loaded.config, args.name, role)
        told = found._asdict() | {"command": rehearse.line(found)}
        return output.tell(args.json, told, _show, found)
    consent.require(args, project, loaded)
    result = rehearse.attempt(project, loaded.config, args.name)
    output.tell(args.json, rehearse.document(result), _tell, result)
    return ExitCode.FAILED if result.error else ExitCode.DONE


def _show(found: Preview) -> None:
    output.line(f"agent      {found.name} ({found.type}) as {found.role}")
    output.line(f"program    {found.program or 'NOT FOUND on PATH'}")
    if found.version:
        output.line(f"version    {found.version}")
    if found.log_in:
        output.line(f"login      {rehearse.login_state(found)}")
    output.line(f"sandbox    tier {found.tier}")
    output.line(f"folder     {found.cwd}")
    output.line(f"command    {rehearse.line(found)}")


def _tell(result: AgentResult) -> None:
    word = output.paint("FAILED", "red") if result.error else output.paint("ok:", "green")
    code = f"({result.error}): " if result.error else ""
    output.line(word, f"{code}{result.message}")
    if result.json_source:
        output.line(f"found in   {result.json_source}")
    if used := result.usage:
        output.line(f"used       {used.input_tokens} tokens in, {used.output_tokens} out")
