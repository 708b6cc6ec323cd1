"""`treadle agent`: show how an agent is run, and try it."""

from argparse import Namespace

from treadle.agents.backend import AgentResult
from treadle.cli import output
from treadle.cli.project import open_configured, require_trust
from treadle.contract import ROLES, Role
from treadle.engine import health
from treadle.engine.health import Preview
from treadle.errors import ExitCode


def show_agent(args: Namespace) -> int:
    project, loaded = open_configured()
    named: Role | None = next((role for role in ROLES if role == args.name), None)
    role: Role = args.role or named or "do"
    found = health.preview(project, loaded.config, args.name, role)
    told = found._asdict() | {"command": health.command_line(found)}
    return output.tell(args.json, told, _print_preview, found)


def try_agent(args: Namespace) -> int:
    project, loaded = open_configured()
    require_trust(args, project)
    result = health.attempt(project, loaded.config, args.name)
    output.tell(args.json, health.answer_document(result), _print_result, result)
    return ExitCode.FAILED if result.error else ExitCode.DONE


def _print_preview(found: Preview) -> None:
    output.line(f"agent      {found.name} ({found.type}) as {found.role}")
    output.line(f"program    {found.program or 'NOT FOUND on PATH'}")
    if found.version:
        output.line(f"version    {found.version}")
    if found.log_in:
        output.line(f"login      {health.login_state(found)}")
    output.line(f"sandbox    tier {found.tier}")
    output.line(f"folder     {found.cwd}")
    output.line(f"command    {health.command_line(found)}")


def _print_result(result: AgentResult) -> None:
    word = output.paint("FAILED", "red") if result.error else output.paint("ok:", "green")
    code = f"({result.error}): " if result.error else ""
    output.line(word, f"{code}{result.message}")
    if result.json_source:
        output.line(f"found in   {result.json_source}")
    if used := result.usage:
        output.line(f"used       {used.input_tokens} tokens in, {used.output_tokens} out")
