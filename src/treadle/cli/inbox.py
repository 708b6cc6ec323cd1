"""What a human says: `send`, and `dead` for messages that could not be carried out."""

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime

from treadle.cli import output
from treadle.cli.runs import print_failed
from treadle.engine.show.ends import FailedCommand, failed_routine
from treadle.errors import argument
from treadle.inbox import box
from treadle.inbox.box import DeadLetter, NewMessage, SentMessage
from treadle.project import find_place, here, refuse_inside_run
from treadle.store.store import Reader, Store


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
    with Reader.open(layout) as store:
        ids = letter.reason.get("run_ids")
        run = store.run(str(ids[-1])) if isinstance(ids, list) and ids else None
        failed = failed_routine(layout, store, run) if run else ()
    commands = [command._asdict() for command in failed]
    told = {"name": letter.name, **letter.reason, "text": text, "failed_commands": commands}
    return output.tell(args.json, told, _print, letter, text, failed)


def _print(letter: DeadLetter, text: str, failed: Sequence[FailedCommand]) -> None:
    output.line(output.paint(letter.name, "bold"))
    output.line(f"because: {letter.reason.get('message')}")
    print_failed(failed)
    fix = letter.reason.get("fix")
    for command in fix if isinstance(fix, list) else []:
        output.line(f"next: {command}")
    output.line()
    output.block(text)


def retry_dead(args: Namespace) -> int:
    layout = find_place(here(), os.environ).layout
    refuse_inside_run(os.environ)
    with Store.open(layout) as store:
        name = box.retry(layout, store, args.letter, datetime.now(UTC))
    lines = (f"{name} is back in the inbox", f"  next: treadle process {argument(name)}")
    return output.say(args.json, {"file": name}, *lines)
