"""Show letters as words or as documents."""

from argparse import Namespace
from collections.abc import Mapping

from treadle.cli import output
from treadle.cli.place import Place
from treadle.errors import ExitCode
from treadle.mail import document
from treadle.store.records import LetterRow


def show_rows(found: Place, args: Namespace, rows: list[LetterRow], nothing: str) -> int:
    """Print letters as a table, or as a document."""
    if args.json:
        output.print_json(document.listed(found.layout, rows))
    elif not rows:
        print(nothing)
    else:
        table = [
            (row.box, row.agent, row.sender, row.recipient, row.intent, row.task_id, row.name)
            for row in rows
        ]
        output.print_table(["box", "of", "from", "to", "intent", "task", "file"], table)
    return ExitCode.DONE


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
