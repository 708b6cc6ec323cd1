"""Show what a terminal would have shown: colours as classes, everything else as text."""

import re

from markupsafe import Markup, escape

from treadle.text import block

# What is drawn or does not matter on a page: colours, moves of the cursor, addresses of links.
_CODE = re.compile(
    r"\x1b\[(?P<sgr>[0-9;:]*)m"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b\]8;[^\x07\x1b]*(?:\x07|\x1b\\)"
)
_STYLES = {1: "b", 2: "d", 3: "i", 4: "u", 9: "s"}
_ENDS = {22: ("b", "d"), 23: ("i",), 24: ("u",), 29: ("s",)}


def render(text: str) -> Markup:
    """Return a text as markup; only classes of ours and escaped words come out."""
    parts: list[Markup] = []
    classes: dict[str, None] = {}
    at = 0
    text = _overwritten(text)
    for found in _CODE.finditer(text):
        _append(parts, text[at : found.start()], classes)
        at = found.end()
        if found["sgr"] is not None:
            classes = _after(classes, found["sgr"])
    _append(parts, text[at:], classes)
    return Markup("").join(parts)


def _append(parts: list[Markup], text: str, classes: dict[str, None]) -> None:
    if not text:
        return
    words = escape(block(text))
    if classes:
        words = Markup('<span class="{}">{}</span>').format(" ".join(classes), words)
    parts.append(words)


def _overwritten(text: str) -> str:
    """A progress bar writes its line again and again: the last time counts."""
    text = text.replace("\r\n", "\n")
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def _after(classes: dict[str, None], codes: str) -> dict[str, None]:
    """Return the classes after one sequence of colours and styles."""
    kept = dict(classes)
    numbers = [int(code[:4] or 0) for code in re.split("[;:]", codes)]  # none has more digits
    while numbers:
        code = numbers.pop(0)
        if code == 0:
            kept.clear()
        elif code in _STYLES:
            kept[_STYLES[code]] = None
        elif code in _ENDS:
            kept = {name: None for name in kept if name not in _ENDS[code]}
        else:
            _colour(kept, code, numbers)
    return kept


def _colour(kept: dict[str, None], code: int, rest: list[int]) -> None:
    if code // 10 not in (3, 4, 9, 10):
        return
    kind = "g" if code // 10 in (4, 10) else "f"
    for name in [name for name in kept if name[0] == kind]:
        del kept[name]
    plain = code % 10 if code % 10 < 8 else None
    shade = _palette(rest) if code % 10 == 8 else plain
    if shade is not None:
        kept[f"{kind}{shade}"] = None


def _palette(rest: list[int]) -> int | None:
    """Return the nearest of the eight colours to one of 256 or of all."""
    way = rest.pop(0) if rest else 0
    if way == 5 and rest:
        number = rest.pop(0)
        if number < 16:
            return number % 8
        if number > 231:
            return 7 if number > 243 else 0
        number -= 16
        return _nearest(number // 36 * 51, number // 6 % 6 * 51, number % 6 * 51)
    if way == 2 and len(rest) >= 3:
        return _nearest(rest.pop(0), rest.pop(0), rest.pop(0))
    return None


def _nearest(red: int, green: int, blue: int) -> int:
    return (red > 127) + 2 * (green > 127) + 4 * (blue > 127)
