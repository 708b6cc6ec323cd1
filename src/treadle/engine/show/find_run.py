"""Find a run by its id or by the beginning of it, and a chain of messages."""

from collections.abc import Iterator

from treadle.errors import NotFoundError
from treadle.ids import is_run_id, nearest
from treadle.store.runs import RunRow
from treadle.store.store import Reader

_PAGE = 500


def every_run(store: Reader) -> Iterator[RunRow]:
    """Yield all runs, the newest first."""
    page = store.runs(_PAGE)
    while page:
        yield from page
        page = store.runs(_PAGE, page[-1].run_id)


def find_run(store: Reader, text: str) -> RunRow:
    """Return the run with this id, or with the only id that begins like this."""
    if is_run_id(text) and (row := store.run(text)):
        return row
    found = store.find_runs(text, 2) if text else []
    if len(found) == 1:
        return found[0]
    if found:
        raise NotFoundError(f"more than one run begins with {text}", fix=["treadle runs list"])
    raise _unknown("run", text, [row.run_id for row in store.runs(50)])


def require_chain(store: Reader, text: str) -> None:
    """Stop if there is no such chain of messages."""
    if not store.has_chain(text):
        raise _unknown("chain", text, [chain for chain, _ in store.chains(50)])


def _unknown(what: str, text: str, known: list[str]) -> NotFoundError:
    close = nearest(text, known)
    hint = f"; did you mean {close}?" if close else ""
    return NotFoundError(f"no {what} is called {text!r}{hint}", fix=["treadle runs list"])
