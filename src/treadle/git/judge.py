"""Judge a change by names, modes and size: what is refused, risky, too much."""

import re
import tomllib
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from treadle.git import trees
from treadle.git.repo import Repo
from treadle.git.scratch import Scratch
from treadle.git.trees import GITLINK, LINK, FileChange
from treadle.layout import CONFIG_NAMES, HOME_NAME

_TABLES = tomllib.loads(Path(__file__).with_name("rules.toml").read_text())
_FILES, _FOLDERS, _HOOKS, _GENERATED = (
    frozenset(_TABLES[name]) for name in ("files", "folders", "hooks", "generated")
)
# What lies in these is carried out, by treadle or by whoever follows a mission.
WORK = ("specs", "missions", "kitty-specs")
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
# Under these, files that git reads are found on systems that give every name a short one.
_SHORT = re.compile(
    r"(?:gitmod|gi(?:7(?:e(?:ba?)?)?)?|gitatt|gi(?:7(?:d(?:29?)?)?)?|gitign|gi(?:2(?:5(?:0a?)?)?)?"
    r"|mailma|ma(?:b(?:a(?:30?)?)?)?)~[0-9]+"
)
_PLAIN, _EXECUTABLE = "100644", "100755"


class Refusal(NamedTuple):
    """Why a change cannot be taken."""

    rule: str
    path: str
    message: str


class Risk(NamedTuple):
    """A change somebody must have seen before it is taken."""

    path: str
    reason: str


class Judged(NamedTuple):
    """What a change is, whatever the style of the patch it came from."""

    files: tuple[FileChange, ...]
    refusals: tuple[Refusal, ...]
    risky: tuple[Risk, ...]
    patch_kb: int
    diff: bytes


def judge(
    place: Scratch | Repo,
    base_tree: str,
    new_tree: str,
    protected: Collection[str] = (),
    *,
    inside: str | None = None,
) -> Judged:
    """Judge the way from one tree to another; `inside` is the only folder it may touch."""
    found = trees.compare(place, base_tree, new_tree)
    prefix = place.prefix if isinstance(place, Repo) else place.repo.prefix
    refusals = [*_refusals(found.files, inside, prefix)]
    refusals += _collisions(place, new_tree, found.files)
    risky = [(change.path, risk(change, protected, prefix)) for change in found.files]
    counted = sum(size for path, size in found.sizes if not is_generated(path))
    return Judged(
        files=found.files,
        refusals=tuple(refusals),
        risky=tuple(Risk(path, reason) for path, reason in risky if reason),
        patch_kb=-(-counted // 1024),
        diff=found.diff,
    )


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
    if any(_GIT.fullmatch(bare(part)) for part in parts):
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
    """Tell whether a file configures treadle, in this project or another of the repository."""
    parts = path.split("/")
    own = parts[parts.index(HOME_NAME) :] if HOME_NAME in parts else []
    return len(own) > 1 and not _is_own_state(own)


def folded(name: str) -> str:
    """Return what a system that ignores case and composition takes a name for."""
    decomposed = unicodedata.normalize("NFD", name.translate(_IGNORED))
    return unicodedata.normalize("NFC", decomposed.casefold())


def bare(part: str) -> str:
    """Return the name a file or folder ends up with on a system that drops what follows it."""
    return folded(part).split(":")[0].rstrip(". ")


def risk(change: FileChange, protected: Collection[str], prefix: str = "") -> str | None:
    """Return why a change is risky, or None; `prefix` is the project's folder."""
    path = change.path.removeprefix(prefix)
    if path in protected and change.old:
        return "protected"
    if is_own_config(path):
        return "treadle_config"
    parts = [bare(part) for part in path.split("/")]
    if parts[0] in WORK and "/" in path:
        return "work"
    if parts[-1] in _FILES or _SHORT.fullmatch(parts[-1]) or _FOLDERS.intersection(parts[:-1]):
        return "config"
    is_hook = parts[-1] in _HOOKS and any(part.endswith("hooks") for part in parts[:-1])
    return "hook" if is_hook else None


def is_generated(path: str) -> bool:
    """Tell whether a tool writes this file: such lock files do not count as patch size."""
    return path.rpartition("/")[2].lower() in _GENERATED


def _refusals(files: Iterable[FileChange], inside: str | None, prefix: str) -> Iterator[Refusal]:
    links = {change.path for change in files if change.old and change.old.mode == LINK}
    for change in files:
        path = change.path
        rule = forbidden(path) or (prefix and forbidden(path.removeprefix(prefix)))
        rule = rule or (not change.old and unwelcome(path)) or _mode_rule(change)
        if rule:
            yield _refuse(rule, path, mode=change.new.mode if change.new else "")
        above = next((folder for folder in trees.above(path) if folder in links), None)
        if above and change.new:
            yield _refuse("parent_symlink", path, other=above)
        if inside and not path.startswith(f"{inside.strip('/')}/"):
            rule = "outside_project" if inside == prefix else "outside_path"
            yield _refuse(rule, path, other=inside.rstrip("/"))


def _mode_rule(change: FileChange) -> str | None:
    if any(leaf and leaf.mode == GITLINK for leaf in (change.old, change.new)):
        return "gitlink"
    if change.new is None or change.new.mode in (_PLAIN, _EXECUTABLE):
        return None
    return "symlink" if change.new.mode == LINK else "mode"


def _collisions(place: Scratch | Repo, tree: str, files: Iterable[FileChange]) -> Iterator[Refusal]:
    """Yield new names that a system ignoring case or composition cannot tell from another."""
    added = [change.path for change in files if not change.old and "\n" not in change.path]
    if not added:
        return
    folders = {"", *(folder for path in added for folder in trees.above(path))}
    spellings: dict[tuple[str, str], list[str]] = {}
    for folder, names in trees.names(place, tree, folders).items():
        for name in names:
            spellings.setdefault((folder, folded(name)), []).append(name)
    for path in added:
        for part in (*trees.above(path), path):
            folder, slash, name = part.rpartition("/")
            same = spellings.get((folder, folded(name)), ())
            if other := next((twin for twin in same if twin != name), None):
                yield _refuse("collision", path, other=f"{folder}{slash}{other}")
                break


def _refuse(rule: str, path: str, **values: str) -> Refusal:
    return Refusal(rule, path, explain(rule, path, **values))


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
