"""Make what agents and programs wrote safe to show: logs and markdown."""

import json
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from treadle.errors import NotFoundError
from treadle.files import beneath
from treadle.layout import EVENTS, LIVE, STDERR, STDOUT, Layout, RunLayout
from treadle.sandbox.mask import Mask
from treadle.store.runs import RunRow, StepRow
from treadle.text import block

# What is drawn or does not matter on a page: colours, moves of the cursor, addresses of links.
_CODE = re.compile(
    r"\x1b\[(?P<sgr>[0-9;:]*)m"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b\]8;[^\x07\x1b]*(?:\x07|\x1b\\)"
)
_STYLES = {1: "b", 2: "d", 3: "i", 4: "u", 9: "s"}
_ENDS = {22: ("b", "d"), 23: ("i",), 24: ("u",), 29: ("s",)}


def log_markup(text: str) -> Markup:
    """Return a text as markup; only classes of ours and escaped words come out."""
    parts: list[Markup] = []
    classes: dict[str, None] = {}
    at = 0
    text = _overwritten(text)
    for found in _CODE.finditer(text):
        _append_words(parts, text[at : found.start()], classes)
        at = found.end()
        if found["sgr"] is not None:
            classes = _after(classes, found["sgr"])
    _append_words(parts, text[at:], classes)
    return Markup("").join(parts)


def _append_words(parts: list[Markup], text: str, classes: dict[str, None]) -> None:
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


_BYTES = 64 << 10
_LINES = 300
_EVENTS = EVENTS
SAID = (STDERR, STDOUT)
_LOGS = (_EVENTS, *SAID)


class Tail(NamedTuple):
    """The end of one log."""

    name: str
    text: Markup
    is_cut: bool


def tails_of_run(layout: Layout, row: RunRow, steps: list[StepRow], mask: Mask) -> list[Tail]:
    """Return what the step that works now has said, or the last one."""
    run = layout.run(row.run_id)
    if row.status == "running":
        return tails_of_folder(run.folder, [f"{run.live.name}/{name}" for name in _LOGS], mask)
    return tails_of_step(run, layout, steps[-1], mask) if steps else []


def tails_of_step(run: RunLayout, layout: Layout, step: StepRow, mask: Mask) -> list[Tail]:
    """Return the ends of a step's logs."""
    folder = (layout.shared / step.step_dir).relative_to(run.folder).as_posix()
    return tails_of_folder(run.folder, [f"{folder}/logs/{name}" for name in _LOGS], mask)


def tails_of_folder(folder: Path, names: list[str], mask: Mask) -> list[Tail]:
    """Return the ends of the files that are there and say something."""
    found = []
    for name in names:
        try:
            text, is_cut = end_of_log(folder, name, mask)
        except NotFoundError:
            continue
        if name.endswith(_EVENTS):
            text = "\n".join(filter(None, map(_told, text.split("\n"))))
        if text.strip():
            found.append(Tail(name, log_markup(text), is_cut))
    return found


def _told(line: str) -> str:
    """Return what an agent does as people read it."""
    try:
        event = json.loads(line)
    except ValueError:
        return ""  # not whole yet
    return f"{event['ts'][11:19]} {event['kind']:<10} {event['message']}"


def end_of_log(folder: Path, name: str, mask: Mask) -> tuple[str, bool]:
    """Return the last lines of a file, and whether there are more.

    What is written right now is not masked yet: more is read than shown, because a key may
    begin before, and a line that grows waits until it is whole, because it may be half a secret.
    """
    with beneath.opened(folder, name) as handle:
        size = os.fstat(handle.fileno()).st_size
        handle.seek(max(size - 2 * _BYTES, 0))
        text = mask.text(handle.read(2 * _BYTES).decode(errors="replace"))
    if name.startswith(f"{LIVE}/"):
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
    lines = text[-_BYTES:].split("\n")
    if size > _BYTES:
        lines = lines[1:]
    return "\n".join(lines[-_LINES:]), size > _BYTES or len(lines) > _LINES


_MAX_MARKDOWN = 256 * 1024
_TAGS = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "blockquote", "pre", "code"),
    *("ul", "ol", "li", "strong", "em", "s", "a"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
# Whoever wrote the text must not point into this page, whose addresses mean actions and files.
_SCHEMES = ("http://", "https://", "mailto:")

_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
_PARSER.disable(["image", "html_block", "html_inline"])
_CLEANER = nh3.Cleaner(
    tags=_TAGS,
    attributes={"a": {"href"}, "ol": {"start"}},
    attribute_filter=lambda tag, name, value: _kept_attribute(name, value),
    url_schemes={"http", "https", "mailto"},
    link_rel="noopener noreferrer nofollow",
    set_tag_attribute_values={"a": {"target": "_blank"}},
)


@lru_cache(maxsize=64)
def markdown_markup(text: str) -> Markup:
    """Return markup for a text; one that is very long stays as it is written."""
    text = block(text)
    if len(text) > _MAX_MARKDOWN:
        return Markup("<pre>%s</pre>") % escape(text)
    fields, body = _split(text)
    head = Markup("<pre>%s</pre>") % escape(fields) if fields else Markup("")
    return head + Markup(_CLEANER.clean(_PARSER.render(body)))


def _split(text: str) -> tuple[str, str]:
    """Take the fields at the top of a file off, which markdown would take for a heading."""
    if not text.startswith("---\n"):
        return "", text
    fields, end, body = text[4:].partition("\n---\n")
    return (fields, body) if end else ("", text)


def _kept_attribute(name: str, value: str) -> str | None:
    return value if name != "href" or value.lower().startswith(_SCHEMES) else None
