"""Which services or logins of tools do not work, since when, and when they are tried next."""

from typing import NamedTuple

from treadle.store.transaction import Reading, Writing, kept_in


@kept_in("outages")
class OutageRow(NamedTuple):
    """A tool that cannot work: why, as which run met it last, and when the next try is due."""

    service: str
    error: str
    message: str
    run_id: str
    since: str
    failures: int
    next_at: str


def outages(store: Reading) -> list[OutageRow]:
    """Return every tool that cannot work, the longest first."""
    return store.records(OutageRow, "outages")


def find(store: Reading, service: str) -> OutageRow | None:
    """Return why a tool cannot work; None as far as anybody knows that it can."""
    return store.first(OutageRow, "outage", service=service)


def note(store: Writing, row: OutageRow) -> None:
    """Write down that a tool cannot work, in place of what was known of it."""
    store.execute("note_outage", row)


def set_next_try(store: Writing, service: str, next_at: str) -> None:
    """Say when a tool that cannot work is tried next."""
    store.execute("set_next_try", {"service": service, "next_at": next_at})


def forget(store: Writing, service: str) -> None:
    """Take note that a tool works."""
    store.execute("forget_outage", {"service": service})
