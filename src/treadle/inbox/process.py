"""Go through the inbox and the specs once, each chain to its end before the next."""

import os
from pathlib import Path

from treadle.config.schema import Config
from treadle.engine import autoland, tracker
from treadle.engine.run import Tools
from treadle.errors import TreadleError
from treadle.files import walk
from treadle.frontmatter import rewrite
from treadle.ids import utc
from treadle.inbox import box, carry, hooks, specs
from treadle.inbox.carry import Pass, Submit
from treadle.inbox.followups import FollowUp
from treadle.inbox.message import FIELDS
from treadle.inbox.outcome import Outcome, Summary
from treadle.inbox.register import OPEN
from treadle.store.rows.message import MessageRow, waiting

_STOPS = ("dead", "stopped", "refused", "held")


def process(
    tools: Tools, config: Config, *, fail_fast: bool = False, submit: Submit | None = None
) -> Summary:
    """Carry out every waiting message, then every unprocessed spec; `submit` queues their runs."""
    work = Pass(tools=tools, config=config, below=None, submit=submit)
    hooks.run(tools, config, "beforeAll", {})
    outcomes = _Round(work, fail_fast).go()
    if outcomes:
        box.settle(tools.layout)
    try:
        hooks.run(tools, config, "afterAll", {})
    except TreadleError as error:
        work.failed_hook = error.message
    return Summary(tuple(outcomes), tools.interrupted(), work.failed_hook)


class _Round:
    """What one pass has seen and what came of it."""

    def __init__(self, work: Pass, fail_fast: bool) -> None:
        self._work = work
        self._tools = work.tools
        self._fail_fast = fail_fast
        self._specs = specs.Unprocessed(work.tools.layout)
        self._seen: set[str] = set()
        self._outcomes: list[Outcome] = []

    def go(self) -> list[Outcome]:
        """Do all there is to do now, and what that brings about."""
        self._stack_on_refused()
        self._warn()
        while not self._is_over() and (self._messages() or self._next_spec()):
            pass
        return self._outcomes

    def _is_over(self) -> bool:
        if self._tools.interrupted():
            return True
        return self._fail_fast and any(item.status in _STOPS for item in self._outcomes)

    def _messages(self) -> bool:
        """Carry out what lies in the inbox now, by name; tell whether there was anything new."""
        new = [name for name in box.names(self._tools.layout) if name not in self._seen]
        for name in new:
            path = self._tools.layout.inbox / name
            self._seen.add(name)
            if self._is_over():
                return False
            if os.path.lexists(path) and not walk.is_folder(path):
                self._drain(path)
        return bool(new)

    def _next_spec(self) -> bool:
        """Make a message of the next spec and carry it out; tell whether there was one."""
        for name in self._specs.names():
            if name in self._seen:
                continue
            self._seen.add(name)
            if message := self._message_for(name):
                self._drain(message)
            return True
        return False

    def _drain(self, path: Path) -> None:
        """Carry out one message and all that follows from it, depth first."""
        stack = [FollowUp(path, None)]
        rows: list[MessageRow] = []
        while stack and not self._is_over():
            item = stack.pop()
            self._seen.add(item.path.name)
            if not os.path.lexists(item.path):
                continue
            carried = carry.carry_out(self._work, item.path, item.parent)
            self._outcomes.append(carried.outcome)
            if carried.row:
                rows.append(carried.row)
                self._seen |= {f"{carried.row.message_id}.md", carried.row.spec or ""}
            stack.extend(reversed(carried.followups))
        self._close(rows)

    def _close(self, rows: list[MessageRow]) -> None:
        """Write down how the chain ended: a dead follow-up makes it partial."""
        if not rows or any(row.status in OPEN for row in rows):
            return
        if any(row.status == "dead" for row in rows):
            status = "failed" if rows[0].status == "dead" else "partial"
            self._tools.store.close_chain(rows[0].chain, status)

    def _message_for(self, name: str) -> Path | None:
        """Return the file of a spec's message, made or found; None if there is nothing to do."""
        layout, store = self._tools.layout, self._tools.store
        row = store.spec_message(name)
        digest, routine = specs.glance(layout, name)
        if row and row.status == "done":
            specs.mark_processed(layout, name)
            return None
        if row and row.status == "dead" and row.spec_digest == digest:
            reason = f"it is a dead letter; treadle dead retry {row.message_id}"
            item = Outcome(name, "dead", reason, row.message_id, row.routine, row.run_ids)
            self._outcomes.append(item)
            return None
        if row is None or row.status == "dead":
            row = self._new_row(name, digest)
        path = layout.inbox / f"{row.message_id}.md"
        if path.name in self._seen:
            return None
        if not path.exists():
            box.put(path, _message_text(row, routine), lasting=False)
        return path

    def _new_row(self, name: str, digest: str | None) -> MessageRow:
        row = waiting("", 0, utc(self._tools.now()))._replace(spec=name, spec_digest=digest)
        return self._tools.store.add_message(row)

    def _stack_on_refused(self) -> None:
        """Build on what passed in an earlier pass and could not land."""
        for row in self._tools.store.messages("refused"):
            last = self._tools.store.run(row.run_ids[-1]) if row.run_ids else None
            if last and autoland.waits(self._tools, last):
                self._work.below = last

    def _warn(self) -> None:
        layout = self._tools.layout
        names = specs.names(layout)
        if pair := specs.out_of_order(names):
            self._work.tell(f"{pair[0]} comes before {pair[1]}: names count, not numbers")
        for name in specs.unlistable(layout):
            self._work.tell(f"{box.show(name)} is not taken: its name is no line of text")
        done = tracker.names(tracker.read(layout))
        for name in names:
            row = self._tools.store.spec_message(name) if name in done else None
            if row and row.status == "done" and row.spec_digest != specs.glance(layout, name)[0]:
                self._work.tell(f"{name} was edited after it was processed; it is not run again")


def _message_text(row: MessageRow, routine: str | None) -> bytes:
    fields = {
        "id": row.message_id,
        "chain": row.chain,
        "seq": str(row.seq),
        "type": "spec",
        "input_file": specs.path_of(row.spec or ""),
    }
    if routine:
        fields["routine"] = routine
    return rewrite.set_fields(b"", fields, FIELDS)
