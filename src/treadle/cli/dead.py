"""`treadle dead`: list, show and retry dead letters."""

import os
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime

from treadle.cli import output
from treadle.inbox import dead
from treadle.inbox.dead import Letter
from treadle.layout import Layout
from treadle.project.root import find_root, here, refuse_inside_run
from treadle.store.writer import Store


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
        return _show(args, layout, dead.find(layout, args.letter))
    refuse_inside_run(os.environ)
    return _retry(args, layout, dead.find(layout, args.letter))


def _list(args: Namespace, layout: Layout) -> int:
    found = dead.letters(layout)
    lines = [
        f"{item.name}  {item.reason.get('code')}: {item.reason.get('message')}" for item in found
    ]
    return output.say(args.json, dead.document(found), *lines or ["no dead letters"])


def _show(args: Namespace, layout: Layout, letter: Letter) -> int:
    text = dead.text_of(layout, letter)
    told = {"name": letter.name, **letter.reason, "text": text}
    return output.tell(args.json, told, _print, letter, text)


def _print(letter: Letter, text: str) -> None:
    output.line(output.paint(letter.name, "bold"))
    output.line(f"because: {letter.reason.get('message')}")
    fix = letter.reason.get("fix")
    for command in fix if isinstance(fix, list) else []:
        output.line(f"next: {command}")
    output.line()
    output.block(text)


def _retry(args: Namespace, layout: Layout, letter: Letter) -> int:
    with Store.open(layout) as store:
        name = dead.retry(layout, store, letter, datetime.now(UTC))
    lines = (f"{name} is back in the inbox", "  next: treadle process")
    return output.say(args.json, {"file": name}, *lines)
