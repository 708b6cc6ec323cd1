"""Set up a repository and look after it: `init uninstall trust config doctor agent store`."""

import json
import os
from argparse import Namespace
from collections.abc import Sequence
from contextlib import nullcontext

import msgspec

from treadle.agents.backend import AgentResult
from treadle.cli import output
from treadle.cli.run import open_configured, require_trust
from treadle.config import agents, schema
from treadle.config.load import Loaded, load
from treadle.contract import ROLES, Role
from treadle.engine import health, lock, session
from treadle.engine.health import Preview
from treadle.engine.recovery import repair
from treadle.engine.run.memory import nobody
from treadle.errors import ExitCode, StoreError
from treadle.ids import mask
from treadle.layout import Layout
from treadle.project import find_place, find_root, find_top, here, refuse_inside_run, setup, trust
from treadle.project.context import open_context
from treadle.project.doctor import Check
from treadle.project.setup import InitExtras, refuse_links
from treadle.project.trust import ForeignChange
from treadle.sandbox.jails import Sandbox
from treadle.sandbox.mask import Mask
from treadle.store import address, copy
from treadle.text import plural


def set_up(args: Namespace) -> int:
    done = setup.init(
        here(),
        os.environ,
        dry_run=args.dry_run,
        commit=args.commit,
        accept=args.trust,
        extras=InitExtras(agents_md=args.agents_md, skills=args.skills),
    )
    commands = [command._asdict() for command in done.commands]
    told = done._asdict() | {"dry_run": args.dry_run, "commands": commands}
    return output.tell(args.json, told, _print_init, done, args.dry_run)


def _print_init(done: setup.Initialised, dry_run: bool) -> None:
    for name in done.wrote:
        output.line(f"{'would write' if dry_run else 'wrote'} {name}")
    for name in done.kept:
        output.line(f"kept {name}")
    for role, tool in done.roles.items():
        output.line(f"{role} is done by {tool}")
    if done.commit:
        output.line(f"committed as {done.commit[:12]}")
    if dry_run:
        return
    word = "trusted" if done.trusted else "not trusted"
    for command in done.commands:
        output.line(f"{word} {command.key}: {command.command}")
    if done.trusted:
        add = 'treadle task add "what should be true" --verify "AC1=command"'
        output.line(f"next: {add}, then treadle run")
        return
    output.line(f"others committed {', '.join(done.foreign)}; none of it runs yet")
    output.line("next: treadle trust --show, then treadle trust")


def remove_setup(args: Namespace) -> int:
    """Remove unchanged files while no run works, and name what stays."""
    refuse_inside_run(os.environ)
    layout = Layout(find_top(here(), os.environ))
    refuse_links(layout)
    with nullcontext() if args.dry_run or not layout.home.is_dir() else lock.hold(layout):
        done = setup.uninstall(here(), os.environ, purge=args.purge, dry_run=args.dry_run)
    kept = [item._asdict() for item in done.kept]
    told = {"root": str(done.root), "dry_run": args.dry_run, "removed": done.removed, "kept": kept}
    lines = [
        *(f"{'would remove' if args.dry_run else 'removed'} {name}" for name in done.removed),
        *(f"kept {item.path} ({item.reason})" for item in done.kept),
    ]
    return output.say(args.json, told, *lines or ["nothing to remove"])


def trust_repository(args: Namespace) -> int:
    """Record the repository outside of it and show what may run now."""
    refuse_inside_run(os.environ)
    project = open_context(here(), os.environ, is_foreign=True)
    changes: Sequence[ForeignChange] = ()
    commands: Sequence[trust.BroughtCommand] = ()
    if args.revoke:
        trust.revoke(project)
        word = "is no longer trusted"
    else:
        changes, commands = (
            trust.changes(project, trust.look(project)),
            trust.commands(project.settings),
        )
        if not args.show:
            trust.grant(project)
        word = "is trusted" if trust.entry(project) else "is not trusted"
    if args.show and changes:
        word += "; others have committed changes that you have not trusted yet"
    root = project.layout.root
    told = {
        "root": str(root),
        "trusted": trust.entry(project) is not None,
        "commands": [command._asdict() for command in commands],
        "changes": [change._asdict() for change in changes],
    }
    return output.say(
        args.json,
        told,
        *(line for change in changes for line in change.diff.splitlines()),
        f"{root} {word}",
        *(f"  {command.key}: {command.command}" for command in commands),
    )


def show_config(args: Namespace) -> int:
    loaded = load(Layout(find_root(here(), os.environ)), os.environ)
    values, origins = dict(_flat(_shown(loaded), ())), loaded.origins
    rows = [
        (key, json.dumps(values[key], ensure_ascii=False), origin.source)
        for key, origin in origins.items()
    ]
    roles = {}
    for role in ROLES:
        name, agent = agents.resolve(loaded.config, role)
        roles[role] = {"agent": name, "type": agent.type}
    known = {key: origin._asdict() for key, origin in origins.items()}
    told = {"config": _shown(loaded), "origins": known, "roles": roles}
    return output.tell(args.json, told, output.print_table, ("KEY", "VALUE", "FROM"), rows)


def _shown(loaded: Loaded) -> dict[str, object]:
    """Return the configuration without secrets in addresses and command lines."""
    config = loaded.config
    shown = Mask(os.environ).value(msgspec.to_builtins(config))
    assert isinstance(shown, dict)
    return shown | {
        name: mask(value) if value else None
        for name, value in (("store", config.store), ("artifacts", config.artifacts))
    }


def _flat(value: object, path: schema.KeyPath) -> list[tuple[str, object]]:
    if not isinstance(value, dict):
        return [(schema.dotted(path), value)]
    return [item for key, inner in value.items() for item in _flat(inner, (*path, key))]


def check_health(args: Namespace) -> int:
    mended = _repair() if args.repair else []
    found = health.examine(here(), os.environ)
    told = health.health_document(found, mended)
    output.tell(args.json, told, _print_doctor, mended, found.checks, found.sandbox)
    return ExitCode.DONE if found.ok else ExitCode.FAILED


def _repair() -> list[str]:
    refuse_inside_run(os.environ)
    project = open_context(here(), os.environ)
    with session.opened(project, watch=nobody) as tools:
        return repair.repair(tools)


def _print_doctor(mended: list[str], checks: tuple[Check, ...], sandbox: Sandbox) -> None:
    for run_id in mended:
        output.line(f"repaired run {run_id}")
    width = max(len(check.name) for check in checks)
    for check in checks:
        mark = output.paint("ok ", "green") if check.ok else output.paint("NOT", "red")
        output.line(mark, f" {check.name:{width}}  {check.detail}")
        for command in check.fix:
            output.line(f"     {'':{width}}  try: {command}")
    output.line(f"sandbox tier {sandbox.tier}: {sandbox.reason}")
    for command in sandbox.fix:
        output.line(f"     try: {command}")


def copy_store(args: Namespace) -> int:
    """Copy while nothing runs, and say what to write into the configuration."""
    refuse_inside_run(os.environ)
    layout = find_place(here(), os.environ).layout
    schema = args.schema or address.schema(layout, os.environ)
    target = address.at(address.absolute(args.to, layout.root), schema)
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
