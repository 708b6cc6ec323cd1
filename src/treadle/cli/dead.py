"""`treadle dead`: list, show and retry dead letters."""

import os
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime

from treadle.cli import output
from treadle.inbox import box
from treadle.inbox.box import DeadLetter
from treadle.layout import Layout
from treadle.project.root import find_root, here, refuse_inside_run
from treadle.store.store import Store


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    commands = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    commands.add_parser("list", help="List dead letters")
    for name, text in (("show", "Show one and why it died"), ("retry", "Put one back")):
        inner = commands.add_parser(name, help=text)
        inner.add_argument("letter", metavar="LETTER", help="Its file, message id or spec")


def run(args: Namespace) -> int:
    """Do what was asked."""
    layout = Layout(find_root(here(), os.environ))
    if args.action == "list":
        return _list(args, layout)
    if args.action == "show":
        return _show(args, layout, box.find_dead(layout, args.letter))
    refuse_inside_run(os.environ)
    return _retry(args, layout, box.find_dead(layout, args.letter))


def _list(args: Namespace, layout: Layout) -> int:
    found = box.dead_letters(layout)
    lines = [
        f"{item.name}  {item.reason.get('code')}: {item.reason.get('message')}" for item in found
    ]
    return output.say(args.json, box.dead_document(found), *lines or ["no dead letters"])


def _show(args: Namespace, layout: Layout, letter: DeadLetter) -> int:
    text = box.text_of_dead(layout, letter)
    told = {"name": letter.name, **letter.reason, "text": text}
    return output.tell(args.json, told, _print, letter, text)


def _print(letter: DeadLetter, text: str) -> None:
    output.line(output.paint(letter.name, "bold"))
    output.line(f"because: {letter.reason.get('message')}")
    fix = letter.reason.get("fix")
    for command in fix if isinstance(fix, list) else []:
        output.line(f"next: {command}")
    output.line()
    output.block(text)


def _retry(args: Namespace, layout: Layout, letter: DeadLetter) -> int:
    with Store.open(layout) as store:
        name = box.retry_dead(layout, store, letter, datetime.now(UTC))
    lines = (f"{name} is back in the inbox", "  next: treadle process")
    return output.say(args.json, {"file": name}, *lines)
