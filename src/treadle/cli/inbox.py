"""What a human says: `send`, `answer`, and `dead` for messages that could not be carried out."""

import os
import sys
from argparse import Namespace
from datetime import UTC, datetime

from treadle.cli import context, output
from treadle.desk import Answered, answer, answer_document
from treadle.inbox import box
from treadle.inbox.box import DeadLetter, NewMessage, SentMessage
from treadle.mail import effect
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


def answer_question(args: Namespace) -> int:
    """Write the answer down, tell who asked, name the commands that are yours to start."""
    refuse_inside_run(os.environ)
    found, now = context.find_project(), datetime.now(UTC)
    with Store.open(found.layout) as store:
        effect.refresh(store, found.layout.mail, now)
        given = answer(found.layout, store, args.item, args.text, args.option, now)
    return output.tell(args.json, answer_document(given), _print_answer, given)


def _print_answer(given: Answered) -> None:
    output.line(f"{given.question.question_id} is answered: {given.question.answer}")
    if given.letter:
        output.line(f"  told in {given.letter}")
    if given.task:
        output.line(f"  {given.task.task_id} is {given.task.lane} again")
    for command in given.fix:
        output.line(f"  {command}")
