r"""Make words from elsewhere show themselves and do nothing else, wherever they are read.

Agents, repositories, letters and programs write them. What would move a cursor, set a title or
the clipboard, turn the direction of a line, hide or carry hidden words is written out, such as
`\x1b`, `\u202e` or `\U000e0041`, so that whoever decides by a text sees all of it.
"""

import re
from collections.abc import Sequence

# Controls, but neither tab nor newline; what turns, hides, separates or fills without a trace;
# halves of characters, private ones, and those that no text has: tags, selectors, non-characters.
_HIDDEN = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0d"
    r"\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U00013430-\U0001345f\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0000-\U0010ffff"
)
# Joiners spell words of some scripts and join emoji, selectors choose how a sign is drawn; away
# from such signs they only hide.
_JOINERS, _DRAWN = r"\u200c\u200d", r"\ufe0e\ufe0f"
_SIGN = rf"[^\x00-\x7f{_HIDDEN}{_JOINERS}]"
_BARE = rf"[^\x00-\x7f{_HIDDEN}{_JOINERS}{_DRAWN}]"
_MARK = r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_WRITTEN_OUT = "|".join(
    (
        rf"[{_HIDDEN}]",
        rf"(?<!{_SIGN})[{_JOINERS}]",
        rf"[{_JOINERS}](?!{_BARE})",
        rf"(?<!{_BARE})(?<![0-9#*])[{_DRAWN}]",
        rf"(?<={_MARK * 6}){_MARK}",  # more than any script piles up
    )
)


# Signs of treadle's own sentences, which need no closer look; nor do the ends of lines.
_NAMED = 20
_PLAIN = dict.fromkeys(map(ord, "\n\t→…×·–—"))


def line(text: str) -> str:
    """Return a text as one line that is safe to show."""
    return block(text).replace("\n", " ").replace("\t", " ")


def block(text: str) -> str:
    """Return a text that is safe to show, in its own lines."""
    rest = text.translate(_PLAIN)
    if rest.isascii() and rest.isprintable():
        return text
    # Compiled when it is first needed: most commands show nothing that needs it.
    return re.sub(_WRITTEN_OUT, _written_out, text.replace("\r\n", "\n"))


def quoted(text: str, limit: int, where: str = "") -> str:
    """Return a text for a prompt: bounded, and every line marked as somebody else's words."""
    shown = block(text).strip()
    rest = ""
    if len(shown) > limit:
        shown = shown[:limit].rstrip()
        rest = f"\n[cut here{f'; the whole text is in {where}' if where else ''}]"
    return "\n".join(f"> {row}".rstrip() for row in shown.split("\n")) + rest


def _written_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0xA0:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def plural(count: int, noun: str) -> str:
    """Return a number with its noun, such as `1 file` and `2 files`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def name_some(names: Sequence[str]) -> str:
    """Name the first twenty and count the rest; odd signs are written out."""
    shown = [line(name) for name in names[:_NAMED]]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(shown) + more
