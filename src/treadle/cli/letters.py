"""Show letters as words or as documents."""

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from treadle.cli import output
from treadle.cli.place import Place
from treadle.errors import ExitCode
from treadle.store.records import LetterRow


def show_rows(found: Place, args: Namespace, rows: list[LetterRow], nothing: str) -> int:
    """Print letters as a table, or as a document."""
    if args.json:
        root = shown(found, found.layout.mail.root)
        output.print_json({"letters": [document(root, row) for row in rows]})
    elif not rows:
        print(nothing)
    else:
        table = [
            (row.box, row.agent, row.sender, row.recipient, row.intent, row.task_id, row.name)
            for row in rows
        ]
        output.print_table(["box", "of", "from", "to", "intent", "task", "file"], table)
    return ExitCode.DONE


def document(root: str, row: LetterRow) -> dict[str, object]:
    """Return a letter as programs get it; `root` is where letters lie, as shown."""
    return {
        "file": f"{root}/{row.folder}/{row.name}",
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
