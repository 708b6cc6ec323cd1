"""Read from a patch's own text what its result no longer shows."""

import os
import re
from itertools import islice

from treadle.git import rules

_MODES = ("100644", "100755", "120000", "160000")
_MODE = re.compile(rb"^(?:new file|deleted file|new|old) mode (\d+)\r?$", re.MULTILINE)
_SIZE = re.compile(rb"^(?:literal|delta) (\d{1,18})\r?$", re.MULTILINE)
_NAMES = re.compile(rb"^--- ([^\r\n]+)\r?\n\+\+\+ ([^\r\n]+)\r?\n@@ ", re.MULTILINE)
_GIT_NAME = re.compile(rb"^(?:diff --git|(?:rename|copy) (?:from|to)) ([^\r\n]+)", re.MULTILINE)
# Two names that differ in their first folder and in nothing else.
_SIDES = re.compile(
    rb"^--- ([^/\r\n]+)/([^\t\r\n]+)(?:\t.*)?\r?\n\+\+\+ (?!\1/)[^/\r\n]+/\2(?:\t.*)?\r?\n@@ "
    rb"|^diff --git ([^/\r\n]{1,255})/([^\r\n]{1,4000}) (?!\3/)[^/ \r\n]{1,255}/\4\r?$",
    re.MULTILINE,
)
_PREFIX = re.compile(rb"^(?:diff --git|---|\+\+\+) \"?[abciow]/", re.MULTILINE)
_NOTHING = b"/dev/null"
_LOOKED_AT = 10_000  # names of a patch that is refused anyway
_WORD = re.compile(rb'"(?:[^"\\]|\\.)*"|[^ \t]+')
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)")
_SIDE = re.compile(r"[abciow]/")


def oddity(patch: bytes) -> tuple[str, str] | None:
    """Return the rule a patch breaks in its headers, and a sentence.

    Git makes a plain file of an odd mode and a path inside of an absolute one.
    """
    if sum(int(size) for size in _SIZE.findall(patch)) > rules.MAX_UNPACKED:
        return "patch_unpacks", rules.explain("patch_unpacks", "the patch")
    for mode in _MODE.findall(patch):
        if mode.decode("ascii") not in _MODES:
            return "mode", rules.explain("mode", "the patch", mode=mode.decode("ascii"))
    names = [name for pair in _NAMES.findall(patch) for name in pair] + _GIT_NAME.findall(patch)
    for name in names:
        if name.lstrip(b'"').startswith(b"/") and not name.startswith(_NOTHING):
            return "path_absolute", rules.explain("path_absolute", os.fsdecode(name))
    return None


def broken_rule(patch: bytes) -> str | None:
    """Return the rule that a name in the headers breaks, for a patch that git would not take."""
    names = [name for pair in _NAMES.findall(patch) for name in pair] + _GIT_NAME.findall(patch)
    # A name without quotes is the rest of its line; with one, only its words are names.
    words = (
        _unquoted(word)
        for name in names
        for word in (b"" if b'"' in name else name, *_WORD.findall(name))
        if word
    )
    paths = (path for word in words for path in (word, _SIDE.sub("", word, count=1)))
    return next((rule for path in islice(paths, _LOOKED_AT) if (rule := _rule(path))), None)


def _rule(path: str) -> str | None:
    return rules.forbidden(path) if path != _NOTHING.decode("ascii") else None


def _unquoted(word: bytes) -> str:
    if not word.startswith(b'"'):
        return os.fsdecode(word)
    return os.fsdecode(_ESCAPE.sub(_unescaped, word.strip(b'"')))


def _unescaped(found: re.Match[bytes]) -> bytes:
    text = found[1]
    return bytes([int(text, 8) & 255]) if text[:1] in b"01234567" else text


def is_bare(patch: bytes) -> bool:
    """Tell whether the paths of a patch begin at the root, with nothing that names their side."""
    return not has_prefixes(patch) and _SIDES.search(patch) is None


def has_prefixes(patch: bytes) -> bool:
    """Tell whether the paths of a patch begin with one letter that stands for its side."""
    return _PREFIX.search(patch) is not None


def is_relative_to_root(patch: bytes, subdir: str) -> bool:
    """Tell whether any path in a patch names `subdir` itself, and so begins at the root."""
    prefix = re.escape(os.fsencode(subdir.strip("/")))
    header = rb"(?m)^(diff --git|---|\+\+\+|rename (from|to)) \"?([abciow]/)?" + prefix + rb"/"
    return re.search(header, patch) is not None
