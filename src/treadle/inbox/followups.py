"""Take in what a message's run sent: files in its outbox, and new files of its chain."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from treadle.engine import letters
from treadle.engine.run import Tools
from treadle.engine.stage import OUTBOX
from treadle.errors import FormatError
from treadle.files import walk
from treadle.frontmatter import rewrite
from treadle.inbox import box, normalize
from treadle.inbox.message import FIELDS, place_in_name
from treadle.inbox.register import new_row
from treadle.store.rows.message import MessageRow
from treadle.store.rows.run import RunRow


class FollowUp(NamedTuple):
    """A file of the inbox that a message's run brought about."""

    path: Path
    parent: MessageRow | None


def deliver(tools: Tools, parent: MessageRow, run: RunRow) -> Iterator[FollowUp]:
    """Put what the run's steps left in their outboxes into the inbox; twice is as good as once."""
    sent = list(_sent(tools, run))
    if not sent:
        return
    known = [row for row in tools.store.chain_messages(parent.chain) if _is_child(row, parent)]
    for path in sent:
        try:
            data = box.read(path)
            found = normalize.understand(data, None, lambda: parent.chain)
        except FormatError:
            # What cannot be read goes its own way through the inbox and becomes a dead letter.
            target = tools.layout.inbox / box.safe_name(path.name)
            if not target.exists():
                box.put(target, _raw(path))
                yield FollowUp(target, parent)
            continue
        digest = hashlib.sha256(data).hexdigest()
        row = next((row for row in known if row.digest == digest), None)
        if row:
            known.remove(row)
        else:
            # Whatever chain it names: what follows from a message is limited with it.
            place = found.message.place._replace(chain=parent.chain)
            new = new_row(place, digest, parent, tools.now())
            row = tools.store.add_message(new)
        target = tools.layout.inbox / f"{row.message_id}.md"
        if row.status == "waiting":
            if not target.exists():
                fields = {"chain": row.chain, "seq": str(row.seq)}
                box.put(target, rewrite.set_fields(data, fields, FIELDS))
            yield FollowUp(target, parent)


def dropped(tools: Tools, parent: MessageRow, before: set[str]) -> Iterator[FollowUp]:
    """Return the files of the running chain that appeared in the inbox meanwhile, oldest first."""
    new = [tools.layout.inbox / name for name in box.names(tools.layout) if name not in before]
    for path in sorted(new, key=lambda path: (path.lstat().st_mtime_ns, path.name)):
        if _carries(tools, path, parent.chain):
            yield FollowUp(path, parent)


def _is_child(row: MessageRow, parent: MessageRow) -> bool:
    return row.parent == parent.message_id


def _sent(tools: Tools, run: RunRow) -> Iterator[Path]:
    for step in tools.store.steps(run.run_id):
        folder = f"{tools.layout.root}/{step.step_dir}/{OUTBOX}"
        paths = [Path(folder, name) for name in walk.names(folder) if box.is_candidate(name)]
        paths = [path for path in paths if not letters.is_letter(path)]
        yield from sorted(paths, key=lambda path: (path.lstat().st_mtime_ns, path.name))


def _raw(path: Path) -> bytes:
    return walk.read(path, max_bytes=walk.MAX_BYTES)


def _carries(tools: Tools, path: Path, chain: str) -> bool:
    named = place_in_name(path.name, tools.store.has_chain)
    try:
        found = normalize.understand(box.read(path), named, lambda: "")
    except (FormatError, OSError):
        return False
    return found.message.place.chain == chain
