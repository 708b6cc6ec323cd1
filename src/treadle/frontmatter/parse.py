"""Read a markdown file that may begin with fields between two `---` lines."""

import functools
from collections.abc import Mapping
from typing import NamedTuple

from treadle.frontmatter import flat
from treadle.frontmatter.block import BOM, MAX_BYTES, Block, Fields, Value, fail, find


class Document(NamedTuple):
    """The fields in their order, and every byte that follows them."""

    fields: Mapping[str, Value]
    body: bytes


@functools.lru_cache(maxsize=2)  # whoever reads a file is about to complete it
def read(data: bytes) -> Document:
    """Split fields and body; without a closed block that is a mapping everything is body."""
    block = find(data)
    if block and block.end - block.start <= MAX_BYTES:
        values = flat.values(data, block)
        if values is not None:
            return Document(values, data[block.body :])
    found = locate(data)
    if found is None:
        return Document({}, data.removeprefix(BOM))
    block, fields = found
    return Document({entry.key: entry.value for entry in fields.entries}, data[block.body :])


def locate(data: bytes) -> tuple[Block, Fields] | None:
    """Return the block and its fields, or None for a file without any; FormatError if broken."""
    block = find(data)
    if block is None:
        return None
    if block.end - block.start > MAX_BYTES:
        raise fail(f"the fields are longer than {MAX_BYTES >> 10} KiB", 1, 1)
    fields = flat.read(data, block) or _by_events(data, block)
    return (block, fields) if fields else None


def _by_events(data: bytes, block: Block) -> Fields | None:
    # Few files need a YAML parser, and loading one takes longer than most commands.
    from treadle.frontmatter import events  # noqa: PLC0415  # YAML is dear to load

    return events.read(data, block)
