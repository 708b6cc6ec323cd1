"""Know the files that decide whether a check passes, and which of them a run has changed."""

import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from treadle.engine.checks import executed
from treadle.engine.checks.executed import Executed
from treadle.git import trees
from treadle.git.repo import Repo
from treadle.git.trees import Leaf, Listing

DEFAULT = "default"

# Files in which tests stand. New ones are honest work; those of the base are not to be changed.
_TESTS = """
    **/tests/** **/test/** **/__tests__/** **/spec/** **/e2e/** **/testdata/** **/__snapshots__/**
    test_*.py *_test.py *_tests.py tests.py *_test.go *_test.{c,cc,cpp,clj,dart,exs,lua,ml,rb,rs}
    *.{test,spec}.{js,jsx,ts,tsx,mjs,cjs,mts,cts} *_spec.{rb,lua} *.bats *.feature *.snap
    *{Test,Tests,Spec,IT}.{java,kt,scala,groovy,php,cs,fs,swift,hs}
"""
# What steers a test run, or slips into it: new ones change the verdict as changed ones do.
_STEERING = """
    conftest.py pytest.ini .pytest.ini pytest.toml .pytest.toml tox.ini setup.cfg noxfile.py
    .coveragerc .coveragerc.toml sitecustomize.py usercustomize.py nose.cfg .noserc unittest.cfg
    Makefile makefile GNUmakefile *.mk justfile Justfile .justfile Taskfile.{yml,yaml} Rakefile
    CTestTestfile.cmake CTestConfig.cmake {jest,vitest,ava,karma,babel}.{config,conf}.*
    {playwright,cypress}.config.* jest.setup.* vitest.{setup,workspace}.* vite.config.*
    wdio.conf.* .mocharc* .babelrc* .swcrc
    .nycrc* .c8rc* .taprc **/__mocks__/** .rspec .simplecov {spec,rails,test}_helper.{rb,exs}
    phpunit.xml* *.runsettings xunit.runner.json dart_test.yaml junit-platform.properties
    **/META-INF/services/** **/.cargo/config* build.rs .env .env.*
    *.pth *.egg-link *.pyc *.pyo **/node_modules/** **/.venv/** **/site-packages/**
    **/*.dist-info/** **/*.egg-info/**
"""
# Ways of a new test file to change the run of the others.
_HOOKS = re.compile(
    rb"os\._exit|\b_exit\(|process\.exit|atexit|sys\.modules\s*\[|def pytest_|pytest_plugins"
    rb"|func TestMain\(|def load_tests|settrace|Deno\.exit"
)
_RUNNERS = "_pytest coverage hypothesis mock nose nose2 pluggy pytest pytest_cov tox nox xdist"
_MODULES = sys.stdlib_module_names.union(_RUNNERS.split())
_MODULE = re.compile(
    r"(?:(.*)/)?((?!__init__\b|__main__\b)[A-Za-z_]\w*)(?:/__init__)?\.(?:py|(?:[\w-]+\.)?(?:so|pyd))\Z"
)
_SLASH = re.compile("/")
_MAX_FOLLOWED = 40


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


