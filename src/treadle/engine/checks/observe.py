"""Run the criteria's own commands, see what they showed, and write it down."""

import contextlib
import functools
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

import msgspec
from msgspec import UNSET, UnsetType, structs

from treadle import layout
from treadle.agents.backend import AgentResult
from treadle.contract.events import EventType, NewEvent
from treadle.contract.messages import AskedCriterion, Observed
from treadle.engine.checks import WORDS, clean
from treadle.engine.run import confinement
from treadle.engine.run.run import Run
from treadle.engine.run.step_folder import Stage
from treadle.errors import FormatError, NotFoundError
from treadle.files import atomic, beneath, walk
from treadle.git import workspace
from treadle.proc.keeper import Ended
from treadle.store.runs import CheckRow, Phase
from treadle.text import plural

CANNOT_RUN = (126, 127)  # how a shell says that it could not execute a program, or found none
_CHECKS, _SUMMARY = "files/checks/", "observed.json"
SUMMARY = f"{_CHECKS}{_SUMMARY}"  # in a step's folder
_MAX_REPORT = 64 << 20
_TAIL = 256 << 10
_JUNIT, _COUNT = "junit:", "tests>="
_PASSED = tuple(map(re.compile, WORDS["counts"]["passed"]))
_RAN = re.compile(r"(?m)^Ran (\d+) tests? in .*\n+OK(?: \(skipped=(\d+))?")
_GO_PASS = re.compile(r"(?m)^\s*--- PASS: ")
_DISCARDS = re.compile(r"\||>|\btee\b")


class Observation(NamedTuple):
    """What all commands showed; `stopped` says why the rest did not run.

    `foregone` is how the step ends if what they showed makes asking its agent useless.
    """

    seen: tuple[Observed, ...]
    rows: tuple[CheckRow, ...]
    stopped: str | None = None
    happened: tuple[NewEvent, ...] = ()
    foregone: AgentResult | None = None

    @property
    def failing(self) -> tuple[str, ...]:
        """Return the ids of the criteria whose command failed."""
        return tuple(item.id for item in self.seen if not item.passed)


NOTHING = Observation((), ())


def observe(
    run: Run, stage: Stage, phase: Phase, explain: Callable[[Observed], Observed] | None = None
) -> Observation:
    """Run every criterion's command on the run's head, or reuse what this tree showed before."""
    if not run.order.commands:
        return NOTHING
    folder = stage.checks / "before" if phase == "before" else stage.checks
    folder.mkdir(parents=True)
    # What was asked for besides the exit code is not in the rows, so it is looked at each time.
    may_reuse = phase == "check" and not run.order.checks.expect
    reuse = functools.partial(_reused, run, folder) if may_reuse else None
    seen, stopped = Bench(run, run.head, repeats=phase == "check").observe(folder, reuse)
    if stopped:
        return Observation(seen, (), stopped)
    seen = tuple(map(explain, seen)) if explain else seen
    write_summary(folder, seen)
    told = () if phase == "before" else told_of(seen)
    return Observation(seen, _rows(run, stage, phase, seen), None, told)


def _reused(run: Run, folder: Path, criterion: AskedCriterion) -> Observed | None:
    row = run.tools.store.observed(run.id, run.tree, str(criterion.verify))
    if row is None or not row.log or not (old := run.folder.steps / row.log).is_file():
        return None
    if _was_flaky(run.folder.steps / row.log, criterion.id):
        return None
    if not row.passed and row.step_index <= _resumed_after(run):
        return None
    atomic.create(folder / f"{criterion.id}.txt", old.read_bytes())
    return Observed(
        id=criterion.id,
        command=row.command,
        passed=row.passed,
        exit_code=row.exit_code,
        seconds=row.seconds,
        log=_log(criterion.id),
        note=f"same tree and command as in step {row.step_index}",
    )


def _resumed_after(run: Run) -> int:
    """Return the last step before somebody took the run up again, perhaps after a cure outside."""
    found = [it.data for it in run.recorded if it.type == EventType.RUN_RESUMED and it.data]
    return max((int(str(data.get("step", 0))) for data in found), default=0)


