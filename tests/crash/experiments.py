"""Disturb a scenario in every way the instruments know, and collect the broken promises."""

import errno
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.crash import model, states
from tests.crash.crew import Crew

KINDS: tuple[states.Kind, ...] = ("ext4", "strict")
VICTIMS = ("group", "root", "caller")
ERRORS = (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EDQUOT)


class Report(NamedTuple):
    """One experiment: how often it was tried and what broke."""

    name: str
    tried: int
    broken: list[str]
    notes: list[str] = []  # noqa: RUF012 - a default that nobody changes


def count(crew: Crew) -> list[tuple[str, str]]:
    """Return every write-type call of an undisturbed run, which must be without fault."""
    result = crew.ask({"kind": "count"})
    if result["violations"]:
        raise ValueError(f"broken without any disturbance: {result['violations']}")
    return [(name, path) for name, path in result["calls"]]


def kills(crew: Crew, victim: str, sample: int | None = None) -> Report:
    """Kill at each call (or at a sample of them), recover, verify."""
    calls = count(crew)
    items = [{"kind": "kill", "at": at, "victim": victim} for at in points(len(calls), sample)]
    return _report(f"kill {victim}", crew.map(items))


def doubles(crew: Crew, sample: int) -> Report:
    """Kill at a sample of calls, and kill the recovery at each of its own calls."""
    chosen = points(len(count(crew)), sample)
    results = crew.map({"kind": "double", "at": at, "victim": "group"} for at in chosen)
    broken = _report("", results).broken
    return Report("kill recovery too", sum(result["kills"] for result in results), broken)


def late_kills(crew: Crew, number: int, longest: float, seed: int = 1) -> Report:
    """Kill the whole tree at random moments of the clock."""
    chance = random.Random(seed)
    items = [{"kind": "late", "seconds": chance.uniform(0, longest)} for _ in range(number)]
    return _report("kill at random moments", crew.map(items))


def failures(crew: Crew, error: int, lasts: bool, sample: int | None = None) -> Report:
    """Let each call fail once, or from there on until the trouble is over."""
    chosen = points(len(count(crew)), sample)
    item = {"kind": "fail", "errno": error, "lasts": lasts}
    results = crew.map({**item, "at": at} for at in chosen)
    silent = sum(result["code"] == 0 for result in results)
    name = f"{errno.errorcode[error]} {'from there on' if lasts else 'once'}"
    return _report(name, results)._replace(notes=[f"{silent} runs ended well all the same"])


def fills(crew: Crew, levels: int) -> Report:
    """Run on disks that are too small, from no room to nearly enough, then give them room."""
    result = crew.ask({"kind": "count"})
    low, high = result["bytes"]
    sizes = [low + 4096 + index * (high - low) // levels for index in range(levels)]
    return _report("full disk", crew.map({"kind": "fill", "bytes": size} for size in sizes))


def power(crew: Crew, kind: states.Kind, limit: int) -> Report:
    """Cut the power at every moment, under one model of what a disk keeps."""
    recorded = recording(crew)
    chosen = states.distinct(recorded, kind, limit)
    results = crew.map(_item(crew, state) for state in chosen)
    named = [
        {**result, "label": describe(recorded, chosen[at])} for at, result in enumerate(results)
    ]
    return _report(f"power cut, {kind}", named)


def mutants(crew: Crew, limit: int) -> Report:
    """Take each sync away in turn; at least one state must break, or the sync is idle."""
    recorded = recording(crew)
    labels = sorted({op.label for op in recorded.operations if isinstance(op, model.Sync)})
    verdicts = {label: _caught(crew, recorded, label, limit) for label in labels}
    uncaught = [
        f"without the sync of {label}: nothing broke" for label in labels if not verdicts[label]
    ]
    notes = [f"{label}: {', '.join(verdicts[label]) or 'NOT CAUGHT'}" for label in labels]
    return Report("sync mutants", len(labels), uncaught, notes)


def recording(crew: Crew) -> model.Model:
    """Record the run once; later calls read the same recording."""
    file = crew.path / "recording"
    if not file.exists():
        result = crew.ask({"kind": "record", "file": str(file)})
        if result["violations"]:
            raise ValueError(f"broken under strace: {result['violations']}")
    return model.load(file)


def points(number: int, sample: int | None) -> list[int]:
    """Return the calls to disturb: all of them, or a sample spread evenly."""
    if sample is None or sample >= number:
        return list(range(1, number + 1))
    return sorted({1 + index * (number - 1) // max(1, sample - 1) for index in range(sample)})


def describe(recorded: model.Model, state: model.State) -> str:
    """Say in words what a state has lost."""
    lost = [f"{index}: {_short(recorded.operations[index])}" for index in state.dropped]
    torn = f", torn {state.torn}" if state.torn else ""
    return f"power cut before {state.point}, lost {'; '.join(lost) or 'nothing'}{torn}"


def _caught(crew: Crew, recorded: model.Model, label: str, limit: int) -> list[str]:
    """Return the models under which the loss of a sync shows."""
    mutant = recorded.without(label)
    found: list[str] = []
    for kind in KINDS:
        chosen = states.beyond(recorded, mutant, kind, limit)
        results = crew.map([_item(crew, state) for state in chosen], stops=True)
        if any(result["violations"] for result in results):
            found.append(kind)
    return found


def _item(crew: Crew, state: model.State) -> dict[str, Any]:
    return {"kind": "state", "file": str(crew.path / "recording"), "state": state}


def _report(name: str, results: Sequence[dict[str, Any]]) -> Report:
    broken = [
        f"{result.get('label', '')}: {text}" for result in results for text in result["violations"]
    ]
    return Report(name, len(results), broken)


def _short(op: model.Operation) -> str:
    match op:
        case model.Entry(changes):
            return " ".join(f"{'-' if inode is None else '+'}{name}" for _, name, inode in changes)
        case model.Write(inode, offset, data):
            return f"{len(data)} bytes at {offset} of inode {inode}"
        case _:
            return str(op)[:60]
