"""Show letters as words or as documents."""

from argparse import Namespace

from treadle.cli import output
from treadle.cli.place import Place
from treadle.mail import document
from treadle.store.letters import LetterRow


def show_rows(found: Place, args: Namespace, rows: list[LetterRow], nothing: str) -> int:
    """Print letters as a table, or as a document."""
    heads = ["box", "of", "from", "to", "intent", "task", "file"]
    table = [
        (row.box, row.agent, row.sender, row.recipient, row.intent, row.task_id, row.name)
        for row in rows
    ]
    return output.table(args.json, document.listed(found.layout, rows), heads, table, nothing)
