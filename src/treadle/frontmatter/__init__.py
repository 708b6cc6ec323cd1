"""Read the fields that a file may have between two `---` lines at its top, and set single ones.

The usual ones are read without a YAML parser, which takes longer to load than all else that
`next` does.
"""

import functools
import re
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

MAX_BYTES = 64 << 10
_SIMPLE = r"[A-Za-z0-9_/.](?:[A-Za-z0-9_/.-]| (?=[A-Za-z0-9_/.-]))*"
_Edit = tuple[int, int, bytes]
BOM = b"\xef\xbb\xbf"

Value = str | list["Value"] | dict[str, "Value"]
# Where the fields begin between their fences, where the closing fence does, where the body does.
Block = tuple[int, int, int]


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


@functools.lru_cache(maxsize=2)  # whoever reads a file is about to complete it
def read(data: bytes, wanted: Container[str] | None = None) -> tuple[Mapping[str, Value], bytes]:
    """Return the fields in their order, and every byte that follows them.

    Without a closed block that is a mapping everything is body. Fields that are not `wanted` may
    be left out.
    """
    found = _locate(data, wanted)
    if found is None:
        return {}, data.removeprefix(BOM)
    block, fields = found
    return {entry.key: entry.value for entry in fields.entries}, data[block[2] :]


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
    is_long = block[1] - block[0] > MAX_BYTES
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
    return min(data.index(b"\n", entry.end, block[1]) + 1, block[1])


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
            return first, at, after
    return None


def _is_fence(line: bytes) -> bool:
    return line.removesuffix(b"\n").removesuffix(b"\r").rstrip(b" \t") == b"---"


# Whatever YAML could read in another way (comments behind a value, tabs, signs with a meaning,
# escapes, any other indentation) is left to the parser.
def read_plain(data: bytes, block: Block, wanted: Container[str] | None = None) -> Fields | None:
    """Return the fields, or None if it takes a YAML parser to know them.

    Of fields that are not `wanted` only the key is looked at.
    """
    try:
        text = data[block[0] : block[1]].decode()
    except UnicodeDecodeError:
        return None
    entries: dict[str, Field] = {}
    at, top = 0, len(text)
    while at < len(text):
        end = text.find("\n", at) + 1
        key, _, rest = text[at:end].partition(":")
        is_key = _is_key(key) and (rest[:1] == " " or rest in ("\n", "\r\n"))
        if not is_key and not _is_no_field(text[at:end]):
            return None
        if not is_key or (wanted is not None and key not in wanted):
            at = _behind_lines(text, end) if is_key else end
            continue
        found = _field(key, text, at + len(key) + 1)
        if found is None or key in entries:
            return None
        top = top if entries else at
        entries[key], at = found
    fields = Fields(tuple(entries.values()), top)
    return _in_bytes(fields, text, block[0])


def _behind_lines(text: str, at: int) -> int:
    """Return where the lines end that may belong to a key above them."""
    while text[at : at + 1] in (" ", "\t", "-", "\n"):
        at = text.find("\n", at) + 1
    return at


def _field(key: str, text: str, at: int) -> tuple[Field, int] | None:
    """Return the field of a key, and where its last line ends; None if YAML has to say."""
    end = text.find("\n", at)
    line = text[at:end].removesuffix("\r").rstrip(" ")
    words = line.lstrip(" ")
    start = at + len(line) - len(words)
    if not words:
        is_list = end == at and text[at + 1 : at + 2] in (" ", "-")
        return _block(key, text, at + 1) if is_list else (Field(key, "", at, at), end + 1)
    items = _flow(words) if words[0] == "[" else None
    if items is None and not _is_plain(words) and not _is_quoted(words):
        return None
    value: Value = _unquoted(words) if items is None else items
    return Field(key, value, start, at + len(line)), end + 1


def _flow(words: str) -> list[Value] | None:
    """Return a list in brackets, if each of its items is a plain or quoted word."""
    inside = words[1:-1].strip(" ")
    items = [item.strip(" ") for item in inside.split(",")] if inside else []
    is_plain = words.endswith("]") and all(_is_word(it) or _is_quoted(it) for it in items)
    return [_unquoted(item) for item in items] if is_plain else None


def _block(key: str, text: str, at: int) -> tuple[Field, int] | None:
    """Return a list with an item on each line, all indented alike."""
    start = at + len(text[at:]) - len(text[at:].lstrip(" "))
    sign, items = f"{text[at:start]}- ", list[Value]()
    while text.startswith(sign, at):
        end = text.find("\n", at)
        item = text[at + len(sign) : end]
        if not _is_plain(item) and not _is_quoted(item):
            return None
        items.append(_unquoted(item))
        at = end + 1
    is_over = not text[at:] or text[at] == "#" or _is_key(text[at])
    return (Field(key, items, start, at - 1), at) if items and is_over else None


def _is_key(text: str) -> bool:
    bare = text.replace("-", "").replace("_", "")
    return text.isascii() and text[:1].isalpha() and bare.isalnum() and len(text) <= 64


def _is_no_field(line: str) -> bool:
    words = line.removesuffix("\n").removesuffix("\r")
    return not words or (words[0] == "#" and _is_ascii(words))


def _is_plain(text: str) -> bool:
    """Tell whether YAML takes a text on one line for nothing but itself."""
    is_bare = text[:1].isalnum() or text[:1] in tuple("_./(~$")
    is_odd = text[-1:] in (" ", ":") or ": " in text or " :" in text or " #" in text
    is_known = _is_ascii(text) or all(it.isalnum() or " " <= it <= "~" for it in text)
    return is_bare and not is_odd and is_known


def _is_word(text: str) -> bool:
    """Tell the same of an item between brackets."""
    is_bare = text[:1].isalnum() or text[:1] in tuple("_./~$")
    heads = [word[:1] for word in text.split(" ")[1:]]
    is_even = all(it.isalnum() or it in ("_", ".", "/") for it in heads)
    return is_bare and is_even and all(it.isalnum() or it in "_./*~$@- " for it in text)


def _is_quoted(text: str) -> bool:
    mark, inside = text[:1], text[1:-1]
    is_closed = len(text) > 1 and text[-1] == mark and mark not in inside and _is_ascii(inside)
    return is_closed and (mark == "'" or (mark == '"' and "\\" not in inside))


def _is_ascii(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _unquoted(text: str) -> str:
    return text[1:-1] if text[:1] in ("'", '"') else text


def _in_bytes(fields: Fields, text: str, offset: int) -> Fields:
    """Count places in the file's bytes."""
    is_even = text.isascii()

    def place(at: int) -> int:
        return offset + (at if is_even else len(text[:at].encode()))

    moved = (Field(it.key, it.value, place(it.start), place(it.end)) for it in fields.entries)
    return Fields(tuple(moved), place(fields.top))
