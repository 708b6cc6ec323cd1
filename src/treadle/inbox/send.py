"""Write messages: into the inbox, or from inside a run into its outbox."""

import hashlib
import re
import secrets
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from treadle.errors import BlockedError, UsageError
from treadle.frontmatter import rewrite
from treadle.ids import utc
from treadle.inbox import box
from treadle.inbox.message import FIELDS, is_chain
from treadle.layout import Layout
from treadle.store.rows.message import waiting
from treadle.store.writer import Store

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class Draft(NamedTuple):
    """A message that has no place yet."""

    body: bytes
    routine: str | None = None
    chain: str | None = None
    fields: Mapping[str, str] = {}


class Sent(NamedTuple):
    """Where a message is now; one in an outbox gets its id when its run has ended."""

    file: str
    message_id: str | None


def parse_fields(words: list[str]) -> dict[str, str]:
    """Read `--field key=value` options."""
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not _KEY.fullmatch(key):
            raise UsageError(f"--field {word!r}: write it as --field key=value")
        if key in FIELDS:
            raise UsageError(f"--field {key}: a message has its own {key}")
        if key in found:
            raise UsageError(f"--field {key} is given twice")
        found[key] = value
    return found


def draft(text: str, routine: str | None, chain: str | None, fields: Mapping[str, str]) -> Draft:
    """Return a message to be sent; UsageError if it makes no sense."""
    if not text.strip():
        raise UsageError("a message must say something")
    if chain is not None and not is_chain(chain):
        raise UsageError(f"--chain {chain!r}: use letters, digits and . _ -, at most 128 of them")
    body = text if text.endswith("\n") else f"{text}\n"
    return Draft(body.encode(errors="surrogateescape"), routine, chain, fields)


def send(layout: Layout, store: Store, message: Draft, now: datetime) -> Sent:
    """Put a message into the inbox: whole, or not there."""
    row = store.add_message(
        waiting(message.chain or "", 0, utc(now))._replace(
            routine=message.routine, digest=hashlib.sha256(message.body).hexdigest()
        )
    )
    place = {"id": row.message_id, "chain": row.chain, "seq": str(row.seq)}
    path = layout.inbox / f"{row.message_id}.md"
    box.put(path, _text(message, place))
    return Sent(str(path), row.message_id)


def send_from_run(env: Mapping[str, str], message: Draft) -> Sent:
    """Leave a message in the outbox of the step that sends it."""
    outbox = env.get("TREADLE_OUTBOX")
    if not outbox:
        raise BlockedError(
            f"run {env.get('TREADLE_RUN')} carries no message out, so nothing can follow from it",
            code="no_outbox",
        )
    place = {"chain": message.chain} if message.chain else {}
    name = f"{time.time_ns()}-{secrets.token_hex(3)}.md"
    path = Path(outbox, name)
    box.put(path, _text(message, place))
    return Sent(str(path), None)


def _text(message: Draft, place: Mapping[str, str]) -> bytes:
    routine = {"routine": message.routine} if message.routine else {}
    fields = {**place, **routine, **message.fields}
    # A body that begins with a rule of its own must not be taken for fields.
    return rewrite.set_fields(b"", fields) + message.body if fields else message.body
