"""Read the plainest fields, `key: value` on each line, without a YAML parser."""

import re

from treadle.frontmatter.block import Block, Entry, Fields

# Whatever YAML could read in another way (quotes, colons, comments behind a value, tabs,
# signs with a meaning, any indentation) is left to the parser.
_LINE = re.compile(
    rb"(?P<key>[A-Za-z][A-Za-z0-9_-]{0,63}):"
    rb"(?: +(?P<value>[A-Za-z0-9_/.](?:[A-Za-z0-9_/. -]*[A-Za-z0-9_/.-])?))?"
    rb" *\r?\n|#[ -~]*\r?\n|\r?\n"
)


def read(data: bytes, block: Block) -> Fields | None:
    """Return the fields, or None if it takes a YAML parser to know them."""
    entries: dict[str, Entry] = {}
    position, top = block.start, block.end
    while position < block.end:
        line = _LINE.match(data, position, block.end)
        if line is None:
            return None
        if line["key"] is not None:
            entry = _entry(line)
            if entry.key in entries:
                return None
            top = min(top, position)
            entries[entry.key] = entry
        position = line.end()
    return Fields(tuple(entries.values()), top)


def _entry(line: re.Match[bytes]) -> Entry:
    if line["value"] is None:
        after = line.end("key") + 1
        return Entry(line["key"].decode(), "", after, after)
    return Entry(line["key"].decode(), line["value"].decode(), *line.span("value"))
