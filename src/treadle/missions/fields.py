"""Read the usual fields of a task's file without a YAML parser; unusual ones go to the parser."""

import re

from treadle.frontmatter import parse
from treadle.frontmatter.block import Value, find

_KEY = re.compile(r"([A-Za-z][\w-]*):(?:\s+(.*))?$")
_ITEM = re.compile(r"\s*- +(.*)$")
# Starts and signs that mean something else in YAML than what they look like.
_PLAIN = re.compile(r"""[\w./(*~+$](?:[^#:'"\[\]{}]|:(?=\S)|(?<!\s)#)*$""")
_QUOTED = re.compile(r"""(?:"([^"\\]*)"|'([^']*)')$""")
KNOWN = frozenset({"work_package_id", "title", "dependencies", "owned_files", "lane"})
_MARKS = ("*", "&", "!", "|", ">", "%", "@", "`", "?", "-")


def read(data: bytes) -> tuple[dict[str, Value], bytes]:
    """Return the fields at the top of a file, and what follows them."""
    block = find(data)
    if block is not None:
        try:
            found = _read(data[block.start : block.end].decode("utf-8").splitlines())
        except UnicodeDecodeError:
            found = None
        if found is not None:
            return found, data[block.body :]
    document = parse.read(data)
    return dict(document.fields), document.body


def _read(lines: list[str]) -> dict[str, Value] | None:
    """Return the fields that matter here, or None if it takes a parser to know them."""
    fields: dict[str, Value] = {}
    key, items = "", list[str | None]()
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        if line[0] in " \t-":
            found = _ITEM.match(line)
            items.append(_scalar(found[1].strip()) if found else None)
            continue
        if not _close(fields, key, items):
            return None
        head = _KEY.match(line)
        if head is None or head[1] in fields:
            return None
        key, items = head[1], []
        value = _value((head[2] or "").strip()) if key in KNOWN else ""
        if value is None:
            return None
        fields[key] = value
    if not _close(fields, key, items):
        return None
    return {key: value for key, value in fields.items() if key in KNOWN}


def _close(fields: dict[str, Value], key: str, items: list[str | None]) -> bool:
    """Give a field the list that stood below it; False if that is no plain list."""
    if not items or (key and key not in KNOWN):
        return True
    if None in items or fields.get(key) != "":
        return False
    fields[key] = [item for item in items if item is not None]
    return True


def _value(text: str) -> Value | None:
    if not (text.startswith("[") and text.endswith("]")):
        return _scalar(text) if text else ""
    items = [_scalar(part.strip()) for part in text[1:-1].split(",") if part.strip()]
    return None if None in items else [item for item in items if item is not None]


def _scalar(text: str) -> str | None:
    if quoted := _QUOTED.match(text):
        return quoted[1] if quoted[1] is not None else quoted[2]
    if text.startswith(_MARKS) or not _PLAIN.match(text):
        return None
    return text
