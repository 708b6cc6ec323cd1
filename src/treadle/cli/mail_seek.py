"""`treadle mail watch`, `search` and `reindex`."""

import os
from argparse import Namespace
from datetime import UTC, datetime

from treadle.cli import acting, letters, opened, output
from treadle.cli.place import Place
from treadle.errors import ExitCode
from treadle.mail import search as words
from treadle.mail import sync, take_in
from treadle.mail import watch as waits
from treadle.store import letters as index
from treadle.store.store import Reader, Store


def watch(found: Place, args: Namespace, now: datetime) -> int:
    """Wait until a letter arrives."""
    agent = acting.registered(found, args)
    rows = waits.watch(found.layout, agent, args.timeout, lambda: datetime.now(UTC))
    letters.show_rows(found, args, rows, "no letter came")
    return ExitCode.DONE if rows else ExitCode.FAILED


def search(found: Place, args: Namespace, now: datetime) -> int:
    """Find letters by their words."""
    with _opened(found, now) as store:
        rows = words.search(store, found.layout.mail, args.words, args.limit)
    return letters.show_rows(found, args, rows, "no letter has these words")


def reindex(found: Place, args: Namespace, now: datetime) -> int:
    """Read every letter again."""
    with Store.open(found.layout) as store:
        said = sync.rebuild(store, found.layout.mail, now)
        index.forget_words(store)
        count = sum(1 for _ in take_in.letters(found.layout.mail))
    output.warn(*said)
    document = {"letters": count, "set_aside": said}
    return output.say(args.json, document, f"{count} letters read")


def _opened(found: Place, now: datetime) -> Reader:
    """Open the store to search in; inside a run nothing is written, and files are read instead."""
    if os.environ.get("TREADLE_RUN"):
        return opened.fresh(found, now)
    store, said = sync.fresh(found.layout, now)
    output.warn(*said)
    return store
