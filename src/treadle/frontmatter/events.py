"""Read fields from the events of a YAML parser: every scalar is a string, nothing is clever."""

import re
from collections.abc import Iterator

import yaml
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.scanner import Scanner

from treadle.errors import FormatError
from treadle.frontmatter.block import MAX_DEPTH, Block, Entry, Fields, Value, fail

# YAML ends a line at these too, and then lines are not what an editor shows.
_STRANGE_BREAK = re.compile("\r(?!\n)|[\x85\u2028\u2029]")


class _Stream(Reader, Scanner, Parser):
    """The first three stages of YAML, and none of those that build objects."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)


def read(data: bytes, block: Block) -> Fields | None:
    """Return the fields, or None if the block holds something that is no mapping."""
    text = _decode(data, block)
    try:
        return _Builder(text, block.start).document()
    except ReaderError as error:
        raise _at(text, error.position, "this character is not allowed here") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "this is not YAML"
        raise _at(text, mark.index if mark else 0, problem) from None


def _decode(data: bytes, block: Block) -> str:
    raw = data[block.start : block.end]
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode()
        raise _at(before, len(before), "this is not UTF-8") from None
    if strange := _STRANGE_BREAK.search(text):
        raise _at(text, strange.start(), "only a plain end of line may end a line here")
    return text


class _Builder:
    """Build the outermost mapping from events, refusing what has no plain meaning."""

    def __init__(self, text: str, offset: int) -> None:
        self._text = text
        self._offset = offset
        self._events = self._stream(text)
        self._end = 0

    def document(self) -> Fields | None:
        event = next(self._events)
        if isinstance(event, yaml.StreamEndEvent):
            return Fields((), self._bytes(len(self._text)))
        self._require_implicit(event)
        root = next(self._events)
        if not isinstance(root, yaml.MappingStartEvent):
            self._drain(root)
            return None
        fields = Fields(
            tuple(self._entries(2)),
            self._bytes(_start(root)),
            self._column(_start(root)),
            bool(root.flow_style),
        )
        self._require_implicit(next(self._events))
        self._require_end(next(self._events))
        return fields

    def _stream(self, text: str) -> Iterator[yaml.Event]:
        stream = _Stream(text)
        while stream.check_event():
            event: yaml.Event = stream.get_event()  # type: ignore[no-untyped-call]  # no stub
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise self._at(event, "anchors and aliases are not allowed; write the value out")
            if getattr(event, "tag", None):
                raise self._at(event, "tags are not allowed; every value is text")
            if isinstance(event, yaml.CollectionEndEvent) and self._closes(event):
                self._end = self._bytes(_stop(event))
            if not isinstance(event, yaml.StreamStartEvent):
                yield event

    def _closes(self, event: yaml.Event) -> bool:
        """Tell whether a collection ends in a bracket, or else where its last value does."""
        return self._text[_start(event) : _stop(event)] in ("]", "}")

    def _drain(self, root: yaml.Event) -> None:
        """Read to the end, so that what is no YAML at all is refused, mapping or not."""
        if isinstance(root, yaml.CollectionStartEvent):
            self._value(root, 1)
        for _ in self._events:
            pass

    def _entries(self, depth: int) -> Iterator[Entry]:
        """Yield the entries of the mapping that has just begun."""
        seen: set[str] = set()
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise self._at(event, "a key must be one word or one line of text")
            if event.value in seen:
                raise self._at(event, f"the key {event.value!r} is given twice")
            seen.add(event.value)
            first = next(self._events)
            self._require_colon(event, first)
            value = self._value(first, depth)
            yield Entry(event.value, value, self._bytes(_start(first)), self._end)

    def _value(self, event: yaml.Event, depth: int) -> Value:
        if isinstance(event, yaml.ScalarEvent):
            self._end = self._bytes(_stop(event))
            return str(event.value)
        if depth > MAX_DEPTH:
            raise self._at(event, f"values are nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.MappingStartEvent):
            return {entry.key: entry.value for entry in self._entries(depth + 1)}
        return list(self._items(depth + 1))

    def _items(self, depth: int) -> Iterator[Value]:
        while not isinstance(item := next(self._events), yaml.SequenceEndEvent):
            yield self._value(item, depth)

    def _require_colon(self, key: yaml.ScalarEvent, value: yaml.Event) -> None:
        """Refuse a key without a colon: its empty value has no place of its own."""
        if not isinstance(value, yaml.ScalarEvent):
            return
        at = _start(value)
        if at == _stop(value) and self._text[at - 1 : at] != ":":
            raise self._at(key, f"the key {key.value!r} needs a colon behind it")

    def _require_implicit(self, event: yaml.Event) -> None:
        if getattr(event, "explicit", False):
            raise self._at(event, "document markers are not allowed between the fences")

    def _require_end(self, event: yaml.Event) -> None:
        if not isinstance(event, yaml.StreamEndEvent):
            raise self._at(event, "only one mapping may stand between the fences")

    def _bytes(self, index: int) -> int:
        return self._offset + len(self._text[:index].encode())

    def _column(self, index: int) -> int:
        return index - (self._text.rfind("\n", 0, index) + 1)

    def _at(self, event: yaml.Event, problem: str) -> FormatError:
        return _at(self._text, _start(event), problem)


def _start(event: yaml.Event) -> int:
    return event.start_mark.index if event.start_mark else 0


def _stop(event: yaml.Event) -> int:
    return event.end_mark.index if event.end_mark else 0


def _at(text: str, index: int, problem: str) -> FormatError:
    """Count lines in the file, whose first line is the opening fence."""
    before = text[:index]
    return fail(problem, before.count("\n") + 2, index - (before.rfind("\n") + 1) + 1)
