"""Fill in what a message leaves out, from its own words, its file's name and the ids given so far.

Everything here is a function of its arguments; `box` reads and writes the files.
"""

from collections.abc import Callable
from typing import NamedTuple

from treadle.contract.event import EventType
from treadle.frontmatter import parse, rewrite
from treadle.frontmatter.block import Value
from treadle.inbox.message import (
    FIELDS,
    Message,
    Place,
    read_chain,
    read_seq,
    read_text,
    read_type,
)


class Note(NamedTuple):
    """Something about a message that goes into its run's timeline."""

    type: EventType
    message: str


class Understood(NamedTuple):
    """A message as far as its own file says, and what was odd about it."""

    message: Message
    has_seq: bool
    notes: tuple[Note, ...]


def understand(data: bytes, named: Place | None, new_chain: Callable[[], str]) -> Understood:
    """Read a message; FormatError if its fields are broken or its chain is unsafe."""
    document = parse.read(data)
    fields = document.fields
    chain, seq = read_chain(fields.get("chain")), read_seq(fields.get("seq"))
    type_, routine = read_type(fields.get("type")), read_text(fields.get("routine"))
    input_file = read_text(fields.get("input_file"))
    known_seq = seq if seq is not None else (named.seq if named else None)
    message = Message(
        place=Place(chain or (named.chain if named else new_chain()), known_seq or 0),
        type=type_ or ("spec" if input_file else "task"),
        input_file=input_file,
        routine=routine,
        fields={key: value for key, value in fields.items() if key not in FIELDS},
        body=document.body,
    )
    means = (("seq", seq), ("type", type_), ("routine", routine), ("input_file", input_file))
    notes = [_invalid(name, fields[name]) for name, it in means if it is None and fields.get(name)]
    if named and (chain, seq) != named:
        notes += _mismatch(chain, seq, named)
    return Understood(message, known_seq is not None, tuple(notes))


def complete(data: bytes, message: Message, routine: str | None) -> bytes:
    """Write what is missing or wrong into the file's fields; a complete file stays as it is."""
    wanted = {
        "id": message.id,
        "chain": message.place.chain,
        "seq": str(message.place.seq),
        "type": message.type,
    } | ({"routine": routine} if routine else {})
    return rewrite.set_fields(data, wanted, FIELDS)


def _invalid(name: str, value: Value) -> Note:
    return Note(EventType.FIELD_INVALID, f"{name}: {str(value)[:80]!r} means nothing here")


def _mismatch(chain: str | None, seq: int | None, named: Place) -> list[Note]:
    if chain in (None, named.chain) and seq in (None, named.seq):
        return []
    told = f"the fields say {chain or named.chain}-{named.seq if seq is None else seq}"
    return [Note(EventType.ID_MISMATCH, f"the file is named {named.name}, {told}: they win")]
