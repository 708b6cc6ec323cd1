"""Turn the words of a command line into a letter, and letters into words."""

import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from treadle.cli import output
from treadle.cli.place import Place
from treadle.errors import ExitCode, FormatError, UsageError
from treadle.mail import look, send
from treadle.mail import place as places
from treadle.mail.letter import MAX_BYTES, parse_time
from treadle.mail.read import decode, text
from treadle.store.reader import Reader
from treadle.store.records import LetterRow


def headers(args: Namespace) -> tuple[tuple[str, str | None], ...]:
    """Return the optional headers that flags ask for."""
    for moment in (args.due_at, args.expires_at):
        if moment:
            parse_time(moment)
    return (
        ("priority", args.priority),
        ("due_at", args.due_at),
        ("expires_at", args.expires_at),
        ("ack_required", "true" if args.ack_required else None),
    )


def references(found: Place, store: Reader, file: str) -> tuple[tuple[str, str | None], ...]:
    """Return the headers that tie an answer to a letter."""
    original = look.find(store, file)
    letter = look.open_letter(found.layout.mail, original)
    return send.references(original, letter.header("thread_id"))


def body(args: Namespace) -> str:
    """Return the markdown that flags, a file or stdin give."""
    parts = [f"## Summary\n{args.summary}"] if args.summary else []
    if args.body:
        parts.append(_markdown(args.body).strip("\n"))
    if args.ac:
        items = "\n".join(f"- {item}" for item in args.ac)
        parts.append(f"## Acceptance Criteria\n{items}")
    return "\n\n".join(parts)


def _markdown(name: str) -> str:
    try:
        if name == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
            if len(data) > MAX_BYTES:
                raise UsageError(f"stdin has more than {MAX_BYTES} bytes")
            return decode(data, "stdin")
        return text(Path(name))
    except FileNotFoundError as error:
        raise UsageError(f"--body {name}: there is no such file") from error
    except FormatError as error:
        raise UsageError(f"--body {name}: {error.message}") from error


def show_rows(found: Place, args: Namespace, rows: list[LetterRow], nothing: str) -> int:
    """Print letters as a table, or as a document."""
    if args.json:
        output.print_json({"letters": [document(found, row) for row in rows]})
    elif not rows:
        print(nothing)
    else:
        table = [
            (row.box, row.agent, row.sender, row.recipient, row.intent, row.task_id, row.name)
            for row in rows
        ]
        output.print_table(["box", "of", "from", "to", "intent", "task", "file"], table)
    return ExitCode.DONE


def document(found: Place, row: LetterRow) -> dict[str, object]:
    """Return a letter as programs get it."""
    return {
        "file": shown(found, places.path(found.layout.mail, row)),
        "message_id": row.message_id,
        "from": row.sender,
        "to": row.recipient,
        "intent": row.intent,
        "task_id": row.task_id,
        "status": row.status,
        "created_at": row.created_at,
        "box": row.box,
        "holder": row.agent,
        "summary": row.summary,
    }


def shown(found: Place, path: Path) -> str:
    """Return a path from the project's root, if it is inside."""
    inside = path.is_relative_to(found.layout.root)
    return found.layout.relative(path) if inside else str(path)


def say(args: Namespace, told: Mapping[str, object], sentence: str) -> int:
    """Print a document or a sentence."""
    if args.json:
        output.print_json(told)
    else:
        print(output.clean(sentence))
    return ExitCode.DONE


def warn(said: list[str]) -> None:
    """Print what went wrong with letters that are not the ones asked for."""
    for sentence in said:
        output.warn(sentence)
