"""Events: a run's timeline, line by line."""

from treadle.engine import documents
from treadle.web.site import Asked, Document, Site

_SIZE = 100
_MAX = 1000


def document(site: Site, asked: Asked) -> Document:
    """Return a page of events as `treadle runs events --json` does."""
    size = min(asked.number("limit", _SIZE), _MAX)
    with site.store() as store:
        return documents.events(store, asked.run, asked.number("after", 0), size)


def view(site: Site, asked: Asked, found: Document) -> Document:
    """Add where the pages before and after begin."""
    after = asked.number("after", 0)
    with site.store() as store:
        last = store.last_seq(asked.run)
    return {
        "run_id": asked.run,
        "last": last,
        "before": max(after - _SIZE, 0) if after else None,
        "next": after + _SIZE if after + _SIZE < last else None,
    }
