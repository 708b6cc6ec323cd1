"""Set up a repository and say what it may do: `init uninstall trust`, `config show`."""

import json
import os
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path

import msgspec

from treadle.cli import output
from treadle.config import agents, schema
from treadle.config.load import Loaded, load
from treadle.contract import ROLES
from treadle.engine import health, lock
from treadle.errors import BlockedError, TreadleError, edit
from treadle.git import call
from treadle.ids import mask
from treadle.layout import Layout
from treadle.moving import systems
from treadle.proc import helper
from treadle.project import find_layout, here, refuse_inside_run, require_project, setup, trust
from treadle.project.context import landed_runs, open_context, open_repository
from treadle.project.setup import InitExtras, refuse_links
from treadle.project.trust import ForeignChange
from treadle.sandbox.mask import Mask
from treadle.text import name_some


def set_up(args: Namespace) -> int:
    try:
        done = _set_up(args, here())
    except BlockedError as error:
        if error.code != "which_project" or args.json or not output.can_ask():
            raise
        output.line(f"{error.message}.", error=True)
        output.line("This folder alone (h), or the whole repository (w)? [h/w]", error=True)
        answer = sys.stdin.readline().strip().lower()
        if answer not in ("h", "w"):
            raise
        args.here = answer == "h"
        done = _set_up(args, here() if args.here else find_layout(here(), os.environ).root)
    commands = [command._asdict() for command in done.commands]
    tools = [item._asdict() for item in health.find_tools(os.environ)]
    told = done._asdict() | {"dry_run": args.dry_run, "commands": commands, "tools": tools}
    told |= {"adoptable": (others := systems.found(Layout(done.root)))}
    code = output.tell(args.json, told, _print_init, done, args.dry_run)
    if others and done.is_new and not args.json:
        output.line(f"{name_some(others)} can be moved in: treadle adopt --dry-run")
    if done.is_new and not args.json and not args.dry_run:
        _offer_tools(done.root)
    return code


def _offer_tools(root: Path) -> None:
    """Show how each tool found would get treadle's own tools, and do it for those who say yes.

    A tool loads what lies where it starts, and a clone may bring it: it starts elsewhere.
    """
    if not find_spec("mcp"):
        return
    for command in (item.register for item in health.find_tools(os.environ) if item.register):
        if not output.can_ask():
            output.line(f"to use treadle from {command.split()[0]}: {command}")
            continue
        output.line(f"Run `{command}`, so that it can use treadle as tools? [y/N]", error=True)
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            words = (*helper.FROM_NOWHERE, *command.split())
            around = call.around(root)[0]["GIT_WORK_TREE"]
            helper.foreground(words, call.apart(os.environ, around))


def _set_up(args: Namespace, folder: Path) -> setup.Initialised:
    found = health.find_tools(os.environ)
    return setup.init(
        folder,
        os.environ,
        dry_run=args.dry_run,
        commit=args.commit,
        accept=args.trust,
        extras=InitExtras(
            agents_md=args.agents_md,
            skills=args.skills,
            tools=tuple(item.name for item in found if item.login),
        ),
        here=args.here,
    )


def _print_init(done: setup.Initialised, dry_run: bool) -> None:
    for name in done.wrote:
        output.line(f"{'would write' if dry_run else 'wrote'} {name}")
    for name in done.kept:
        output.line(f"kept {name}")
    for role, tool in done.roles.items():
        output.line(f"{role} is done by {tool}")
    _print_tools(health.find_tools(os.environ) if done.is_new else ())
    _print_place(done)
    if dry_run:
        return
    word = "trusted" if done.trusted else "not trusted"
    for command in done.commands:
        output.line(f"{word} {command.key}: {command.command}")
    if done.trusted:
        if done.is_new and not done.roles:
            output.line(f"no agent does the work yet; name one in {done.wrote[0]}")
            output.line(f"next: {edit(done.wrote[0])}")
        asked = '"CONTRIBUTING.md says how to run the tests" --verify "AC1=test -s CONTRIBUTING.md"'
        output.line(f"next: treadle task add {asked}")
        output.line("next: treadle run")
        return
    output.line(f"others committed {', '.join(done.foreign)}; none of it runs yet")
    output.line("next: treadle trust --show")
    output.line("next: treadle trust")


def _print_place(done: setup.Initialised) -> None:
    if done.commit:
        output.line(f"committed as {done.commit[:12]}")
    if done.ignored:
        output.line(f"not committed, because git ignores it: {name_some(done.ignored)}")
    if done.outer:
        told = "its runs may change files in here too, all but what treadle keeps in .treadle/"
        output.line(f"{done.outer} is a project as well: {told}")


def _print_tools(found: Sequence[health.FoundTool]) -> None:
    """Say which settings of a tool have no effect here, and why a tool got no role."""
    for item in found:
        for words in item.settings:
            output.line(words)
        if not item.login:
            text = f"{item.name} is installed, but no login was found: log in with {item.log_in}"
            output.line(f'{text}, then add [agents.{item.name}] with type = "{item.name}"')


def remove_setup(args: Namespace) -> int:
    """Remove unchanged files while no run works, and name what stays."""
    refuse_inside_run(os.environ)
    layout = find_layout(here(), os.environ)
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


def landed_elsewhere() -> Mapping[str, str]:
    """Return the runs of other clones whose work is in what is checked out here."""
    with suppress(TreadleError):  # nothing is checked out yet, or git may not look
        return landed_runs(open_repository(here(), os.environ))
    return {}


def show_config(args: Namespace) -> int:
    loaded = load(require_project(here(), os.environ), os.environ)
    values, origins = dict(_flat(_shown(loaded), ())), loaded.origins
    rows = [
        (key, origin.source, json.dumps(values[key], ensure_ascii=False))
        for key, origin in origins.items()
    ]
    roles = {}
    for role in ROLES:
        name, agent = agents.resolve(loaded.config, role)
        roles[role] = {"agent": name, "type": agent.type}
    known = {key: origin._asdict() for key, origin in origins.items()}
    told = {"config": _shown(loaded), "origins": known, "roles": roles}
    return output.tell(args.json, told, output.print_table, ("KEY", "FROM", "VALUE"), rows)


def _shown(loaded: Loaded) -> dict[str, object]:
    """Return the configuration without secrets in addresses and command lines."""
    config = loaded.config
    shown = Mask({**os.environ, **agents.secrets(config)}).value(msgspec.to_builtins(config))
    assert isinstance(shown, dict)
    return shown | {
        name: mask(value) if value else None
        for name, value in (("store", config.store), ("artifacts", config.artifacts))
    }


def _flat(value: object, path: schema.KeyPath) -> list[tuple[str, object]]:
    if not isinstance(value, dict):
        return [(schema.dotted(path), value)]
    return [item for key, inner in value.items() for item in _flat(inner, (*path, key))]
