"""Runs: what works, what worked, and how each of them stands."""

from typing import cast

from treadle.contract.role import RunStatus
from treadle.engine import documents
from treadle.web.site import Asked, Document, Site

STATUSES = ("running", "passed", "failed", "stopped")
_SIZE = 50


def document(site: Site, asked: Asked) -> Document:
    """Return a page of runs as `treadle runs list --json` does."""
    status = asked.fields.get("status")
    with site.store() as store:
        rows = store.runs(
            min(asked.number("limit", _SIZE), 500),
            asked.fields.get("before") or None,
            cast(RunStatus, status) if status in STATUSES else None,
        )
        return documents.runs(store, rows)
