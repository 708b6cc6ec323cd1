"""Set up a repository and say what it may do: `init uninstall trust`, `config show`."""

import json
import os
from argparse import Namespace
from collections.abc import Sequence
from contextlib import nullcontext

import msgspec

from treadle.cli import output
from treadle.config import agents, schema
from treadle.config.load import Loaded, load
from treadle.contract import ROLES
from treadle.engine import lock
from treadle.ids import mask
from treadle.layout import Layout
from treadle.project import find_root, find_top, here, refuse_inside_run, setup, trust
from treadle.project.context import open_context
from treadle.project.setup import InitExtras, refuse_links
from treadle.project.trust import ForeignChange
from treadle.sandbox.mask import Mask


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
