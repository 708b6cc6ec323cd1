"""Decide which names a change may bring, and which files can run code or steer agents."""

import re
import tomllib
import unicodedata
from collections.abc import Collection
from importlib import resources

from treadle.layout import CONFIG_NAMES, HOME_NAME

_TABLES = tomllib.loads((resources.files("treadle.git") / "rules.toml").read_text())
_FILES, _FOLDERS, _HOOKS, _GENERATED = (
    frozenset(_TABLES[name]) for name in ("files", "folders", "hooks", "generated")
)
# What lies in these is carried out, by treadle or by whoever follows a mission.
_WORK = ("specs", "missions", "kitty-specs")
MAX_DEPTH = 64
MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 4000
MAX_UNPACKED = 256 << 20
# What HFS+ ignores when it compares names.
_IGNORED = dict.fromkeys(
    [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]
)
_GIT = re.compile(r"\.git|git~[0-9]+")
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)( *[.:].*)?")
_OWN = re.compile(rf"{re.escape(HOME_NAME)}|treadl~[0-9]+")
_JOINERS = "\u200c\u200d"
_WINDOWS = {":": "name_stream", "\\": "name_backslash", "./": "name_dot"}
_OWN_FILES = (*CONFIG_NAMES, ".gitignore")
_OWN_FOLDERS = ("routines", "roles", "cron")
_MESSAGES: dict[str, str] = _TABLES["messages"]
RULES = tuple(_MESSAGES)
# Under these, files that git reads are found on systems that give every name a short one.
_SHORT = re.compile(
    r"(?:gitmod|gi(?:7(?:e(?:ba?)?)?)?|gitatt|gi(?:7(?:d(?:29?)?)?)?|gitign|gi(?:2(?:5(?:0a?)?)?)?"
    r"|mailma|ma(?:b(?:a(?:30?)?)?)?)~[0-9]+"
)
_NONE = "000000"  # the mode of a file that is not there


def explain(rule: str, path: str, **values: str) -> str:
    """Return the sentence that goes with a refusal."""
    shown = path.encode("unicode_escape").decode("ascii") if not path.isprintable() else path
    limits = {"depth": MAX_DEPTH, "unpacked": MAX_UNPACKED >> 20}
    return f"{shown}: {_MESSAGES[rule].format(**limits, **values)}"


def forbidden(path: str) -> str | None:
    """Return the rule that no change to this path may break, even to a file that exists."""
    if path.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", path):
        return "path_absolute"
    parts = path.replace("\\", "/").split("/")
    if ".." in parts:
        return "path_parent"
    if "" in parts or "." in parts:
        return "path_dot"
    if any(_is_git(part) for part in parts):
        return "git_folder"
    return "own_folder" if _is_own_state(parts) else None


def unwelcome(path: str) -> str | None:
    """Return the rule that a new name breaks; files that exist keep their names."""
    parts = path.split("/")
    if len(parts) > MAX_DEPTH:
        return "path_depth"
    if len(_bytes(path)) > MAX_PATH_BYTES:
        return "name_long"
    return next((rule for part in parts if (rule := _unwelcome_name(part))), None)


def is_own_config(path: str) -> bool:
    """Tell whether a file configures treadle and is committed with the project."""
    parts = path.split("/")
    return parts[0] == HOME_NAME and len(parts) > 1 and not _is_own_state(parts)


def folded(name: str) -> str:
    """Return what a system that ignores case and composition takes a name for."""
    decomposed = unicodedata.normalize("NFD", name.translate(_IGNORED))
    return unicodedata.normalize("NFC", decomposed.casefold())


def bare(part: str) -> str:
    """Return the name a file or folder ends up with on a system that drops what follows it."""
    return folded(part).split(":")[0].rstrip(". ")


def risk(path: str, old_mode: str, new_mode: str, protected: Collection[str]) -> str | None:
    """Return why a change is risky, or None."""
    if path in protected and old_mode != _NONE:
        return "protected"
    if is_own_config(path):
        return "treadle_config"
    parts = [bare(part) for part in path.split("/")]
    if parts[0] in _WORK and "/" in path:
        return "work"
    if parts[-1] in _FILES or _SHORT.fullmatch(parts[-1]) or _FOLDERS.intersection(parts[:-1]):
        return "config"
    if parts[-1] in _HOOKS and any(part.endswith("hooks") for part in parts[:-1]):
        return "hook"
    was, is_ = (mode == "100755" for mode in (old_mode, new_mode))
    return "exec_bit" if was != is_ and new_mode != _NONE else None


def is_generated(path: str) -> bool:
    """Tell whether a tool writes this file: such lock files do not count as patch size."""
    return path.rpartition("/")[2].lower() in _GENERATED


def _is_git(part: str) -> bool:
    return _GIT.fullmatch(bare(part)) is not None


def _is_own_state(parts: list[str]) -> bool:
    if not _OWN.fullmatch(bare(parts[0])):
        return False
    if parts[0] != HOME_NAME or len(parts) == 1:
        return True
    in_folder = len(parts) > 2 and parts[1] in _OWN_FOLDERS
    return not in_folder and parts[1:] not in [[name] for name in _OWN_FILES]


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _unwelcome_name(part: str) -> str | None:
    if any(0xDC80 <= ord(char) <= 0xDCFF for char in part):
        return "name_encoding"
    if len(_bytes(part)) > MAX_NAME_BYTES:
        return "name_long"
    hidden = _hidden(part)
    if hidden:
        return hidden
    if part.startswith("-"):
        return "name_dash"
    if part != part.strip():
        return "name_space"
    if _DEVICE.fullmatch(part.casefold()):
        return "name_device"
    return next((rule for sign, rule in _WINDOWS.items() if sign in f"{part}/"), None)


def _hidden(part: str) -> str | None:
    if part.isascii() and part.isprintable():
        return None
    for before, char in zip(" " + part, part, strict=False):
        category = unicodedata.category(char)
        if category in ("Cc", "Zl", "Zp"):
            return "name_control"
        # Joiners belong to the spelling of some scripts and emoji, but hide next to ASCII.
        if category in ("Cf", "Cs", "Co", "Cn") and not (char in _JOINERS and before > "\x7f"):
            return "name_hidden"
    return None
