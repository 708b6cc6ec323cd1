"""Read from a patch's own text what its result no longer shows."""

import os
import re

from treadle.git import rules

_MODES = ("100644", "100755", "120000", "160000")
_MODE = re.compile(rb"^(?:new file|deleted file|new|old) mode (\d+)\r?$", re.MULTILINE)
_NAMES = re.compile(rb"^--- ([^\r\n]+)\r?\n\+\+\+ ([^\r\n]+)\r?\n@@ ", re.MULTILINE)
_GIT_NAME = re.compile(rb"^(?:diff --git|(?:rename|copy) (?:from|to)) ([^\r\n]+)", re.MULTILINE)
_PREFIX = re.compile(rb"^(?:diff --git|---|\+\+\+) \"?[abciow]/", re.MULTILINE)
_NOTHING = b"/dev/null"


def oddity(patch: bytes) -> tuple[str, str] | None:
    """Return the rule a patch breaks in its headers, and a sentence.

    Git makes a plain file of an odd mode and a path inside of an absolute one.
    """
    for mode in _MODE.findall(patch):
        if mode.decode("ascii") not in _MODES:
            return "mode", rules.explain("mode", "the patch", mode=mode.decode("ascii"))
    names = [name for pair in _NAMES.findall(patch) for name in pair] + _GIT_NAME.findall(patch)
    for name in names:
        if name.lstrip(b'"').startswith(b"/") and not name.startswith(_NOTHING):
            return "path_absolute", rules.explain("path_absolute", os.fsdecode(name))
    return None


def has_prefixes(patch: bytes) -> bool:
    """Tell whether the paths of a patch begin with one letter that stands for its side."""
    return _PREFIX.search(patch) is not None


def is_relative_to_root(patch: bytes, subdir: str) -> bool:
    """Tell whether any path in a patch names `subdir` itself, and so begins at the root."""
    prefix = re.escape(os.fsencode(subdir.strip("/")))
    header = rb"(?m)^(diff --git|---|\+\+\+|rename (from|to)) \"?([abciow]/)?" + prefix + rb"/"
    return re.search(header, patch) is not None
