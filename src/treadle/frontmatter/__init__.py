"""Read the fields that a file may have between two `---` lines at its top, and set single ones.

The usual ones are read without a YAML parser, which takes longer to load than all else that
`next` does.
"""

import functools
import re
from collections.abc import Callable, Container, Mapping, Sequence
from typing import NamedTuple

MAX_BYTES = 64 << 10
_SIMPLE = r"[A-Za-z0-9_/.](?:[A-Za-z0-9_/.-]| (?=[A-Za-z0-9_/.-]))*"
_Edit = tuple[int, int, bytes]
BOM = b"\xef\xbb\xbf"

Value = str | list["Value"] | dict[str, "Value"]


class Block(NamedTuple):
    """Where the fields stand between their fences; `end` is where the closing fence begins."""

    start: int
    end: int
    body: int


class Field(NamedTuple):
    """One field of the outermost mapping and where its value stands in the file."""

    key: str
    value: Value
    start: int
    end: int


class Fields(NamedTuple):
    """The outermost mapping; its first key stands at `top`, indented by `column`."""

    entries: tuple[Field, ...]
    top: int
    column: int = 0
    is_flow: bool = False


class Document(NamedTuple):
    """The fields in their order, and every byte that follows them."""

    fields: Mapping[str, Value]
    body: bytes


@functools.lru_cache(maxsize=2)  # whoever reads a file is about to complete it
def read(data: bytes, wanted: Container[str] | None = None) -> Document:
    """Split fields and body; without a closed block that is a mapping everything is body.

    Fields that are not `wanted` may be left out.
    """
    found = _locate(data, wanted)
    if found is None:
        return Document({}, data.removeprefix(BOM))
    block, fields = found
    return Document({entry.key: entry.value for entry in fields.entries}, data[block.body :])


def set_fields(data: bytes, changes: Mapping[str, str], order: Sequence[str] = ()) -> bytes:
    """Replace values in place and put new fields behind the one that precedes them in `order`.

    A file without fields gets a block of its own; one that has nothing to change stays as it is,
    and every other byte does.
    """
    found = _locate(data)
    known = {entry.key: entry for entry in found[1].entries} if found else {}
    missing = {
        key: value
        for key, value in changes.items()
        if key not in known or known[key].value != value
    }
    if not missing:
        return data
    if found is None:
        return _with_block(data.removeprefix(BOM), changes)
    edits = [
        _replace(data, known[key], value)
        if key in known
        else _insert(data, *found, key, value, order)
        for key, value in missing.items()
    ]
    return _apply(data, edits).removeprefix(BOM)


