"""Look at the checks before any work, and a second time at what passes."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from treadle import layout
from treadle.agents.backend import AgentResult
from treadle.contract.events import EventType, NewEvent, StepError
from treadle.contract.messages import Observed
from treadle.engine.checks import observe, protected
from treadle.engine.checks.observe import Observation
from treadle.engine.checks.protected import Found
from treadle.engine.run.memory import PROTECTED_DIFF, SecondLook
from treadle.engine.run.run import Run
from treadle.engine.run.step_folder import Stage
from treadle.files import atomic, walk
from treadle.git import build, scratch, trees
from treadle.git.build import Built
from treadle.git.trees import Leaf
from treadle.text import name_some

_PROVES_NOTHING = "already passes before any work: it proves nothing yet"
_SAID = 4 << 10
_NOT_FOUND, _MISUSED = 127, 2
_SYNTAX = re.compile(r"\A\S*sh: .*syntax error.*", re.IGNORECASE)
# How shells name what they did not find: a program, or a script that they were told to read.
_MISSING = re.compile(
    r"(?m)^\S*sh: (?:(?:line )?\d+: )?(?P<open>(?:cannot|can't) open )?'?(?P<name>[^:'\n]+)'?"
    r": (?P<why>.*(?:not found|No such file).*)$"
)


def look(run: Run, stage: Stage) -> Observation:
    """Run every command once before any work; say if there is nothing to do, or no way to tell."""
    place = run.workspace.path
    place = run.inside(layout.clean_of(place) if observe.in_clean_place(run) else place)
    broken: dict[str, str] = {}

    def explain(item: Observed) -> Observed:
        why = why_broken(item, stage.checks / "before" / f"{item.id}.txt", place)
        if why is None:
            return item
        broken[item.id] = f"{item.id} cannot run: {why} (`{item.command}`)"
        return structs.replace(item, note=f"cannot run: {why}")

    found = observe.observe(run, stage, "before", explain)
    if found.stopped or not found.seen:
        return found
    if not run.order.checks.anyway and (result := _foregone(run, found.seen, broken)):
        found = found._replace(foregone=result)
    else:
        for item in found.seen:
            if item.passed:
                run.tools.note(run.id, f"{item.id} {_PROVES_NOTHING}")
    return found._replace(happened=tuple(_event(item, broken) for item in found.seen))


def why_broken(item: Observed, log: Path, place: Path) -> str | None:
    """Say why a command cannot run; None if it ran.

    A file of the project that is not there yet is what the work may be about, so a command that
    needs one merely fails. A missing program and a text that the shell cannot read are broken.
    """
    if item.passed or item.exit_code not in (*observe.CANNOT_RUN, _MISUSED):
        return None
    text = walk.tail(log, _SAID).strip()
    if item.exit_code == _MISUSED:
        wrong = _SYNTAX.match(text)
        return wrong[0] if wrong else None
    missing = [*_MISSING.finditer(text)]
    if item.exit_code == _NOT_FOUND and missing and _may_come(missing[-1], place):
        return None
    said = missing[-1][0] if missing else text.rpartition("\n")[2]
    return f"it exited with {item.exit_code}{f': {said}' if said else ''}"


def _may_come(missing: re.Match[str], place: Path) -> bool:
    """Tell whether what a shell missed is a file of the project that nobody has made yet."""
    name = missing["name"].strip()
    is_file = missing["open"] or "/" in name or "No such file" in missing["why"]
    return bool(is_file) and not name.startswith("/") and not os.path.lexists(place / name)


def _event(item: Observed, broken: Mapping[str, str]) -> NewEvent:
    if text := broken.get(item.id):
        return NewEvent(EventType.CHECK_BROKEN, text, {"id": item.id, "exit_code": item.exit_code})
    data = {"id": item.id, "passed": item.passed}
    text = _PROVES_NOTHING if item.passed else "fails before any work, as it should"
    return NewEvent(EventType.CHECK_BEFORE, f"{item.id} {text}", data)


def _foregone(run: Run, seen: Sequence[Observed], broken: Mapping[str, str]) -> AgentResult | None:
    """Return how the run's first step ends if no agent needs to be asked."""
    if broken:
        text = "; ".join(broken.values())
        return AgentResult(error=StepError.CHECK_BROKEN, message=f"{text}; no agent was asked")
    if len(seen) == len(run.order.criteria) and all(item.passed for item in seen):
        text = "every criterion already passed before any work, so no agent was asked"
        return AgentResult(skipped=True, message=text)
    return None


