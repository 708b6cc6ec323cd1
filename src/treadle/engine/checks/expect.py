"""Ask more of a command than exit code 0: a report, a number of tests, a runner's last line."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from treadle.errors import NotFoundError
from treadle.files import beneath, walk

_MAX_REPORT = 64 << 20
_TAIL = 256 << 10
_JUNIT, _COUNT = "junit:", "tests>="


class KnownRunner(NamedTuple):
    """A test runner: how a command calls it, how its summary looks, and a summary that is bad."""

    name: str
    called: re.Pattern[str]
    summary: re.Pattern[str]
    bad: re.Pattern[str]
    quiet: re.Pattern[str] | None = None


_START = (
    r"(?:\A|[;&(\n])\s*(?:[A-Za-z_]\w*=\S*\s+)*"
    r"(?:(?:env|time|exec|uv run|poetry run|pdm run|npx)\s+)*"
)
_PYTHON = r"(?:\S*python[\d.]*(?:\s+-[A-Za-ln-z]\S*)*\s+-m\s+)"
_RUNNERS = (
    KnownRunner(
        "pytest",
        re.compile(rf"{_START}(?:{_PYTHON}|\S*/)?(?:pytest|py\.test)\b"),
        re.compile(r"(?m)^(?:=+ )?(?:\x1b\[[\d;]*m)*(?:\d+ \w+, )*\d+ \w+.* in [\d.:]+"),
        re.compile(r"(?m)^(?:=+ )?(?:\x1b\[[\d;]*m)*(?:\d+ \w+, )*\d+ (?:failed|errors?)\b.* in "),
        re.compile(
            r"\s-[a-z]*q[a-z]*q|-q\s+-q|--co\b|--collect-only|--version|--fixtures|-h\b|--help"
        ),
    ),
    KnownRunner(
        "unittest",
        re.compile(rf"{_START}{_PYTHON}unittest\b"),
        re.compile(r"(?m)^Ran \d+ tests? in "),
        re.compile(r"(?m)^FAILED \("),
        re.compile(r"-h\b|--help"),
    ),
    KnownRunner(
        "jest",
        re.compile(rf"{_START}(?:\S*/)?jest\b"),
        re.compile(r"(?m)^\s*Tests:\s+.*\d+ total"),
        re.compile(r"(?m)^\s*Tests:\s+\d+ failed"),
        re.compile(
            r"--json|--reporters?|--version|--help|--listTests|--showConfig|--passWithNoTests"
        ),
    ),
    KnownRunner(
        "cargo test",
        re.compile(rf"{_START}(?:\S*/)?cargo(?:\s+\+\S+)?\s+test\b"),
        re.compile(r"(?m)^test result: "),
        re.compile(r"(?m)^test result: FAILED"),
        re.compile(r"--no-run|--help|-q|--quiet|--list"),
    ),
    KnownRunner(
        "go test",
        re.compile(rf"{_START}(?:\S*/)?go\s+test\b"),
        re.compile(r"(?m)^(?:ok\s|\?\s|PASS$|=== RUN|\{\")"),
        re.compile(r"(?m)^(?:FAIL|--- FAIL)\b"),
        re.compile(r"\s-c\b|\s-list\b|\s-n\b"),
    ),
)
# Each takes the number of passed tests from a summary.
_PASSED = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?m)^(?:=+ )?(?:\x1b\[[\d;]*m)*(?:\d+ \w+, )*(\d+) passed\b.* in [\d.:]+",
        r"(?m)^\s*Tests:?\s+(?:\d+ \w+, )*(\d+) passed",
        r"(?m)^test result: ok\. (\d+) passed",
        r"(?m)^[#ℹ] pass (\d+)$",
        r"(?m)^\s*(\d+) passing\b",
        r"(?m)^(\d+) examples?, 0 failures",
        r"(?m)^OK \((\d+) tests?",
        r"(?m)^Passed!.*Passed:\s*(\d+)",
    )
)
_RAN = re.compile(r"(?m)^Ran (\d+) tests? in .*\n+OK(?: \(skipped=(\d+))?")
_GO_PASS = re.compile(r"(?m)^\s*--- PASS: ")
_DISCARDS = re.compile(r"\||>|\btee\b")


def prepare(place: Path, asked: Sequence[str]) -> None:
    """Remove reports that lie there already, so that one found later is the command's own."""
    for name in _reports(asked):
        if os.path.lexists(place / name):
            beneath.remove(place, name)


def unmet(wish: str, log: Path, place: Path) -> str | None:
    """Say why a command has not shown what `checks.expect` asks for; None if it has."""
    if wish.startswith(_JUNIT):
        return _report(place, wish.removeprefix(_JUNIT))
    least, count = int(wish.removeprefix(_COUNT)), _tests(walk.tail(log, _TAIL))
    if count >= least:
        return None
    return f"{count} tests passed where checks.expect asks for at least {least}"


def silent(command: str, log: Path) -> str | None:
    """Notice a runner that was ended from within: exit code 0, and no summary or a bad one."""
    if _DISCARDS.search(command):
        return None  # what it said went elsewhere, or something else decided the exit code
    text = walk.tail(log, _TAIL)
    for runner in _RUNNERS:
        if not runner.called.search(command) or (runner.quiet and runner.quiet.search(command)):
            continue
        if runner.bad.search(text):
            return f"{runner.name} exited with 0 although its summary tells of failures"
        if not runner.summary.search(text):
            return f"{runner.name} exited with 0 without its summary: it did not get to its end"
    return None


def _tests(text: str) -> int:
    """Return how many tests passed, as the summaries of known runners tell."""
    counts = [int(match[1]) for pattern in _PASSED for match in pattern.finditer(text)]
    counts += [int(ran[1]) - int(ran[2] or 0) for ran in _RAN.finditer(text)]
    return sum(counts) + len(_GO_PASS.findall(text))


def _report(place: Path, name: str) -> str | None:
    """Say what is wrong with a JUnit report."""
    found = _Counts()
    try:
        with beneath.opened(place, name) as handle:
            data = handle.read(_MAX_REPORT + 1)
        if len(data) > _MAX_REPORT:
            return f"the report {name} is larger than {_MAX_REPORT >> 20} MiB"
        found.read(data)
    except (NotFoundError, OSError):
        return f"the command wrote no report {name}, which checks.expect asks for"
    except (expat.ExpatError, ValueError) as error:
        return f"the report {name} cannot be read: {error}"
    if found.failed:
        return f"the report {name} tells of {found.failed} failed tests"
    is_good = found.cases > found.skipped
    return None if is_good else f"the report {name} tells of no test that was run"


class _Counts:
    """What a JUnit report counts; a document type, and with it every entity, is refused."""

    def __init__(self) -> None:
        self.cases = self.skipped = self.failed = 0

    def read(self, data: bytes) -> None:
        parser = expat.ParserCreate()
        parser.StartElementHandler = self._element
        parser.StartDoctypeDeclHandler = self._refuse
        parser.Parse(data, True)

    def _element(self, name: str, attributes: dict[str, str]) -> None:
        self.cases += name == "testcase"
        self.skipped += name == "skipped"
        self.failed += name in ("failure", "error")

    def _refuse(self, *_: object) -> None:
        raise ValueError("it declares a document type")


def _reports(asked: Sequence[str]) -> Iterator[str]:
    return (wish.removeprefix(_JUNIT) for wish in asked if wish.startswith(_JUNIT))
