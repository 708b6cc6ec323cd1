"""One run while it works: what was asked, where it stands, what it works with."""

import functools
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from msgspec import UNSET

from treadle.config.load import load
from treadle.config.schema import Config as Settings
from treadle.contract import EventType, RunStatus
from treadle.engine.run import memory, run_files
from treadle.engine.run.memory import EMPTY, Progress, RunMemory, Spent, Watch
from treadle.engine.run.order import Order
from treadle.errors import GitError
from treadle.git import refs
from treadle.git.repo import Repo
from treadle.git.settings import GitSettings
from treadle.git.workspace import Workspace
from treadle.ids import utc
from treadle.layout import Layout, RunLayout
from treadle.proc.keeper import Keeper
from treadle.project.context import Context
from treadle.sandbox.mask import Mask
from treadle.store.runs import Cursor, Event, History, RunRow
from treadle.store.store import Store
from treadle.text import line

_NAMED = 20


class Timeline:
    """The events of one run that wait for the next commit."""

    def __init__(self, last_seq: int, now: Callable[[], datetime], mask: Mask) -> None:
        self._last = last_seq
        self._now = now
        self._mask = mask
        self._pending: list[Event] = []

    def add(self, type_: EventType, message: str, **data: object) -> None:
        """Note what happened."""
        self._last += 1
        known = {key: _readable(self._mask.value(value)) for key, value in data.items()} or None
        text = readable(self._mask.text(message))
        self._pending.append(Event(self._last, utc(self._now()), type_, text, known))

    def take(self) -> tuple[Event, ...]:
        """Hand over what waits and begin anew."""
        events, self._pending = tuple(self._pending), []
        return events


def readable(text: str) -> str:
    """Escape what is not Unicode: names of files can be any bytes, JSON and the store cannot."""
    return text.encode(errors="backslashreplace").decode()


def name_some(paths: Sequence[str]) -> str:
    """Name the first twenty paths and count the rest; odd signs are written out."""
    shown = [line(path) for path in paths[:_NAMED]]
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(shown) + more


def _readable(value: object) -> object:
    if isinstance(value, str):
        return readable(value)
    return [_readable(item) for item in value] if isinstance(value, list) else value


_STEPS = """
    before_run_row after_run_row after_stage after_agent before_manifest before_sync before_rename
    after_rename before_branch after_branch after_workspace before_transaction after_transaction
    before_run_file after_run_file
"""
BOUNDARIES = tuple(_STEPS.split())

# The boundaries of moving a user's branch, by `land` and `undo`.
MOVES = ("after_intent", "after_move", "after_landed")

# The boundaries of ending a run.
ENDINGS = ("before_end", "before_release")

_die_at, _, _die_count = os.environ.get("TREADLE_DIE_AT", "").partition(":")
_passes_left = {_die_at: int(_die_count or 1)}


def reach(name: str) -> None:
    """Kill this process if somebody asked for it here."""
    if name not in _passes_left:
        return
    _passes_left[name] -= 1
    if _passes_left[name] == 0:
        os.kill(os.getpid(), signal.SIGKILL)


class Archive(NamedTuple):
    """Where a step's folder can be had by other machines, and the proof that it is whole."""

    key: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Tools:
    """What every run of one orchestrator shares."""

    project: Context
    store: Store
    keeper: Keeper
    git_settings: GitSettings
    now: Callable[[], datetime]
    interrupted: Callable[[], str | None]
    watch: Watch
    beginning: Lock = field(default_factory=Lock)  # one run at a time gets its id and ports
    landing: Lock = field(default_factory=Lock)  # one run at a time moves the user's branch
    worker: str | None = None  # who drives, if not this process on its own: a worker of the fleet

    @property
    def layout(self) -> Layout:
        """Return the project's paths."""
        return self.project.layout

    @property
    def repo(self) -> Repo:
        """Return the project's repository."""
        return self.project.repo

    def note(self, run_id: str, message: str) -> None:
        """Tell the onlooker something about a run."""
        self.watch(Progress(kind="note", run_id=run_id, message=message))

    @functools.cached_property
    def mask(self) -> Mask:
        """Return what takes the user's secrets out of texts and files."""
        return Mask(self.env)

    @functools.cached_property
    def today(self) -> Settings:
        """Return the configuration in force now, whatever a run began with."""
        return load(self.layout, self.env).config

    @property
    def env(self) -> Mapping[str, str]:
        """Return the environment treadle was started in."""
        return self.project.env


