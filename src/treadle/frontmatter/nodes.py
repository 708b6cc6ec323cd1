"""Read fields with a YAML parser: every scalar is a string, nothing is clever."""

import re
from collections.abc import Iterator

import yaml
from yaml.reader import ReaderError

from treadle.errors import FormatError
from treadle.frontmatter import Block, Field, Fields, Value

MAX_DEPTH = 4
# YAML ends a line at these too, and then lines are not what an editor shows.
_STRANGE_BREAK = re.compile("\r(?!\n)|[\x85\u2028\u2029]")


def read(data: bytes, block: Block) -> Fields | None:
    """Return the fields, or None if the block holds something that is no mapping."""
    text = _decode(data, block)
    try:
        _refuse(text)
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except ReaderError as error:
        raise _at(text, error.position, "this character is not allowed here") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "this is not YAML"
        raise _at(text, mark.index if mark else 0, problem) from None
    if root is not None and not isinstance(root, yaml.MappingNode):
        return None

    def place(index: int) -> int:
        return block[0] + len(text[:index].encode())

    if root is None:
        return Fields((), place(len(text)))
    entries = (
        Field(key, _value(text, node), place(_start(node)), place(_end(node)))
        for key, node in _pairs(text, root)
    )
    top = _start(root)
    column = top - (text.rfind("\n", 0, top) + 1)
    return Fields(tuple(entries), place(top), column, bool(root.flow_style))


def fail(problem: str, line: int, column: int) -> FormatError:
    """Return the error for a place in the file, counted from one."""
    return FormatError(
        f"line {line}, column {column}: {problem}",
        code="frontmatter_invalid",
        details={"line": line, "column": column},
    )


def _decode(data: bytes, block: Block) -> str:
    raw = data[block[0] : block[1]]
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode()
        raise _at(before, len(before), "this is not UTF-8") from None
    if strange := _STRANGE_BREAK.search(text):
        raise _at(text, strange.start(), "only a plain end of line may end a line here")
    return text


def _refuse(text: str) -> None:
    """Refuse what has no plain meaning, before anything is built of it."""
    depth = documents = 0
    for event in yaml.parse(text, Loader=yaml.BaseLoader):
        problem = ""
        documents += isinstance(event, yaml.DocumentStartEvent)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            problem = "anchors and aliases are not allowed; write the value out"
        elif getattr(event, "tag", None):
            problem = "tags are not allowed; every value is text"
        elif depth > MAX_DEPTH:
            problem = f"values are nested deeper than {MAX_DEPTH} levels"
        elif documents > 1:
            problem = "only one mapping may stand between the fences"
        elif not isinstance(event, yaml.StreamStartEvent) and getattr(event, "explicit", False):
            problem = "document markers are not allowed between the fences"
        if problem:
            raise _at(text, event.start_mark.index if event.start_mark else 0, problem)


def _pairs(text: str, node: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node]]:
    seen: set[str] = set()
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _at(text, _start(key), "a key must be one word or one line of text")
        if key.value in seen:
            raise _at(text, _start(key), f"the key {key.value!r} is given twice")
        # An empty value without a colon before it has no place of its own.
        at = _start(value)
        if at == _end(value) and text[at - 1 : at] != ":":
            raise _at(text, _start(key), f"the key {key.value!r} needs a colon behind it")
        seen.add(key.value)
        yield key.value, value


def _value(text: str, node: yaml.Node) -> Value:
    if isinstance(node, yaml.MappingNode):
        return {key: _value(text, value) for key, value in _pairs(text, node)}
    if isinstance(node, yaml.SequenceNode):
        return [_value(text, item) for item in node.value]
    return str(node.value)


def _start(node: yaml.Node) -> int:
    return node.start_mark.index


def _end(node: yaml.Node) -> int:
    """Return where a value's own text ends; a block ends with its last value."""
    if not isinstance(node, yaml.CollectionNode) or node.flow_style:
        return node.end_mark.index
    last = node.value[-1]
    return _end(last[1] if isinstance(node, yaml.MappingNode) else last)


def _at(text: str, index: int, problem: str) -> FormatError:
    """Count lines in the file, whose first line is the opening fence."""
    before = text[:index]
    return fail(problem, before.count("\n") + 2, index - (before.rfind("\n") + 1) + 1)
