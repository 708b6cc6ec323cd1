"""What a human decides: `answer`, and `desk show` for all there is to know about an item."""

import os
from argparse import Namespace
from datetime import UTC, datetime

from treadle import desk
from treadle.cli import context, invoke, output
from treadle.desk import Answered, Words, answer_document, finish
from treadle.errors import ExitCode
from treadle.ids import local
from treadle.mail import effect
from treadle.project import refuse_inside_run
from treadle.store.questions import QuestionRow
from treadle.store.store import Store
from treadle.tasks import questions


def answer_item(args: Namespace) -> int:
    """Take the answer, then carry it out by the very command that it stands for."""
    refuse_inside_run(os.environ)
    found, said = context.find_project(), Words(args.action, args.text, args.option)
    with Store.open(found.layout) as store:
        effect.refresh(store, found.layout.mail, store.now())
        given = desk.answer(store, args.item, said, store.now())
    if not args.json:
        _print_answer(given)
    code, results = int(ExitCode.FAILED), list[object]()
    try:
        for command in given.commands:
            code, told = invoke.carry_out(command, args.json, args.wait)
            results.append(told)
        code = code if given.commands else ExitCode.DONE
    finally:
        with Store.open(found.layout) as store:
            finish(store, given, code == ExitCode.DONE, store.now())
    if args.json:
        output.print_json(answer_document(given) | {"results": results})
    return code


def _print_answer(given: Answered) -> None:
    name, verb = given.question.question_id, given.action.verb
    for command in given.commands:
        output.line(output.paint(f"{name}: {command}", "bold"), flush=True)
    if given.letter:
        output.line(f"{name} is answered: {given.answer}")
        output.line(f"  told in {given.letter}")
    elif not given.commands and verb != "leave":
        output.line(f"{name} is answered: {given.answer}")
    if given.task:
        output.line(f"  {given.task.task_id} is {given.task.lane} again")
    if verb == "leave":
        output.line(f"{name} is off the desk; nothing else changes. Take it up again with:")
        for command in questions.commands(given.question):
            output.line(f"  {command}")


def show_item(args: Namespace) -> int:
    found = context.find_project()
    context.follow_missions(found)
    with context.fresh(found, datetime.now(UTC)) as store:
        row = questions.find(store, args.item)
        parts = desk.details(found.layout, store, row)
    return output.tell(args.json, desk.show_document(row, parts), _print_item, row, parts)


def _print_item(row: QuestionRow, parts: list[desk.Detail]) -> None:
    output.line(output.paint(f"{row.question_id}  {row.kind.replace('_', ' ')}", "bold"))
    output.line(row.summary)
    for part in parts:
        output.line()
        output.line(output.paint(part.title, "bold"))
        output.block(part.text)
    output.line()
    if not row.is_open:
        output.line(
            f"answered by {row.answered_by} at {local(row.answered_at or '')}: {row.answer}"
        )
        return
    for number, action in enumerate(row.actions, 1):
        if action.verb == "answer":
            output.line(f"{number}. {action.value}")
    for command in (*row.answers, *questions.looks(row)):
        output.line(f"  {command}")