@dataclass(kw_only=True)
class Run:
    """The state that changes from step to step; it changes only when a commit is through."""

    tools: Tools
    order: Order
    row: RunRow
    folder: RunLayout
    timeline: Timeline
    workspace: Workspace
    tree: str
    memory: RunMemory = EMPTY
    recorded: list[Event] = field(default_factory=list)
    step_dirs: list[str] = field(default_factory=list)
    ignored: frozenset[str] = frozenset()  # files that git ignores, as last seen in the workspace
    claimed_at: float = field(default_factory=time.monotonic)
    given: dict[str, int] = field(default_factory=dict)  # the last letter each role was given
    is_settled: bool = False  # its end was told with its last step
    obstacle: GitError | None = None  # why it could not begin; raised once its end is told
    scratch: Path | None = None  # the folder for temporary files, once this step has made it

    @property
    def id(self) -> str:
        """Return the run's id."""
        return self.row.run_id

    @property
    def place(self) -> Path:
        """Return where the run's programs work."""
        return self.tools.layout.root if self.order.in_project else self.workspace.path

    @property
    def head(self) -> str:
        """Return the commit the run's branch stands on."""
        return self.row.head_commit or self.row.base_commit or ""

    @property
    def spent(self) -> Spent:
        """Return what the run has used, as its last commit says."""
        return self.memory.spent or Spent()

    def cursor(self, **changes: object) -> Cursor:
        """Return where the run stands, with changes."""
        return cursor_of(self.row, **changes)

    def advance(self, cursor: Cursor, kv: Mapping[str, object]) -> None:
        """Take over what was just committed."""
        self.row = self.row._replace(**cursor._asdict())
        self.memory = memory.apply(self.memory, kv)

    def record(self, cursor: Cursor | None = None, **remembered: Any) -> None:
        """Commit events that belong to no step: first into run.json, then into the store."""
        cursor = cursor or self.cursor()
        after = self.memory._replace(**remembered)
        events = self.timeline.take()
        row = self.row._replace(**cursor._asdict())
        self.recorded.extend(events)
        reach("before_run_file")
        kept = memory.encode(after)
        run_files.write_run(self.folder.run_json, self.order, row, self.recorded, kept)
        reach("after_run_file")
        history = History(events=events, kv=memory.changes(self.memory, after))
        self.tools.store.advance(self.id, history, cursor, self.row.claim_epoch)
        self.row, self.memory = row, after

    def end(self, status: RunStatus, reason: str, message: str, **remembered: Any) -> None:
        """Finish between two steps."""
        self.timeline.add(ENDS[status], message, reason_code=reason)
        ended = self.cursor(status=status, ended_at=utc(self.tools.now()))
        self.record(ended, reason_code=reason, reason=message, **remembered)


ENDS: dict[str, EventType] = {
    "passed": EventType.RUN_PASSED,
    "failed": EventType.RUN_FAILED,
    "stopped": EventType.RUN_STOPPED,
}


def cursor_of(row: RunRow, **changes: object) -> Cursor:
    """Return where a run stands, with changes."""
    now = Cursor(*(getattr(row, name) for name in Cursor._fields))
    return now._replace(**changes)  # type: ignore[arg-type]  # checked by _replace at run time


def lost_branch(run: Run) -> None:
    """Fail a run whose branch somebody else has moved."""
    where = refs.resolve(run.tools.repo, run.row.branch or "")
    run.timeline.add(
        EventType.BRANCH_MOVED,
        f"branch {run.row.branch} was moved by someone else; it stands on {where or 'nothing'}",
        branch=run.row.branch,
        found=where,
    )
    run.end("failed", "branch_moved", f"branch {run.row.branch} was moved by someone else")


def criteria_passed(run: Run) -> int:
    """Return how many criteria passed in the last check."""
    if run.row.verdict is None:
        return 0
    return len(run.order.criteria) - len(run.memory.failing)


def has_commands(order: Order) -> bool:
    """Tell whether every criterion can be observed by a command."""
    return all(item.verify is not UNSET for item in order.criteria)
