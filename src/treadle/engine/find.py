"""Find a run by its id or by the beginning of it."""

from treadle.errors import NotFoundError
from treadle.ids import is_run_id, nearest
from treadle.store.reader import Reader
from treadle.store.records import RunRow


def find(store: Reader, text: str) -> RunRow:
    """Return the run with this id, or with the only id that begins like this."""
    if is_run_id(text) and (row := store.run(text)):
        return row
    found = store.find_runs(text, 2) if text else []
    if len(found) == 1:
        return found[0]
    if found:
        raise NotFoundError(f"more than one run begins with {text}", fix=["treadle runs list"])
    close = nearest(text, [row.run_id for row in store.runs(50)])
    hint = f"; did you mean {close}?" if close else ""
    raise NotFoundError(f"no run is called {text!r}{hint}", fix=["treadle runs list"])
