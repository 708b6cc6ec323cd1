"""`treadle send` and `treadle dead`: put messages into the inbox, and look at those that died."""

import os
import sys
from argparse import Namespace
from datetime import UTC, datetime

from treadle.cli import output
from treadle.inbox import box
from treadle.inbox.box import DeadLetter, NewMessage, SentMessage
from treadle.project import find_place, here, refuse_inside_run
from treadle.store.store import Store


def send_message(args: Namespace) -> int:
    fields = box.parse_fields(args.field)
    text = sys.stdin.read() if args.text == "-" else args.text
    found = _deliver(box.draft(text, args.routine, args.chain, fields))
    told = {"file": found.file, "message_id": found.message_id}
    return output.say(args.json, told, f"sent {found.message_id or found.file}")


def _deliver(message: NewMessage) -> SentMessage:
    if os.environ.get("TREADLE_RUN"):
        return box.send_from_run(os.environ, message)
    layout = find_place(here(), os.environ).layout
    with Store.open(layout) as store:
        return box.send(layout, store, message, datetime.now(UTC))


def list_dead(args: Namespace) -> int:
    found = box.dead_letters(find_place(here(), os.environ).layout)
    lines = [
        f"{item.name}  {item.reason.get('code')}: {item.reason.get('message')}" for item in found
    ]
    return output.say(args.json, box.dead_document(found), *lines or ["no dead letters"])


def show_dead(args: Namespace) -> int:
    layout = find_place(here(), os.environ).layout
    letter = box.find_dead(layout, args.letter)
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


def retry_dead(args: Namespace) -> int:
    layout = find_place(here(), os.environ).layout
    refuse_inside_run(os.environ)
    letter = box.find_dead(layout, args.letter)
    with Store.open(layout) as store:
        name = box.retry_dead(layout, store, letter, datetime.now(UTC))
    lines = (f"{name} is back in the inbox", "  next: treadle process")
    return output.say(args.json, {"file": name}, *lines)
