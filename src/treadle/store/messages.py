"""Messages, their chains, and when cron last fired."""

import json
from datetime import datetime, timedelta
from typing import NamedTuple

from treadle.ids import utc
from treadle.store.runs import RunRow
from treadle.store.transaction import Reading, Writing, change, kept_in

_STAMP = "%Y%m%d%H%M%S"
_CHAINS_A_SECOND = 100


@kept_in("messages", run_ids=lambda text: tuple(json.loads(text)))
class MessageRow(NamedTuple):
    """One message: its place in its chain, how far it got, and the runs that tried it.

    After a retry `after_run` is the last run that counts no more.
    """

    message_id: str
    chain: str
    seq: int
    status: str
    routine: str | None
    spec: str | None
    spec_digest: str | None
    digest: str | None
    parent: str | None
    depth: int
    run_ids: tuple[str, ...]
    reason: str | None
    created_at: str
    updated_at: str
    after_run: str | None = None


def waiting(chain: str, seq: int, now: str) -> MessageRow:
    """Return a message that nobody took yet; without a chain the store begins one for it."""
    nothing = (None, None, None, None, None)
    return MessageRow(f"{chain}-{seq}", chain, seq, "waiting", *nothing, 0, (), None, now, now)


class MessageReader(Reading):
    """Answer questions about messages and chains."""

    def message(self, message_id: str) -> MessageRow | None:
        """Return one message."""
        return self.first(MessageRow, "message", message_id=message_id)

    def messages(self, status: str) -> list[MessageRow]:
        """Return the messages with this status, oldest first."""
        return self.records(MessageRow, "messages_with_status", status=status)

    def spec_message(self, spec: str) -> MessageRow | None:
        """Return the newest message that was made for a spec."""
        return self.first(MessageRow, "message_of_spec", spec=spec)

    def chain_messages(self, chain: str) -> list[MessageRow]:
        """Return a chain's messages in order."""
        return self.records(MessageRow, "messages_of_chain", chain=chain)

    def chains(self, limit: int) -> list[tuple[str, str]]:
        """Return the newest chains, each with how it ended."""
        found = [row[0] for row in self.all("chains", limit=limit)]
        return [(chain, self.chain_status(chain) or "open") for chain in found]

    def has_chain(self, chain: str) -> bool:
        """Tell whether a chain was ever begun."""
        return self.one("chain", chain=chain) is not None

    def chain_status(self, chain: str) -> str | None:
        """Return how a chain ended: `done`, `partial`, `failed`, or `open` if it did not."""
        row = self.one("chain", chain=chain)
        if row is None or row[1] != "open":
            return row[1] if row else None
        return "open" if any(it.status != "done" for it in self.chain_messages(chain)) else "done"

    def chain_runs(self, chain: str) -> list[RunRow]:
        """Return the runs of a chain's messages, newest first."""
        return self.records(RunRow, "runs_of_chain", chain=chain)

    def message_runs(self, message_id: str, after: str) -> list[RunRow]:
        """Return the runs of a message that are younger than the run `after`, oldest first."""
        return self.records(RunRow, "runs_of_message", message_id=message_id, after=after)

    def last_fire(self, name: str) -> str | None:
        """Return when a scheduled message was sent last."""
        row = self.one("last_fire", job=name)
        return row[0] if row else None


class MessageStore(MessageReader, Writing):
    """Change messages and chains."""

    @change
    def reserve_chain(self, now: datetime) -> str:
        """Return a chain id that nobody else will get.

        It counts upwards within a second, and on into the next one when a hundred are taken.
        """
        row = self.one("counter", counter="chain")
        found = max(int(now.strftime(_STAMP)) * _CHAINS_A_SECOND, _after(row[0]) if row else 0)
        while self.has_chain(str(found)):
            found = _after(found)
        self.execute("set_counter", {"name": "chain", "value": found})
        self.execute("insert_chain", {"chain": str(found), "at": utc(now)})
        return str(found)

    def add_message(self, row: MessageRow) -> MessageRow:
        """Add a message; without a chain it begins a new one, a taken id gets the next number."""
        # Its file, written next, says the same.
        return self.write(lambda tx: _add_message(tx, row), lasting=False)

    def save_message(self, row: MessageRow) -> None:
        """Write down where a message stands."""
        self.execute("upsert_message", row)

    def close_chain(self, chain: str, status: str) -> None:
        """Write down how a chain ended."""
        self.execute("close_chain", {"chain": chain, "status": status})

    @change
    def restore_message(self, row: MessageRow) -> None:
        """Bring a message back that only its run's folder remembers; the run joins its others."""
        self.execute("insert_chain", {"chain": row.chain, "at": row.created_at})
        known = self.message(row.message_id) or row
        ids = tuple(sorted({*known.run_ids, *row.run_ids}))
        # Runs are restored in their order, and a message ends with its last one.
        self.save_message(row._replace(run_ids=ids, created_at=known.created_at))

    def fired(self, name: str, at: datetime) -> None:
        """Remember when a scheduled message was sent."""
        self.execute("set_fire", {"name": name, "last_fire": utc(at)})


def _add_message(tx: MessageStore, row: MessageRow) -> MessageRow:
    if row.chain:
        tx.execute("insert_chain", {"chain": row.chain, "at": row.created_at})
    else:
        chain = tx.reserve_chain(datetime.fromisoformat(row.created_at))
        row = row._replace(chain=chain, message_id=f"{chain}-{row.seq}")
    if tx.message(row.message_id):
        last = tx.all("last_message_seq", chain=row.chain)[0][0]
        row = row._replace(seq=last + 1, message_id=f"{row.chain}-{last + 1}")
    tx.save_message(row)
    return row


def _after(last: int) -> int:
    if (last + 1) % _CHAINS_A_SECOND:
        return last + 1
    moment = datetime.strptime(str(last // _CHAINS_A_SECOND), _STAMP) + timedelta(seconds=1)
    return int(moment.strftime(_STAMP)) * _CHAINS_A_SECOND
