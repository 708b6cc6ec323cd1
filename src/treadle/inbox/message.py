"""What a message says: its place in a chain, its type, its routine, its own fields, its text."""

import re
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from treadle import frontmatter
from treadle.contract.events import EventType, NewEvent
from treadle.errors import FormatError
from treadle.frontmatter import Value

FIELDS = ("id", "chain", "seq", "type", "input_file", "routine")
MessageType = Literal["spec", "task"]

_CHAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SEQ = re.compile(r"[0-9]{1,9}")
_NAME = re.compile(r"(?P<chain>[A-Za-z0-9][A-Za-z0-9._-]{0,127})-(?P<seq>[0-9]{1,9})\.md")
_GIVEN = re.compile(r"[0-9]{14,16}")


class ChainPlace(NamedTuple):
    """A chain and a number in it."""

    chain: str
    seq: int

    @property
    def id(self) -> str:
        """Return the message's id."""
        return f"{self.chain}-{self.seq}"

    @property
    def name(self) -> str:
        """Return the name of the message's file."""
        return f"{self.id}.md"


class Message(NamedTuple):
    """A message with everything that is needed to carry it out but its routine."""

    place: ChainPlace
    type: MessageType
    input_file: str | None
    routine: str | None
    fields: Mapping[str, Value]
    body: bytes

    @property
    def id(self) -> str:
        """Return the message's id."""
        return self.place.id

    @property
    def text(self) -> str:
        """Return the body as text."""
        return self.body.decode(errors="replace")


def place_in_name(name: str, is_known: Callable[[str], bool]) -> ChainPlace | None:
    """Read chain and seq from `<chain>-<seq>.md`, if the chain is a date or a known one."""
    found = _NAME.fullmatch(name)
    if not found or not is_chain(found["chain"]):
        return None
    if not _GIVEN.fullmatch(found["chain"]) and not is_known(found["chain"]):
        return None
    return ChainPlace(found["chain"], int(found["seq"]))


def is_chain(text: str) -> bool:
    """Tell whether a chain may become part of a file's name."""
    return _CHAIN.fullmatch(text) is not None and ".." not in text


def read_chain(value: Value | None) -> str | None:
    """Return an explicit chain; FormatError if it must not reach the file system."""
    if value is None or value == "":
        return None
    if not isinstance(value, str) or not is_chain(value):
        raise FormatError(
            f"chain: {str(value)[:80]!r} is not a safe id; use letters, digits and . _ -,"
            " at most 128 of them",
            code="unsafe_id",
        )
    return value


def read_seq(value: Value | None) -> int | None:
    """Return a number in a chain, or None if this is none."""
    return int(value) if isinstance(value, str) and _SEQ.fullmatch(value) else None


def read_type(value: Value | None) -> MessageType | None:
    """Return the type, or None if this is none."""
    if value == "spec":
        return "spec"
    return "task" if value == "task" else None


def read_text(value: Value | None) -> str | None:
    """Return a field that must be one line of text, or None."""
    return value.strip() or None if isinstance(value, str) else None


class Understood(NamedTuple):
    """A message as far as its own file says, and what was odd about it."""

    message: Message
    has_seq: bool
    notes: tuple[NewEvent, ...]


def understand(data: bytes, named: ChainPlace | None, new_chain: Callable[[], str]) -> Understood:
    """Read a message; FormatError if its fields are broken or its chain is unsafe."""
    fields, body = frontmatter.read(data)
    chain, seq = read_chain(fields.get("chain")), read_seq(fields.get("seq"))
    type_, routine = read_type(fields.get("type")), read_text(fields.get("routine"))
    input_file = read_text(fields.get("input_file"))
    known_seq = seq if seq is not None else (named.seq if named else None)
    message = Message(
        place=ChainPlace(chain or (named.chain if named else new_chain()), known_seq or 0),
        type=type_ or ("spec" if input_file else "task"),
        input_file=input_file,
        routine=routine,
        fields={key: value for key, value in fields.items() if key not in FIELDS},
        body=body,
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
    return frontmatter.set_fields(data, wanted, FIELDS)


def _invalid(name: str, value: Value) -> NewEvent:
    return NewEvent(EventType.FIELD_INVALID, f"{name}: {str(value)[:80]!r} means nothing here")


def _mismatch(chain: str | None, seq: int | None, named: ChainPlace) -> list[NewEvent]:
    if chain in (None, named.chain) and seq in (None, named.seq):
        return []
    told = f"the fields say {chain or named.chain}-{named.seq if seq is None else seq}"
    return [NewEvent(EventType.ID_MISMATCH, f"the file is named {named.name}, {told}: they win")]
