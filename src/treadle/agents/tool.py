"""What oneshot needs to know about one command-line tool."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from treadle.agents.backend import AgentSpec, Usage
from treadle.contract.role import Role

Event = Mapping[str, object]

_COUNTABLE = 2**53


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One call of a tool: who asks, in which role, and which conversation goes on."""

    spec: AgentSpec
    role: Role
    step_dir: Path
    state: Path
    scratch: Path
    edits: bool
    session: str
    resume: str | None = None

    @property
    def is_held(self) -> bool:
        """Tell whether treadle's own sandbox holds the tool, so that the tool's can be off."""
        return self.spec.tier in ("A", "B")

    @property
    def roots(self) -> tuple[Path, ...]:
        """Return where changes are wanted."""
        return (self.step_dir, self.spec.workspace) if self.edits else (self.step_dir,)

    def model(self, flag: str) -> tuple[str, ...]:
        """Return the words that choose the model, if one is configured."""
        return (flag, self.spec.config.model) if self.spec.config.model else ()


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How to start the tool; `files` are written to its state folder before."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


class Note(NamedTuple):
    """One event of a tool in a few words, for whoever watches, and what it adds to the turn."""

    kind: str
    text: str
    usage: Usage | None = None
    structured: object = None
    status: int | None = None
    is_part: bool = False  # of a text that goes on with the next note


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One tool: its names for things, and the functions that know its ways.

    `home` is where it keeps its state unless `state_variable` says otherwise, `logins` are
    files in there, `tokens` the fields in them that a refresh changes; `variables` reach it,
    `keys` among them make a login needless; `cumulative` names the counters that go on counting
    when a conversation goes on; `spent` finds the numbers of a tool that does not tell them in
    its events.
    """

    name: str
    home: str
    state_variable: str
    launch: Callable[[Ask], Launch]
    tell: Callable[[Event], Iterator[Note]]
    spent: Callable[[Ask], Usage | None] | None = None
    variables: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    logins: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    cumulative: tuple[str, ...] = ()
    log_in: str = ""


def counted(value: object, given: str, cached: str, made: str) -> Usage:
    """Return the tokens that stand under these names."""
    return Usage(
        input_tokens=number_at(value, given),
        cached_tokens=number_at(value, *cached.split(".")),
        output_tokens=number_at(value, made),
    )


def done(usage: Usage, structured: object = None) -> Note:
    """Say that the tool has finished its turn, and what that took."""
    words = f"{usage.input_tokens} tokens in, {usage.output_tokens} out"
    return Note("done", words, usage=usage, structured=structured)


def overlay(given: str | None, settings: Mapping[str, object]) -> str:
    """Lay settings over the user's own JSON; what is none is left for the tool to refuse."""
    try:
        own = json.loads(given or "{}")
    except ValueError:
        return str(given)
    return json.dumps({**own, **settings}) if isinstance(own, dict) else str(given)


def at(value: object, *path: str | int) -> object:
    """Follow keys into parsed JSON; None where there is nothing."""
    for key in path:
        if isinstance(value, Mapping):
            value = value.get(str(key))
        elif isinstance(value, list) and isinstance(key, int) and -len(value) <= key < len(value):
            value = value[key]
        else:
            return None
    return value


def text_at(value: object, *path: str | int) -> str:
    """Return the text at a path, or an empty one."""
    found = at(value, *path)
    return found if isinstance(found, str) else ""


def number_at(value: object, *path: str | int) -> int:
    """Return the whole number at a path, or 0."""
    return int(money_at(value, *path))


def money_at(value: object, *path: str | int) -> float:
    """Return the amount at a path, or 0; what a double cannot count is none."""
    found = at(value, *path)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return 0.0
    return float(found) if abs(found) < _COUNTABLE else 0.0


def items_at(value: object, *path: str | int) -> list[object]:
    """Return the list at a path, or an empty one."""
    found = at(value, *path)
    return found if isinstance(found, list) else []
