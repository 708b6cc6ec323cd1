"""Show the configuration and where it comes from."""

import json
import os
from argparse import ArgumentParser, Namespace

import msgspec

from treadle.cli import output
from treadle.config import agents, schema
from treadle.config.load import Loaded, load
from treadle.contract.role import ROLES
from treadle.ids import mask
from treadle.layout import Layout
from treadle.project.root import find_root, here
from treadle.sandbox.mask import Mask


def add_arguments(parser: ArgumentParser) -> None:
    """Say what config understands."""
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("show", help="Print every value in force with its origin")


def run(args: Namespace) -> int:
    """Print what is in force."""
    loaded = load(Layout(find_root(here(), os.environ)), os.environ)
    rows = [
        (key, json.dumps(value, ensure_ascii=False), origin["source"])
        for key, value, origin in _values(loaded)
    ]
    heads = ("KEY", "VALUE", "FROM")
    return output.tell(args.json, _document(loaded), output.print_table, heads, rows)


def _document(loaded: Loaded) -> dict[str, object]:
    roles = {}
    for role in ROLES:
        name, agent = agents.resolve(loaded.config, role)
        roles[role] = {"agent": name, "type": agent.type}
    return {
        "config": _shown(loaded),
        "origins": {key: origin for key, _, origin in _values(loaded)},
        "roles": roles,
    }


def _values(loaded: Loaded) -> list[tuple[str, object, dict[str, str]]]:
    values = dict(_flat(_shown(loaded), ()))
    return [(key, values[key], origin._asdict()) for key, origin in loaded.origins.items()]


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
