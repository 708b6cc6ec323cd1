"""Know the files that decide whether a check passes, and which of them a run has changed."""

import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from posixpath import basename, dirname, join, normpath, splitext
from typing import NamedTuple

from treadle.engine.checks import WORDS, executed
from treadle.engine.checks.executed import Executed
from treadle.git import trees
from treadle.git.repo import Repo
from treadle.git.trees import LINK, FileChange, Leaf, Listing

DEFAULT = "default"

_TESTS, _STEERING, _SHADOWS = (
    tuple(WORDS[key].split()) for key in ("tests", "steering", "shadows")
)
_SIGNS = {key: re.compile(pattern) for key, pattern in WORDS["patterns"].items()}
_RUST = ".rs"  # where tests stand beside the code
_TYPED = tuple(f".{ending}" for ending in WORDS["typed"].split())
_MODULES = sys.stdlib_module_names.union(WORDS["runner_modules"].split())
_MODULE = re.compile(
    r"(?:(.*)/)?((?!__init__\b|__main__\b)[A-Za-z_]\w*)(?:/__init__)?\.(?:py|(?:[\w-]+\.)?(?:so|pyd))\Z"
)
_GLOB = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")", ",": "|"}
_ELSEWHERE = {"path", "git"}
_MAX_FOLLOWED = 40
_FOLLOWED_DEEP = 8


class ProtectedFile(NamedTuple):
    """A protected file that a run changed: before and after, and why it counts."""

    path: str
    base: Leaf | None
    new: Leaf | None
    reason: str

    @property
    def sides(self) -> list[Leaf]:
        """Return the file before and after, as far as it is there."""
        return [leaf for leaf in (self.base, self.new) if leaf]


class _Lines(NamedTuple):
    """What of a file steers tests: lines that are not to change, and pieces that are to stay."""

    lines: Sequence[str]
    pieces: Counter[str]

    def is_kept_by(self, other: "_Lines") -> bool:
        """Tell whether a later one says all that this one says."""
        return self.lines == other.lines and self.pieces <= other.pieces


