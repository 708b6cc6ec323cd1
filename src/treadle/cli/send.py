"""`treadle send`: put a message into the inbox."""

import os
import sys
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime

from treadle.cli import output
from treadle.inbox import box
from treadle.inbox.box import Sent
from treadle.layout import Layout
from treadle.project.root import find_root, here
from treadle.store.store import Store


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("text", metavar="TEXT", help="What is to be done; - reads it from stdin")
    parser.add_argument("--routine", metavar="NAME", help="The routine that carries it out")
    parser.add_argument("--chain", metavar="CHAIN", help="The chain it belongs to")
    parser.add_argument(
        "--field", action="append", default=[], metavar="KEY=VALUE", help="A field of its own"
    )


def run(args: Namespace) -> int:
    """Write the message and say where it is."""
    fields = box.parse_fields(args.field)
    text = sys.stdin.read() if args.text == "-" else args.text
    message = box.draft(text, args.routine, args.chain, fields)
    found = _send(message)
    told = {"file": found.file, "message_id": found.message_id}
    return output.say(args.json, told, f"sent {found.message_id or found.file}")


def _send(message: box.Draft) -> Sent:
    if os.environ.get("TREADLE_RUN"):
        return box.send_from_run(os.environ, message)
    layout = Layout(find_root(here(), os.environ))
    with Store.open(layout) as store:
        return box.send(layout, store, message, datetime.now(UTC))