def _was_flaky(log: Path, id_: str) -> bool:
    """Tell whether a command has shown two things on one tree, so that neither can be reused."""
    for folder in (log.parent, log.parent.parent):  # the log of a first try lies one deeper
        with contextlib.suppress(OSError, ValueError):
            seen = json.loads((folder / _SUMMARY).read_bytes())
            return any(item["id"] == id_ and item.get("flaky") for item in seen)
    return False


def _log(id_: str) -> str:
    return f"{_CHECKS}{id_}.txt"


def in_clean_place(run: Run) -> bool:
    """Tell whether this run's commands work in a checkout of their own."""
    return run.order.checks.place == "clean" and not run.order.in_project


def observe_commit(run: Run, commit: str, folder: Path) -> tuple[tuple[Observed, ...], str | None]:
    """Run every command on another commit than the run's head, logging to `folder`."""
    beneath.remove_tree(folder)
    folder.mkdir(parents=True)
    if in_clean_place(run):
        return Bench(run, commit).observe(folder)
    workspace.restore(run.workspace, commit)
    try:
        return Bench(run, commit).observe(folder)
    finally:
        workspace.restore(run.workspace, run.head)


class Bench:
    """Where commands meet one commit: each of them finds it as a fresh clone has it."""

    def __init__(self, run: Run, commit: str, *, repeats: bool = True) -> None:
        self._run = run
        self._commit = commit
        self._tries = run.order.checks.repeat if repeats else 1
        self.failed: Ended | None = None
        asked = run.order.checks.expect
        self._wishes = (asked,) if isinstance(asked, str) else asked
        self._unmet: dict[str, str] = {}

    def observe(
        self, folder: Path, reuse: Callable[[AskedCriterion], Observed | None] | None = None
    ) -> tuple[tuple[Observed, ...], str | None]:
        """Run every criterion's command, logging to `folder`; the text says why it was cut off."""
        seen: list[Observed] = []
        for criterion in self._run.order.commands:
            found, stopped = reuse(criterion) if reuse else None, None
            if found is None:
                found, stopped = self._execute(criterion, folder / f"{criterion.id}.txt")
            if stopped:
                return tuple(seen), stopped
            seen.append(found)
        missing = [self._unmet[wish] for wish in self._wishes if self._unmet.get(wish)]
        if missing:
            seen = [_refused(item, missing[0]) if item.passed else item for item in seen]
        return tuple(seen), None

    def _execute(self, criterion: AskedCriterion, log: Path) -> tuple[Observed, str | None]:
        """Run a command, and once more on the same tree if it fails."""
        seen, stopped = self._once(criterion, log)
        first = log.parent / "first" / log.name
        for _ in range(1, self._tries):
            if stopped or seen.passed or self.failed or seen.exit_code in CANNOT_RUN:
                break
            first.parent.mkdir(exist_ok=True)
            log.rename(first)
            again, stopped = self._once(criterion, log)
            if again.passed and not stopped:
                return _flaky(seen, again, strict=self._run.order.checks.flaky == "fail"), None
            seen = again
        return seen, stopped

    def _once(self, criterion: AskedCriterion, log: Path) -> tuple[Observed, str | None]:
        run, command = self._run, str(criterion.verify)
        place = layout.clean_of(run.workspace.path) if in_clean_place(run) else None
        if place and not self.failed:
            self.failed = clean.bring(run, self._commit)
        if self.failed:
            return self._unprepared(criterion.id, command, self.failed, log)
        prepare(run.inside(place or run.workspace.path), self._wishes)
        ended = confinement.execute(run, ("sh", "-c", command), log, log, place)
        seen = _from_end(run, criterion.id, command, ended)
        if seen.passed and (told := silent(command, log)):
            seen = _refused(seen, told)
        self._look_for_wishes(log, run.inside(place or run.workspace.path))
        return _explained(run, seen, log, place), _cut_off(ended)

    def _look_for_wishes(self, log: Path, place: Path) -> None:
        """Note what is missing; one command that shows it is enough."""
        for wish in self._wishes:
            if self._unmet.get(wish) != "":
                self._unmet[wish] = unmet(wish, log, place) or ""

    def _unprepared(
        self, id_: str, command: str, ended: Ended, log: Path
    ) -> tuple[Observed, str | None]:
        """Fail a criterion whose checkout the setup did not get ready: a clone has no better."""
        how = f"exited with {ended.exit_code}" if ended.reason == "exit" else ended.detail
        said = self._run.folder.clean_setup
        atomic.create(log, said.read_bytes() if said.is_file() else b"")
        seen = _from_end(self._run, id_, command, ended)
        note = f"not run: workspace.setup {how} in the clean checkout of the commit"
        return _refused(seen, note), _cut_off(ended)