def quote(value: str) -> str:
    """Write a value so that YAML reads exactly it."""
    if re.fullmatch(_SIMPLE, value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[^ -~]", lambda sign: f"\\U{ord(sign[0]):08x}", escaped) + '"'


def _locate(data: bytes, wanted: Container[str] | None = None) -> tuple[Block, Fields] | None:
    """Return the block and its fields, or None for a file without any; FormatError if broken."""
    block = find(data)
    if block is None:
        return None
    is_long = block.end - block.start > MAX_BYTES
    fields = None if is_long else read_plain(data, block, wanted)
    if fields is None:
        # Few files need a YAML parser, and loading one takes longer than most commands.
        from treadle.frontmatter import nodes  # noqa: PLC0415  # YAML is dear to load

        if is_long:
            raise nodes.fail(f"the fields are longer than {MAX_BYTES >> 10} KiB", 1, 1)
        fields = nodes.read(data, block)
    return (block, fields) if fields else None


def _insert(
    data: bytes, block: Block, fields: Fields, key: str, value: str, order: Sequence[str]
) -> _Edit:
    line = f"{key}: {quote(value)}"
    if fields.is_flow:
        return fields.top + 1, fields.top + 1, f"{line}, ".encode()
    before = order[: order.index(key)] if key in order else ()
    present = {entry.key: entry for entry in fields.entries}
    known = [present[name] for name in before if name in present]
    place = _behind(data, known[-1], block) if known else None
    if place is None:
        place = fields.top - fields.column
    return place, place, b" " * fields.column + line.encode() + _eol(data)


def _replace(data: bytes, entry: Field, value: str) -> _Edit:
    old = data[entry.start : entry.end]
    new = quote(value).encode()
    # Behind a bare colon a space must come; a list may begin where a single value may not.
    if not old or not isinstance(entry.value, str):
        new = b"  "[: 1 if not old else 2] + new
    if old.endswith(b"\n"):
        new += _eol(data)
    return entry.start, entry.end, new


def _behind(data: bytes, entry: Field, block: Block) -> int | None:
    """Return the start of the line after a single value."""
    if not isinstance(entry.value, str):
        return None
    if data[entry.start : entry.end].endswith(b"\n"):
        return entry.end
    return min(data.index(b"\n", entry.end, block.end) + 1, block.end)


def _apply(data: bytes, edits: Sequence[_Edit]) -> bytes:
    """Make the edits; those for one place follow each other in the order given."""
    parts, position = [], 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        parts += [data[position:start], new]
        position = end
    return b"".join([*parts, data[position:]])


def _with_block(body: bytes, changes: Mapping[str, str]) -> bytes:
    eol = _eol(body)
    lines = [b"---", *(f"{key}: {quote(value)}".encode() for key, value in changes.items()), b"---"]
    return eol.join(lines) + eol + body


def _eol(data: bytes) -> bytes:
    """Return the end of line that the file's first line has."""
    end = data.find(b"\n")
    return b"\r\n" if end > 0 and data[end - 1] == 0x0D else b"\n"


def find(data: bytes) -> Block | None:
    """Return the block between the first line and the closing fence, if the file has both."""
    start = len(BOM) if data.startswith(BOM) else 0
    first = data.find(b"\n", start) + 1
    if not first or not _is_fence(data[start:first]):
        return None
    at = first - 1
    while at := data.find(b"\n---", at) + 1:
        after = data.find(b"\n", at) + 1 or len(data)
        if _is_fence(data[at:after]):
            return Block(first, at, after)
    return None


def _is_fence(line: bytes) -> bool:
    return line.removesuffix(b"\n").removesuffix(b"\r").rstrip(b" \t") == b"---"


# Whatever YAML could read in another way (comments behind a value, tabs, signs with a meaning,
# escapes, any other indentation) is left to the parser. Each is compiled when it is needed.
_KEY = r"(?P<key>[A-Za-z][A-Za-z0-9_-]{0,63}):"
_PLAIN = r"[\w./(~$](?:[!-9;-~\w]|:(?=[!-~\w])| +(?=[!\"$-9;-~\w]))*"
_QUOTED = r"""'[ -&(-~]*'|"[ !#-\[\]-~]*\""""
_WORD = rf"[\w./~$](?:[\w./*~$@-]| (?=[\w./]))*|{_QUOTED}"
_ITEM = rf"- (?:{_PLAIN}|{_QUOTED})"
_NOTHING = r" *\r?\n"
_NO_FIELD = r"#[ -~]*\r?\n|\r?\n"
_OTHER = rf"{_KEY}(?: [^\n]*)?\n(?:[ \t-][^\n]*\n|\n)*"


def read_plain(data: bytes, block: Block, wanted: Container[str] | None = None) -> Fields | None:
    """Return the fields, or None if it takes a YAML parser to know them.

    Of fields that are not `wanted` only the key is looked at.
    """
    try:
        text = data[block.start : block.end].decode()
    except UnicodeDecodeError:
        return None
    entries: dict[str, Field] = {}
    at, top = 0, len(text)
    while at < len(text):
        key = _match(_KEY if wanted is None else _OTHER, text, at)
        passed = _match(_NO_FIELD, text, at) if key is None else None
        if key and wanted is not None and key["key"] not in wanted:
            passed = key
        if passed:
            at = passed.end()
            continue
        found = _field(key["key"], text, key.end("key") + 1) if key else None
        if found is None or found[0].key in entries:
            return None
        top = top if entries else at
        entries[found[0].key], at = found
    fields = Fields(tuple(entries.values()), top)
    return _in_bytes(fields, text, block.start)


def _field(key: str, text: str, at: int) -> tuple[Field, int] | None:
    """Return the field of a key, and where its last line ends; None if YAML has to say."""
    sign = text[at : text.find("\n", at)].strip()[:1]
    if sign == "[":
        return _flow(key, text, at)
    pattern, read = _VALUES.get(sign, _VALUES["."])
    if found := _match(pattern, text, at):
        return Field(key, read(found["value"]), *found.span("value")), found.end()
    nothing = _match(_NOTHING, text, at)
    return (Field(key, "", at, at), nothing.end()) if nothing else None


def _flow(key: str, text: str, at: int) -> tuple[Field, int] | None:
    """Return a list in brackets on one line, if each of its items is a plain or quoted word."""
    end = text.find("\n", at)
    line = text[at:end].removesuffix("\r").rstrip(" ")
    before, _, inside = line.removesuffix("]").partition("[")
    items = [item.strip(" ") for item in inside.split(",")] if inside.strip(" ") else []
    is_plain = line.endswith("]") and before and not before.strip(" ")
    if not is_plain or not all(re.fullmatch(_WORD, item) for item in items):
        return None
    value: Value = [_unquoted(item) for item in items]
    return Field(key, value, at + len(before), at + len(line)), end + 1


def _match(pattern: str, text: str, at: int) -> re.Match[str] | None:
    return re.compile(pattern).match(text, at)


def _unquoted(text: str) -> str:
    return text[1:-1] if text[:1] in ("'", '"') else text


def _block(text: str) -> Value:
    return [_unquoted(line.partition("- ")[2]) for line in text.split("\n")]


def _lines(text: str) -> Value:
    return text[2:].replace("\n  ", "\n").removeprefix("  ")


# What may stand behind a key, by its first sign there, and how it is read.
_VALUES: dict[str, tuple[str, Callable[[str], Value]]] = {
    ".": (rf" +(?P<value>{_PLAIN}) *\r?\n", str),
    "'": (rf" +(?P<value>{_QUOTED}) *\r?\n", _unquoted),
    "|": (r" +(?P<value>\|\n(?:  [!-~][ -~]*\n)+)(?=[A-Za-z]|\Z)", _lines),
    "": (rf"\n(?P<deep> *)(?P<value>{_ITEM}(?:\n(?P=deep){_ITEM})*)\n(?=[A-Za-z#]|\Z)", _block),
}
_VALUES['"'] = _VALUES["'"]


def _in_bytes(fields: Fields, text: str, offset: int) -> Fields:
    """Count places in the file's bytes."""

    def place(at: int) -> int:
        return offset + (at if text.isascii() else len(text[:at].encode()))

    moved = (entry._replace(start=place(entry.start), end=place(entry.end)) for entry in fields[0])
    return Fields(tuple(moved), place(fields.top))
