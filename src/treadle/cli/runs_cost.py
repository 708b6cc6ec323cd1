"""`treadle runs cost`: tell what agents have cost."""

import os
from argparse import Namespace
from datetime import UTC, datetime

from treadle.cli import output
from treadle.engine import costs
from treadle.errors import UsageError
from treadle.layout import Layout
from treadle.project.root import find_root, here
from treadle.store.store import Reader

_HEADS = ["steps", "tokens in", "cached", "tokens out", "USD", "minutes"]


def run(args: Namespace) -> int:
    """Print the sums of the last days by agent, model and day."""
    if not 1 <= args.days <= costs.MAX_DAYS:
        raise UsageError(f"--days must be between 1 and {costs.MAX_DAYS}")
    with Reader.open(Layout(find_root(here(), os.environ))) as store:
        found = costs.document(store, args.days, datetime.now(UTC))
    return output.tell(args.json, found, _print, found)


def _print(found: dict[str, object]) -> None:
    for name in ("agent", "model", "day"):
        rows = found[f"by_{name}"]
        assert isinstance(rows, list)
        output.print_table([name, *_HEADS], [_line(name, row) for row in rows])
        output.line()


def _line(name: str, row: dict[str, object]) -> list[object]:
    return [row[name] or "not told", *(value for key, value in row.items() if key != name)]
