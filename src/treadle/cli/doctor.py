"""Examine what treadle needs and uses: `doctor`, `agent show`, `agent try`, `store copy`."""

import contextlib
import json
import os
from argparse import Namespace
from collections.abc import Iterator, Sequence

from treadle.agents import versions
from treadle.agents.backend import AgentResult
from treadle.cli import output
from treadle.cli.run import open_configured, require_trust
from treadle.contract import ROLES, Role
from treadle.engine import health, lock, session
from treadle.engine.health import Preview
from treadle.engine.recovery import repair
from treadle.engine.run.memory import nobody
from treadle.errors import BlockedError, ExitCode, ProjectError, StoreError
from treadle.ids import mask
from treadle.inbox import routine
from treadle.project import find_place, here, refuse_inside_run
from treadle.project.context import open_context
from treadle.project.doctor import Check
from treadle.sandbox.jails import Sandbox
from treadle.store import address, copy
from treadle.text import plural


def check_health(args: Namespace) -> int:
    mended = _repair() if args.repair else []
    found = health.examine(here(), os.environ)
    found = found._replace(checks=(*found.checks, *_routines()))
    told = health.health_document(found, mended)
    output.tell(args.json, told, _print_doctor, mended, found.checks, found.sandbox)
    return ExitCode.DONE if found.ok else ExitCode.FAILED


def _routines() -> Iterator[Check]:
    """Yield the files among the routines that cannot be one."""
    with contextlib.suppress(
        BlockedError, ProjectError
    ):  # what is wrong there is a check of its own
        layout = find_place(here(), os.environ).layout
        for name, why in routine.unusable(layout, notebooks=True).items():
            yield Check(f"routine {name}", False, why, ("treadle routine check",))


def _repair() -> list[str]:
    refuse_inside_run(os.environ)
    project = open_context(here(), os.environ)
    with session.opened(project, watch=nobody) as tools:
        return repair.repair(tools)


def _print_doctor(mended: list[str], checks: tuple[Check, ...], sandbox: Sandbox) -> None:
    for run_id in mended:
        output.line(f"repaired run {run_id}")
    print_checks(checks)
    output.line(f"sandbox tier {sandbox.tier}: {sandbox.reason}")
    for command in sandbox.fix:
        output.line(f"     try: {command}")


def print_checks(checks: Sequence[Check]) -> None:
    """Print what was looked at, a line each, and what to try where something is wrong."""
    width = max(len(check.name) for check in checks)
    for check in checks:
        mark = output.paint("ok ", "green") if check.ok else output.paint("NOT", "red")
        output.line(mark, f" {check.name:{width}}  {check.detail}")
        for command in check.fix:
            output.line(f"     {'':{width}}  try: {command}")


def copy_store(args: Namespace) -> int:
    """Copy while nothing runs, and say what to write into the configuration."""
    refuse_inside_run(os.environ)
    layout = find_place(here(), os.environ).layout
    schema = args.schema or address.schema(layout, os.environ)
    target = address.of_project(address.absolute(args.to, layout.shared), schema)
    source = address.find(layout)
    if source.name == target.name:
        text = f"{source.name} is the store in use; name another one"
        raise StoreError(text, fix=["treadle store copy --help"])
    with lock.hold(layout):
        rows = copy.copy(source, target)
    lines = [f"store = {json.dumps(mask(args.to), ensure_ascii=False)}"]
    if not args.to.startswith("sqlite:"):
        lines.append(f'store_schema = "{schema}"')
    size = f"{plural(sum(rows.values()), 'row')} of {plural(len(rows), 'table')}"
    return output.say(
        args.json,
        {"from": source.name, "to": target.name, "rows": rows, "config": lines},
        f"copied {size} to {target.name}",
        "put this above the first table of .treadle/config.toml, and keep passwords out of it:",
        *(f"  {line}" for line in lines),
    )


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
    result, logs = health.attempt(project, loaded.config, args.name)
    told = health.answer_document(result) | {"logs": str(logs)}
    output.tell(args.json, told, _print_result, result)
    if not args.json:
        output.line(f"logs       {project.layout.shown(logs)}")
    return ExitCode.FAILED if result.error else ExitCode.DONE


def _print_preview(found: Preview) -> None:
    output.line(f"agent      {found.name} ({found.type}) as {found.role}")
    output.line(f"program    {found.program or 'NOT FOUND on PATH'}")
    if found.tested:
        output.line(f"version    {versions.compared(found.version, found.tested)}")
    if found.log_in:
        output.line(f"login      {health.login_state(found)}")
    for words in (*found.settings, *filter(None, [found.unready])):
        output.line(f"note       {words}")
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