class Found(NamedTuple):
    """What a run changed of the protected files, and the tests it added."""

    files: tuple[ProtectedFile, ...]
    new_tests: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the names of the changed ones."""
        return tuple(item.path for item in self.files)


def find(
    repo: Repo,
    base: str,
    commit: str,
    commands: Sequence[str],
    globs: Sequence[str],
    setup: Sequence[str] = (),
) -> Found:
    """Compare two commits in everything that decides whether these commands pass.

    What the setup makes, they find: so its own scripts count, though not what they read.
    """
    changes = trees.changed_files(repo.place, base, commit)
    if not changes:
        return Found((), ())
    look = _Look(repo, base, changes, commands, globs, setup)
    reasons = [look.reason(change) for change in changes]
    files = [
        ProtectedFile(*change, reason)
        for change, reason in zip(changes, reasons, strict=True)
        if reason
    ]
    taken = {item.path for item in files}
    added = [change.path for change in changes if not change.old and change.path not in taken]
    return Found(tuple(files), tuple(filter(look.is_test, added)))


class _Look:
    """One comparison, with the contents that it needs."""

    def __init__(
        self,
        repo: Repo,
        base: str,
        changes: Sequence[FileChange],
        commands: Sequence[str],
        globs: Sequence[str],
        setup: Sequence[str],
    ) -> None:
        self._old = trees.files(repo, base)
        self._changed = {change.path for change in changes if change.new}
        runs = _executed(repo, self._old, commands)
        self._runs, self._programs = runs.finder(), runs.programs
        asked = (glob for glob in globs if glob != DEFAULT)
        inside = (repo.prefix + glob if "/" in glob else glob for glob in asked)
        self._prepares = executed.scripts(setup).finder()
        self._asked = matcher(tuple(inside))
        is_default = not globs or DEFAULT in globs
        self._tests = matcher(_TESTS if is_default else ())
        self._steering = matcher(_STEERING if is_default else ())
        self._shadows = matcher(_SHADOWS)
        self._is_built = any(_part(name) is _build_lines for name in self._old)
        typed = (basename(name) for name in self._old if name.endswith(_TYPED))
        self._types = {_plain(splitext(name)[0]) for name in typed}
        self._links = _links(repo, self._old)
        self._folders = {folder for name in self._old for folder in trees.above(name)}
        self._modules = {module for name in self._old if (module := self._module(name))} | _MODULES
        self._texts = trees.contents(repo, self._wanted(changes))

    def _wanted(self, changes: Sequence[FileChange]) -> Iterator[Leaf]:
        """Yield the files whose contents decide whether they are protected."""
        for path, old, new in changes:
            if _part(path) or path.endswith(_RUST) or (not old and self.is_test(path)):
                yield from filter(None, (old, new))

    def is_test(self, name: str) -> bool:
        """Tell whether a file is a test, or one that the user protects."""
        return bool(self._tests(name) or self._asked(name))

    def reason(self, change: FileChange) -> str | None:
        """Return why a file that differs is protected, or None."""
        name, part = change.path, _part(change.path)
        spelt = (name, self._links.get(name, name))
        if self._differs(change, part) if part else any(map(self._steering, spelt)):
            return "configuration"
        if change.old is None:
            return None if part else self._hook(change)
        if self.is_test(name) or (name.endswith(_RUST) and self._differs(change, _inline_tests)):
            return "test"
        if part:
            return None
        return (
            "executed" if any(map(self._runs, spelt)) else "setup" if self._prepares(name) else None
        )

    def _differs(self, change: FileChange, part: Callable[[bytes], object]) -> bool:
        """Compare the part of a file that steers tests; one that cannot be read counts whole."""
        if change.old is None and part is _build_lines and not self._is_built:
            part = _test_lines  # the first build file of a project: there was nothing to steer
        old, new = (self._texts.get(leaf.id) if leaf else b"" for leaf in (change.old, change.new))
        if old is None or new is None:
            return True
        try:
            before, after = part(old), part(new)
            if isinstance(before, _Lines) and isinstance(after, _Lines):
                return not before.is_kept_by(after)
            return before != after
        except (ValueError, RecursionError, AttributeError, TypeError):
            return True

    def _hook(self, change: FileChange) -> str | None:
        """Return how a new file gets between a check and what it checks."""
        name, last = change.path, change.path.rpartition("/")[2]
        text = self._texts.get(change.new.id, b"").decode(errors="replace") if change.new else ""
        if last in self._programs:
            return "stands in for a program"
        if self._module(name) in self._modules or self._shadows(name):
            return "shadows a module"
        is_init = last == "__init__.py" and bool(text.strip())
        reaches = self.is_test(name) and (is_init or self._reaches(text))
        return "hooks into the tests" if reaches else None

    def _reaches(self, text: str) -> bool:
        """Tell whether a new test may change the run of the others, or what they test."""
        imported = set(re.findall(r"\w+", "\n".join(_SIGNS["imported"].findall(text))))
        assigned = {word for pair in _SIGNS["assigned"].findall(text) for word in pair}
        declared = set(map(_plain, _SIGNS["declared"].findall(text)))
        is_hook = bool(_SIGNS["hooks"].search(text))
        return is_hook or bool(imported & assigned - {""} or declared & self._types)

    def _module(self, name: str) -> str | None:
        """Return the module that a file is to programs which start in its folder."""
        match = _MODULE.match(name)
        if match is None or match[1] is None:
            return match and match[2]
        init = f"{match[1]}/__init__.py"
        is_package = init in self._old or (match[1] not in self._folders and init in self._changed)
        return None if is_package else match[2]


def _links(repo: Repo, old: Listing) -> dict[str, str]:
    """Return the links of a tree by the files that they lead to."""
    links = {name: leaf.id for name, leaf in old.items() if leaf.mode == LINK}
    texts = trees.contents(repo, (Leaf("100644", id_) for id_ in links.values()))
    ends = {name: texts.get(id_, b"").decode(errors="replace") for name, id_ in links.items()}
    return {normpath(join(dirname(name), end)): name for name, end in ends.items()}


def _executed(repo: Repo, old: Listing, commands: Sequence[str]) -> Executed:
    """Return what the commands execute, and what scripts among it execute in turn."""
    seen: set[str] = set()
    found = fresh = executed.join(map(executed.read, commands))
    for _ in range(_FOLLOWED_DEEP):
        is_named = fresh.finder()
        names = [name for name in old if name not in seen and is_named(name)][:_MAX_FOLLOWED]
        if not names:
            break
        seen.update(names)
        texts = trees.contents(repo, (old[name] for name in names))
        fresh = executed.join(
            executed.read_file(name, texts.get(old[name].id, b"")) for name in names
        )
        found = executed.join([found, fresh])
    return found


@cache
def matcher(globs: tuple[str, ...]) -> Callable[[str], bool]:
    """Return what tells whether a name fits one of these globs."""
    patterns = [re.compile(_regex(glob)) for glob in globs]
    return lambda name: any(pattern.fullmatch(name) for pattern in patterns)


def _regex(glob: str) -> str:
    """Translate a glob: without a slash it fits a name in any folder, ** is any folders."""
    glob = glob if "/" in glob else f"**/{glob}"
    tokens = re.findall(r"\*\*/|\*\*|.", glob, re.DOTALL)
    return "".join(_GLOB.get(token, re.escape(token)) for token in tokens)


def _part(name: str) -> Callable[[bytes], object] | None:
    """Return what reads the part of a file that steers tests, for files that hold more."""
    last = name.rpartition("/")[2]
    if re.fullmatch(r"(requirements|constraints)\b.*\.(txt|in)", last):
        return _test_lines
    return _PARTS.get(last)


def _pyproject(data: bytes) -> object:
    found = tomllib.loads(data.decode())
    tools = found.get("tool", {})
    kept = {name: tools[name] for name in tools if _SIGNS["tools"].match(name)}
    project = found.get("project", {})
    return kept, project.get("entry-points"), found.get("build-system")


def _package(data: bytes) -> object:
    found = json.loads(data or b"{}")
    kept = {name: found[name] for name in found if name in WORDS["package_keys"].split()}
    for section in WORDS["package_sections"].split():
        asked: Mapping[str, object] = found.get(section) or {}
        kept[section] = {
            name: value
            for name, value in asked.items()
            if _SIGNS["tools"].search(name) or _SIGNS["local"].match(str(value))
        }
    return kept


def _cargo(data: bytes) -> object:
    found = tomllib.loads(data.decode())
    kept = [found.get(name) for name in WORDS["cargo_keys"].split()]
    asked = [item for key in found if "dependencies" in key for item in found[key].items()]
    local = {name: how for name, how in asked if isinstance(how, dict) and how.keys() & _ELSEWHERE}
    own = [found.get("package", {}).get(name) for name in WORDS["cargo_package"].split()]
    return kept, local, own


def _test_lines(data: bytes) -> object:
    """Return the lines that have to do with tests or with files of the project."""
    lines = data.decode().splitlines()
    return [line.strip() for line in lines if _SIGNS["test_lines"].search(line)]


def _build_lines(data: bytes) -> _Lines:
    """Return the lines of a build file that may steer tests, and the sources that it names."""
    text = _SIGNS["joined"].sub(" ", data.decode())
    steers, is_plain = _SIGNS["test_lines"].search, _SIGNS["plain_lines"].fullmatch
    lines = (line.strip() for line in text.splitlines())
    kept = [line for line in lines if steers(line) or not is_plain(line)]
    return _Lines(kept, Counter(_SIGNS["sources"].findall(text)))


def _inline_tests(data: bytes) -> _Lines:
    """Return the tests that stand beside the code."""
    text = data.decode()
    pieces = (match[0] for match in _SIGNS["inline"].finditer(text))
    kept = Counter(piece for piece in pieces if _SIGNS["inline_test"].search(piece))
    return _Lines(_SIGNS["hiding"].findall(text) if kept else (), kept)


def _plain(name: str) -> str:
    """Return the name of a type or of its file as both are spelt alike."""
    return name.replace("_", "").casefold()


def _origins(data: bytes) -> object:
    """Return where a lock file takes packages from."""
    return {line.strip() for line in _SIGNS["origins"].findall(data.decode())}


_PARTS: dict[str, Callable[[bytes], object]] = {
    "pyproject.toml": _pyproject,
    **dict.fromkeys(("package.json", "composer.json"), _package),
    "Cargo.toml": _cargo,
    "settings.py": _test_lines,
    **dict.fromkeys(WORDS["build_files"].split(), _build_lines),
    **dict.fromkeys(WORDS["locks"].split(), _origins),
}


def names(files: Iterable[ProtectedFile]) -> Iterator[str]:
    """Say which files, and why they count."""
    return (f"{item.path} ({item.reason})" for item in files)