_SHOWN = 200


class LookedAgain(NamedTuple):
    """What a second look showed; `stopped` says why it was cut off."""

    look: SecondLook
    happened: tuple[NewEvent, ...] = ()
    stopped: str | None = None


def look_again(run: Run, stage: Stage) -> LookedAgain | None:
    """Run the commands with the base's own protected files; None if the run changed none."""
    base = run.row.base_commit or run.head
    if base == run.head:
        return None
    commands = [str(item.verify) for item in run.order.commands]
    asked, setup = run.order.checks.protect, run.order.workspace.setup or ()
    found = protected.find(run.tools.repo, base, run.head, commands, asked, setup)
    if not found.files:
        return None
    atomic.create(stage.live / PROTECTED_DIFF, _diff(run, base, found))
    seen, stopped = _again(run, stage, found) if commands else ((), None)
    failing = tuple(item.id for item in seen if not item.passed)
    look = SecondLook(found.paths, failing, bool(seen))
    names = name_some(tuple(protected.names(found.files)))
    told = {"files": list(found.paths[:100]), "failing": list(failing)}
    event = NewEvent(EventType.PROTECTED_CHANGED, f"{names}: {look.sentence}", told)
    return LookedAgain(look, (*observe.flaky_ones(seen), event), stopped)


def _diff(run: Run, base: str, found: Found) -> bytes:
    """Return the change of just these files; big ones are only named."""
    sizes = trees.sizes(run.tools.repo, (leaf for item in found.files for leaf in item.sides))
    shown = [
        item.path
        for item in found.files
        if sum(sizes.get(leaf.id, 0) for leaf in item.sides) <= trees.MAX_BYTES
    ][:_SHOWN]
    text = trees.diff_text(run.tools.repo, base, run.head, shown) if shown else b""
    others = [name for name in found.paths if name not in shown]
    return text + "".join(f"# not shown: {name!r}\n" for name in others[:_SHOWN]).encode()


def _again(run: Run, stage: Stage, found: Found) -> tuple[tuple[Observed, ...], str | None]:
    """Run the commands with the base's files; new tests stay, unless they need what has gone."""
    without = [item.path for item in found.files if item.base is None]
    reset = {item.path: item.base for item in found.files}
    seen, stopped = _observe(run, stage, reset)
    if stopped or not without or not found.new_tests or all(item.passed for item in seen):
        return seen, stopped
    return _observe(run, stage, reset | dict.fromkeys(found.new_tests))


def _observe(
    run: Run, stage: Stage, reset: Mapping[str, Leaf | None]
) -> tuple[tuple[Observed, ...], str | None]:
    folder = stage.checks / "base"
    seen, stopped = observe.observe_commit(run, _commit(run, stage, reset), folder)
    if not stopped:
        observe.write_summary(folder, seen)
    return seen, stopped


def _commit(run: Run, stage: Stage, reset: Mapping[str, Leaf | None]) -> str:
    """Commit the run's tree with some files as the base has them; no branch moves."""
    place = scratch.make(run.tools.repo, stage.scratch, run.workspace.runner)
    try:
        built = Built(trees.edited(place, run.tree, reset), place)
        author = build.author_of(run.workspace.config)
        return build.commit(built, run.head, "the base's tests", run.tools.now(), author)
    finally:
        scratch.drop(place)
