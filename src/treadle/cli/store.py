"""`treadle store`: move the project's store elsewhere."""

import json
import os
from argparse import ArgumentParser, Namespace

from treadle.cli import output
from treadle.engine import lock
from treadle.errors import StoreError
from treadle.ids import mask
from treadle.layout import Layout
from treadle.project.root import find_root, here, refuse_inside_run
from treadle.store import address
from treadle.store.database import copy


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    copied = actions.add_parser("copy", help="Copy everything into an empty store")
    copied.add_argument("--to", required=True, metavar="URL", help="postgresql://… or sqlite:PATH")
    copied.add_argument("--schema", metavar="NAME", help="The project's schema in PostgreSQL")


def run(args: Namespace) -> int:
    """Copy while nothing runs, and say what to write into the configuration."""
    refuse_inside_run(os.environ)
    layout = Layout(find_root(here(), os.environ))
    schema = args.schema or address.schema(layout, os.environ)
    target = address.at(address.absolute(args.to, layout.root), schema)
    source = address.find(layout)
    if source.name == target.name:
        text = f"{source.name} is the store in use; name another one"
        raise StoreError(text, fix=["treadle store copy --help"])
    with lock.hold(layout):
        rows = copy.copy(source, target)
    lines = _lines(args.to, schema)
    return output.say(
        args.json,
        {"from": source.name, "to": target.name, "rows": rows, "config": lines},
        f"copied {sum(rows.values())} rows of {len(rows)} tables to {target.name}",
        "put this above the first table of .treadle/config.toml, and keep passwords out of it:",
        *(f"  {line}" for line in lines),
    )


def _lines(url: str, schema: str) -> list[str]:
    lines = [f"store = {json.dumps(mask(url), ensure_ascii=False)}"]
    return lines if url.startswith("sqlite:") else [*lines, f'store_schema = "{schema}"']
