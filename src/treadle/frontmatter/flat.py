"""Read the plainest fields, `key: value` on each line, without a YAML parser."""

import re

from treadle.frontmatter.block import Block, Entry, Fields

# No pattern is compiled before it is needed: many commands only load this.
# Whatever YAML could read in another way (colons, comments behind a value, tabs, signs with a
# meaning, escapes, any other indentation) is left to the parser.
_LINE = (
    rb"([A-Za-z][A-Za-z0-9_-]{0,63}):"
    rb"(?: +(?:([A-Za-z0-9_/.](?:[A-Za-z0-9_/. -]*[A-Za-z0-9_/.-])?)"
    rb"|('[ -&(-~]*'|\"[ !#-\[\]-~]*\")"
    rb"|(\|\n(?:  [!-~][ -~]*\n)+(?=[A-Za-z]|\Z))))?"
    rb"(?: *\r?\n|(?<=\n))|#[ -~]*\r?\n|\r?\n"
)
_KEY, _QUOTED, _LINES = 1, 3, 4
# Nothing but such lines, as treadle writes them itself.
_PAIR = rb"([A-Za-z][A-Za-z0-9_-]{0,63}): ([A-Za-z0-9_/.][A-Za-z0-9_/.-]*)\n"
_PAIRS = rb"(?:[A-Za-z][A-Za-z0-9_-]{0,63}: [A-Za-z0-9_/.][A-Za-z0-9_/.-]*\n)+"


def values(data: bytes, block: Block) -> dict[str, str] | None:
    """Return keys and values where every line is one pair of words, else None."""
    if not re.compile(_PAIRS).fullmatch(data, block.start, block.end):
        return None
    pairs = re.compile(_PAIR).findall(data, block.start, block.end)
    found = {key.decode(): value.decode() for key, value in pairs}
    return found if len(found) == len(pairs) else None


def read(data: bytes, block: Block) -> Fields | None:
    """Return the fields, or None if it takes a YAML parser to know them."""
    entries: dict[str, Entry] = {}
    position, top = block.start, block.end
    for line in re.compile(_LINE).finditer(data, position, block.end):
        if line.start() != position:
            return None
        if line.lastindex:
            entry = _entry(line, line.lastindex)
            if entry.key in entries:
                return None
            if not entries:
                top = position
            entries[entry.key] = entry
        position = line.end()
    return Fields(tuple(entries.values()), top) if position == block.end else None


def _entry(line: re.Match[bytes], kind: int) -> Entry:
    key = line[_KEY].decode()
    if kind == _KEY:
        after = line.end(_KEY) + 1
        return Entry(key, "", after, after)
    value = line[kind].decode()
    if kind == _QUOTED:
        value = value[1:-1]
    elif kind == _LINES:
        value = value[2:].replace("\n  ", "\n").removeprefix("  ")
    return Entry(key, value, *line.span(kind))