def _flaky(first: Observed, again: Observed, *, strict: bool) -> Observed:
    """Return what two runs on one tree come to that did not agree."""
    failing, decides = f"{_CHECKS}first/{first.id}.txt", first if strict else again
    code = "" if first.exit_code is None else f" with exit code {first.exit_code}"
    return structs.replace(
        decides,
        seconds=round(first.seconds + again.seconds, 3),
        log=failing if strict else again.log,
        note=f"flaky: it failed{code}, then passed on the same tree; see {failing}",
        flaky=True,
    )


def _refused(seen: Observed, note: str) -> Observed:
    return structs.replace(seen, passed=False, note=note)


def _cut_off(ended: Ended) -> str | None:
    return ended.detail if ended.reason == "stopped" else None


def _explained(run: Run, seen: Observed, log: Path, place: Path | None) -> Observed:
    """Say which denial of the sandbox a failed command met, if its log tells."""
    if seen.passed or seen.note is not UNSET:
        return seen
    told = confinement.denied(run, [log], confinement.for_command(run, place))
    return structs.replace(seen, note=told) if told else seen


def _from_end(run: Run, id_: str, command: str, ended: Ended) -> Observed:
    note: str | UnsetType = UNSET
    if ended.reason == "timeout":
        note = f"took longer than checks.timeout = {run.order.checks.timeout:g} s"
    elif ended.reason != "exit":
        note = ended.detail or ended.reason
    return Observed(
        id=id_,
        command=command,
        passed=ended.reason == "exit" and ended.exit_code == 0,
        exit_code=ended.exit_code,
        seconds=round(ended.seconds, 3),
        log=_log(id_),
        note=note,
    )


def write_summary(folder: Path, seen: Sequence[Observed]) -> None:
    """Write down what all commands showed."""
    text = msgspec.json.format(msgspec.json.encode(seen), indent=2)
    atomic.create(folder / _SUMMARY, text + b"\n")


def read_summary(folder: Path) -> tuple[Observed, ...]:
    """Return what the commands showed in a committed check; nothing where there were none."""
    try:
        data = walk.read(folder / SUMMARY, max_bytes=_MAX_REPORT)
        return msgspec.json.decode(data, type=tuple[Observed, ...])
    except (FormatError, msgspec.MsgspecError):
        return ()


def told_of(seen: Iterable[Observed], where: str = "") -> tuple[NewEvent, ...]:
    """Return what the timeline is told of commands."""
    return tuple(event for item in seen for event in (_observed(item, where), *flaky_ones([item])))


def _observed(item: Observed, where: str) -> NewEvent:
    word = "passed" if item.passed else "failed"
    data = {"id": item.id, "passed": item.passed, "exit_code": item.exit_code}
    text = f"{item.id} {word}{where}: {item.command}"
    return NewEvent(EventType.CHECK_OBSERVED, text, data)


def flaky_ones(seen: Iterable[Observed]) -> tuple[NewEvent, ...]:
    """Return what the timeline is told of commands that showed two things on one tree."""
    return tuple(
        NewEvent(EventType.CHECK_FLAKY, f"{item.id} {item.note}", {"id": item.id})
        for item in seen
        if item.flaky is True
    )


