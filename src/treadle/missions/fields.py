"""Read the usual fields of a task's file without a YAML parser; unusual ones go to the parser."""

import re

from treadle.frontmatter import parse
from treadle.frontmatter.block import Value, find

# Starts and signs that mean something else in YAML than what they look like.
_PLAIN = r"""[\w./(*~+$](?:[^#:'"\[\]{}]|:(?=\S)|(?<!\s)#)*$"""
_USUAL = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./ -")
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
            mark, _, words = line.strip().partition(" ")
            items.append(_scalar(words.strip()) if mark == "-" else None)
            continue
        if not _close(fields, key, items):
            return None
        key, colon, words = line.partition(":")
        if not colon or key in fields or words[:1].strip() or not _is_name(key):
            return None
        items = []
        value = _value(words.strip()) if key in KNOWN else ""
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


def _is_name(key: str) -> bool:
    return key.replace("-", "_").isidentifier() and key.isascii() and key[0] != "_"


def _value(text: str) -> Value | None:
    if not (text.startswith("[") and text.endswith("]")):
        return _scalar(text) if text else ""
    items = [_scalar(part.strip()) for part in text[1:-1].split(",") if part.strip()]
    return None if None in items else [item for item in items if item is not None]


def _scalar(text: str) -> str | None:
    inner = text[1:-1]
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return None if text[0] in inner or "\\" in inner else inner
    if (
        text.startswith(_MARKS)
        or not text
        or not (_USUAL.issuperset(text) or re.match(_PLAIN, text))
    ):
        return None
    return text
