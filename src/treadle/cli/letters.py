"""Show letters as words or as documents."""

from argparse import Namespace

from treadle.cli import output
from treadle.cli.place import Place
from treadle.errors import ExitCode
from treadle.mail import document
from treadle.store.rows.letter import LetterRow


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
