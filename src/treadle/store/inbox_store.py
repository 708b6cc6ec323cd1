"""Keep what the inbox must not forget: ids that were given, messages, when cron last fired."""

from datetime import datetime, timedelta

from treadle.ids import utc
from treadle.store import codec
from treadle.store.backend import Connection
from treadle.store.inbox_reader import InboxReader
from treadle.store.queries import SQL
from treadle.store.rows.message import MessageRow, to_message
from treadle.store.writing import Writing

_STAMP = "%Y%m%d%H%M%S"
_CHAINS_A_SECOND = 100


class InboxStore(Writing, InboxReader):
    """What the store can be told about messages."""

    def reserve_chain(self, now: datetime) -> str:
        """Return a chain id that nobody else will get."""
        return self._write(lambda tx: _reserve_chain(tx, now))

    def add_message(self, row: MessageRow) -> MessageRow:
        """Add a message; without a chain it begins a new one, a taken id gets the next number."""
        # Its file, written next, says the same.
        return self._write(lambda tx: _add_message(tx, row), lasting=False)

    def save_message(self, row: MessageRow) -> None:
        """Write down where a message stands."""
        self._write(lambda tx: tx.execute(SQL["upsert_message"], codec.values(row)) and None)

    def close_chain(self, chain: str, status: str) -> None:
        """Write down how a chain ended."""
        values = {"chain": chain, "status": status}
        self._write(lambda tx: tx.execute(SQL["close_chain"], values) and None)

    def restore_message(self, row: MessageRow) -> None:
        """Bring a message back that only its run's folder remembers."""
        self._write(lambda tx: _restore_message(tx, row))

    def fired(self, name: str, at: datetime) -> None:
        """Remember when a scheduled message was sent."""
        values = {"name": name, "last_fire": utc(at)}
        self._write(lambda tx: tx.execute(SQL["set_fire"], values) and None)


def _reserve_chain(tx: Connection, now: datetime) -> str:
    """Count upwards within a second, and on into the next one when a hundred are taken."""
    row = tx.execute(SQL["counter"], {"name": "chain"}).fetchone()
    found = max(int(now.strftime(_STAMP)) * _CHAINS_A_SECOND, _after(row[0]) if row else 0)
    while tx.execute(SQL["chain"], {"chain": str(found)}).fetchone():
        found = _after(found)
    tx.execute(SQL["set_counter"], {"name": "chain", "value": found})
    _begin_chain(tx, str(found), utc(now))
    return str(found)


def _after(last: int) -> int:
    if (last + 1) % _CHAINS_A_SECOND:
        return last + 1
    moment = datetime.strptime(str(last // _CHAINS_A_SECOND), _STAMP) + timedelta(seconds=1)
    return int(moment.strftime(_STAMP)) * _CHAINS_A_SECOND


def _begin_chain(tx: Connection, chain: str, at: str) -> None:
    tx.execute(SQL["insert_chain"], {"chain": chain, "at": at})


def _add_message(tx: Connection, row: MessageRow) -> MessageRow:
    if row.chain:
        _begin_chain(tx, row.chain, row.created_at)
    else:
        chain = _reserve_chain(tx, datetime.fromisoformat(row.created_at))
        row = row._replace(chain=chain, message_id=f"{chain}-{row.seq}")
    if tx.execute(SQL["message"], {"message_id": row.message_id}).fetchone():
        last = tx.execute(SQL["last_message_seq"], {"chain": row.chain}).fetchone()[0]
        row = row._replace(seq=last + 1, message_id=f"{row.chain}-{last + 1}")
    tx.execute(SQL["upsert_message"], codec.values(row))
    return row


def _restore_message(tx: Connection, row: MessageRow) -> None:
    """Add the run to what is known; a message that only this run remembers begins with it."""
    _begin_chain(tx, row.chain, row.created_at)
    found = tx.execute(SQL["message"], {"message_id": row.message_id}).fetchone()
    known = to_message(found) if found else row
    ids = tuple(sorted({*known.run_ids, *row.run_ids}))
    # Runs are restored in their order, and a message ends with its last one.
    merged = row._replace(run_ids=ids, created_at=known.created_at)
    tx.execute(SQL["upsert_message"], codec.values(merged))
