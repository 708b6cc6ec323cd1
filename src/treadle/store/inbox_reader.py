"""Read messages, their chains, and when cron last fired."""

from treadle.store.reading import Reading
from treadle.store.rows.message import MessageRow, to_message
from treadle.store.rows.run import RunRow


class InboxReader(Reading):
    """What a reader of the store can say about messages."""

    def message(self, message_id: str) -> MessageRow | None:
        """Return one message."""
        row = self._one("message", message_id=message_id)
        return to_message(row) if row else None

    def messages(self, status: str) -> list[MessageRow]:
        """Return the messages with this status, oldest first."""
        return [to_message(row) for row in self._all("messages_with_status", status=status)]

    def spec_message(self, spec: str) -> MessageRow | None:
        """Return the newest message that was made for a spec."""
        row = self._one("message_of_spec", spec=spec)
        return to_message(row) if row else None

    def chain_messages(self, chain: str) -> list[MessageRow]:
        """Return a chain's messages in order."""
        return [to_message(row) for row in self._all("messages_of_chain", chain=chain)]

    def chains(self, limit: int) -> list[tuple[str, str]]:
        """Return the newest chains, each with how it ended."""
        found = [row[0] for row in self._all("chains", limit=limit)]
        return [(chain, self.chain_status(chain) or "open") for chain in found]

    def has_chain(self, chain: str) -> bool:
        """Tell whether a chain was ever begun."""
        return self._one("chain", chain=chain) is not None

    def chain_status(self, chain: str) -> str | None:
        """Return how a chain ended: `done`, `partial`, `failed`, or `open` if it did not."""
        row = self._one("chain", chain=chain)
        if row is None or row[1] != "open":
            return row[1] if row else None
        return "open" if any(it.status != "done" for it in self.chain_messages(chain)) else "done"

    def chain_runs(self, chain: str) -> list[RunRow]:
        """Return the runs of a chain's messages, newest first."""
        return [RunRow._make(row) for row in self._all("runs_of_chain", chain=chain)]

    def message_runs(self, message_id: str, after: str) -> list[RunRow]:
        """Return the runs of a message that are younger than the run `after`, oldest first."""
        rows = self._all("runs_of_message", message_id=message_id, after=after)
        return [RunRow._make(row) for row in rows]

    def last_fire(self, name: str) -> str | None:
        """Return when a scheduled message was sent last."""
        row = self._one("last_fire", job=name)
        return row[0] if row else None
