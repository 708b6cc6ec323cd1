"""Events: a run's timeline, line by line."""

from msgspec import Raw

from treadle.web.site import Asked, Document, Site

_SIZE = 100
_MAX = 1000


def document(site: Site, asked: Asked) -> Document:
    """Return a page of events as `treadle runs events --json` does."""
    size = min(asked.number("limit", _SIZE), _MAX)
    with site.store() as store:
        rows = store.event_rows(asked.run, asked.number("after", 0), size)
    return {"events": [_event(*row) for row in rows]}


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


def _event(seq: int, ts: str, type_: str, message: str, data: str | None) -> Document:
    """Return an event; what is JSON already is neither read nor written again."""
    kept = Raw(data.encode()) if data is not None else None
    return {"seq": seq, "ts": ts, "type": type_, "message": message, "data": kept}