def _rows(run: Run, stage: Stage, phase: Phase, seen: Sequence[Observed]) -> tuple[CheckRow, ...]:
    step = run.folder.step(stage.index, stage.role).name
    folder = "files/checks/before" if phase == "before" else "files/checks"
    return tuple(
        CheckRow(
            run_id=run.id,
            step_index=stage.index,
            criterion_id=item.id,
            phase=phase,
            command=item.command,
            tree=run.tree,
            passed=item.passed,
            exit_code=item.exit_code,
            seconds=item.seconds,
            log=f"{step}/{folder}/{item.log.removeprefix(_CHECKS)}",
            note=None if item.note is UNSET else item.note,
        )
        for item in seen
    )


def prepare(place: Path, asked: Sequence[str]) -> None:
    """Remove reports that lie there already, so that one found later is the command's own."""
    for wish in asked:
        name = wish.removeprefix(_JUNIT)
        if name != wish and os.path.lexists(place / name):
            beneath.remove(place, name)


def unmet(wish: str, log: Path, place: Path) -> str | None:
    """Say why a command has not shown what `checks.expect` asks for; None if it has."""
    if wish.startswith(_JUNIT):
        return _report(place, wish.removeprefix(_JUNIT))
    least, count = int(wish.removeprefix(_COUNT)), _tests(walk.tail(log, _TAIL))
    if count >= least:
        return None
    return f"{plural(count, 'test')} passed where checks.expect asks for at least {least}"


def silent(command: str, log: Path) -> str | None:
    """Notice a runner that was ended from within: exit code 0, and no summary or a bad one."""
    if _DISCARDS.search(command):
        return None  # what it said went elsewhere, or something else decided the exit code
    text, words = walk.tail(log, _TAIL), WORDS["commands"]
    lines = [command]
    if re.search(words["start"] + words["echoing"], command):
        lines += (it for it in re.findall(words["echoed"], text) if not _DISCARDS.search(it))
    for name, runner in WORDS["runners"].items():
        called = words["start"] + runner["called"].replace("{python}", words["python"])
        if not any(re.search(called, it) and not re.search(runner["quiet"], it) for it in lines):
            continue
        if re.search(runner["bad"], text):
            return f"{name} exited with 0 although its output lists failures or breaks off"
        if not re.search(runner["summary"], text):
            return f"{name} exited with 0 without its summary: it did not get to its end"
    return None


def _tests(text: str) -> int:
    """Return how many tests passed, as the summaries of known runners tell."""
    counts = [int(match[1]) for pattern in _PASSED for match in pattern.finditer(text)]
    counts += [int(ran[1]) - int(ran[2] or 0) for ran in _RAN.finditer(text)]
    return sum(counts) + len(_GO_PASS.findall(text))


def _report(place: Path, name: str) -> str | None:
    """Say what is wrong with a JUnit report."""
    try:
        with beneath.opened(place, name) as handle:
            data = handle.read(_MAX_REPORT + 1)
        if len(data) > _MAX_REPORT:
            return f"the report {name} is larger than {_MAX_REPORT >> 20} MiB"
        found = _elements(data)
    except (NotFoundError, OSError):
        return f"the command wrote no report {name}, which checks.expect asks for"
    except (expat.ExpatError, ValueError) as error:
        return f"the report {name} cannot be read: {error}"
    if failed := found["failure"] + found["error"]:
        return f"the report {name} lists {plural(failed, 'failed test')}"
    is_good = found["testcase"] > found["skipped"]
    return None if is_good else f"the report {name} lists no test that was run"


def _elements(data: bytes) -> Counter[str]:
    """Count the elements of a document; a document type, and with it every entity, is refused."""
    found: Counter[str] = Counter()

    def refuse(*_: object) -> None:
        raise ValueError("it declares a document type")

    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda name, _: found.update([name])
    parser.StartDoctypeDeclHandler = refuse
    parser.Parse(data, True)
    return found