class Found(NamedTuple):
    """What a run changed of the protected files, and the tests it added."""

    files: tuple[ProtectedFile, ...]
    new_tests: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the names of the changed ones."""
        return tuple(item.path for item in self.files)


def find(
    repo: Repo, base: str, commit: str, commands: Sequence[str], globs: Sequence[str]
) -> Found:
    """Compare two commits in everything that decides whether these commands pass."""
    changes = {change.path: change for change in trees.changed_files(repo.place, base, commit)}
    if not changes:
        return Found((), ())
    differ, old = list(changes), trees.files(repo, base)
    kept = {name: leaf for name, leaf in old.items() if name not in changes}
    new = kept | {name: leaf for name, change in changes.items() if (leaf := change.new)}
    look = _Look(repo, old, new, differ, _executed(repo, old, commands), globs)
    files = [
        ProtectedFile(name, old.get(name), new.get(name), reason)
        for name in differ
        if (reason := look.reason(name))
    ]
    taken = {item.path for item in files}
    added = [name for name in differ if name not in old and name not in taken]
    return Found(tuple(files), tuple(name for name in added if look.is_test(name)))


class _Look:
    """One comparison, with the contents that it needs."""

    def __init__(
        self,
        repo: Repo,
        old: Listing,
        new: Listing,
        differ: Sequence[str],
        runs: Executed,
        globs: Sequence[str],
    ) -> None:
        self._old, self._new = old, new
        self._runs, self._programs = runs.finder(), runs.programs
        self._asked = _matcher(tuple(glob for glob in globs if glob != DEFAULT))
        is_default = not globs or DEFAULT in globs
        self._tests = _matcher(tuple(_TESTS.split()) if is_default else ())
        self._steering = _matcher(tuple(_STEERING.split()) if is_default else ())
        self._folders = {name[: match.start()] for name in old for match in _SLASH.finditer(name)}
        self._modules = {module for name in old if (module := self._module(name))} | _MODULES
        self._texts = trees.contents(repo, self._wanted(differ))

    def _wanted(self, differ: Sequence[str]) -> Iterator[Leaf]:
        """Yield the files whose contents decide whether they are protected."""
        for name in differ:
            if _part(name) or (name not in self._old and self.is_test(name)):
                yield from filter(None, (self._old.get(name), self._new.get(name)))

    def is_test(self, name: str) -> bool:
        """Tell whether a file is a test, or one that the user protects."""
        return bool(self._tests(name) or self._asked(name))

    def reason(self, name: str) -> str | None:
        """Return why a file that differs is protected, or None."""
        if part := _part(name):
            return "configuration" if self._differs(name, part) else None
        if self._steering(name):
            return "configuration"
        if name not in self._old:
            return self._hook(name)
        if self.is_test(name):
            return "test"
        return "executed" if self._runs(name) else None

    def _differs(self, name: str, part: Callable[[bytes], object]) -> bool:
        """Compare the part of a file that steers tests; one that cannot be read counts whole."""
        sides = []
        for leaf in (self._old.get(name), self._new.get(name)):
            data = self._texts.get(leaf.id) if leaf else b""
            if data is None:
                return True
            try:
                sides.append(part(data))
            except (ValueError, RecursionError, AttributeError, TypeError):
                return True
        return sides[0] != sides[1]

    def _hook(self, name: str) -> str | None:
        """Return how a new file gets between a check and what it checks."""
        last, text = name.rpartition("/")[2], self._texts.get(self._new[name].id, b"")
        if last in self._programs:
            return "stands in for a program"
        if self._module(name) in self._modules:
            return "shadows a module"
        is_init = last == "__init__.py" and bool(text.strip())
        reaches = self.is_test(name) and (is_init or _HOOKS.search(text))
        return "hooks into the tests" if reaches else None

    def _module(self, name: str) -> str | None:
        """Return the module that a file is to programs which start in its folder."""
        match = _MODULE.match(name)
        if match is None or match[1] is None:
            return match and match[2]
        init = f"{match[1]}/__init__.py"
        is_package = init in self._old or (match[1] not in self._folders and init in self._new)
        return None if is_package else match[2]


def _executed(repo: Repo, old: Listing, commands: Sequence[str]) -> Executed:
    """Return what the commands execute, and what scripts among it execute in turn."""
    found, seen = Executed(), set[str]()
    fresh = Executed()
    for command in commands:
        fresh = fresh.joined(executed.read(command))
    for _ in range(3):
        found = found.joined(fresh)
        is_named = fresh.finder()
        names = [name for name in old if name not in seen and is_named(name)][:_MAX_FOLLOWED]
        if not names:
            break
        seen.update(names)
        texts = trees.contents(repo, (old[name] for name in names))
        fresh = Executed()
        for name in names:
            fresh = fresh.joined(executed.read_file(name, texts.get(old[name].id, b"")))
    return found


@cache
def _matcher(globs: tuple[str, ...]) -> Callable[[str], bool]:
    patterns = [re.compile(_regex(glob)) for glob in globs]
    return lambda name: any(pattern.fullmatch(name) for pattern in patterns)


def _regex(glob: str) -> str:
    """Translate a glob: without a slash it fits a name in any folder, ** is any folders."""
    glob = glob if "/" in glob else f"**/{glob}"
    parts = {
        "**/": "(?:.*/)?",
        "**": ".*",
        "*": "[^/]*",
        "?": "[^/]",
        "{": "(?:",
        "}": ")",
        ",": "|",
    }
    tokens = re.findall(r"\*\*/|\*\*|.", glob, re.DOTALL)
    return "".join(parts.get(token, re.escape(token)) for token in tokens)


def _part(name: str) -> Callable[[bytes], object] | None:
    """Return what reads the part of a file that steers tests, for files that hold more."""
    last = name.rpartition("/")[2]
    if re.fullmatch(r"(requirements|constraints)\b.*\.(txt|in)", last):
        return _test_lines
    return _PARTS.get(last)


def _pyproject(data: bytes) -> object:
    found = tomllib.loads(data.decode())
    tools = found.get("tool", {})
    kept = {name: tools[name] for name in tools if _TOOL.match(name)}
    project = found.get("project", {})
    return kept, project.get("entry-points"), found.get("build-system")


def _package(data: bytes) -> object:
    found = json.loads(data or b"{}")
    kept = {name: found[name] for name in found if name in _PACKAGE_KEYS.split()}
    for section in ("dependencies", "devDependencies", "overrides", "resolutions"):
        asked: Mapping[str, object] = found.get(section) or {}
        kept[section] = {
            name: value
            for name, value in asked.items()
            if _TOOL.search(name) or _LOCAL.match(str(value))
        }
    return kept


def _cargo(data: bytes) -> object:
    found = tomllib.loads(data.decode())
    profiles, package = found.get("profile", {}), found.get("package", {})
    kept = [found.get(name) for name in ("test", "lib", "bench", "patch", "replace")]
    return kept, profiles.get("test"), package.get("autotests"), package.get("build")


def _test_lines(data: bytes) -> object:
    """Return the lines of a build file that have to do with tests or with files of its own."""
    return [line.strip() for line in data.decode().splitlines() if _TEST_LINE.search(line)]


_TOOL = re.compile(
    r"@?(ava|c8|chai|coverage|cypress|hatch|hypothesis|jasmine|jest|karma|mocha|nose|nox|nyc|pdm"
    r"|playwright|poe|pytest|sinon|tap|taskipy|tox|vitest)"
)
_LOCAL = re.compile(r"(file|link|portal|git|http|npm)")
_TEST_LINE = re.compile(
    r"(?i)test|junit|spec|surefire|failsafe|ignoreFailures|jacoco|coverage|nox|tox"
    r"|^\s*(\.|-e|-f|--|git\+|https?:|file:)|@\s*(git|https?|file)"
)
_PACKAGE_KEYS = (
    "scripts jest mocha ava tap nyc c8 vitest babel type imports workspaces ts-node wireit"
)
_PARTS: dict[str, Callable[[bytes], object]] = {
    "pyproject.toml": _pyproject,
    "package.json": _package,
    "Cargo.toml": _cargo,
    **dict.fromkeys(
        ("pom.xml", "build.gradle", "build.gradle.kts", "CMakeLists.txt", "meson.build"),
        _test_lines,
    ),
}


def names(files: Iterable[ProtectedFile]) -> Iterator[str]:
    """Say which files, and why they count."""
    return (f"{item.path} ({item.reason})" for item in files)
