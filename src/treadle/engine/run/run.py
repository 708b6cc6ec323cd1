"""One run while it works: what was asked, where it stands, what it works with."""

import functools
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from msgspec import Struct, field

from treadle.config.load import load
from treadle.config.schema import Config as Settings
from treadle.config.trust import known_projects
from treadle.contract import RunStatus
from treadle.contract.events import EventType, NewEvent
from treadle.engine.run import memory, run_files
from treadle.engine.run.memory import EMPTY, Move, Progress, RunMemory, Spent, Watch
from treadle.engine.run.order import Order
from treadle.engine.run.run_files import RunFile
from treadle.errors import GitError
from treadle.git import refs
from treadle.git.repo import GitSettings, Repo
from treadle.git.workspace import Workspace
from treadle.ids import utc
from treadle.layout import Layout, RunLayout
from treadle.proc.keeper import Keeper
from treadle.project.context import Context
from treadle.sandbox.mask import Mask
from treadle.store.runs import Cursor, Event, History, RunRow, UsageRow
from treadle.store.store import Store


def readable(text: str) -> str:
    """Escape what is not Unicode: names of files can be any bytes, JSON and the store cannot."""
    return text.encode(errors="backslashreplace").decode()


def _readable(value: object) -> object:
    if isinstance(value, str):
        return readable(value)
    return [_readable(item) for item in value] if isinstance(value, list) else value


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


class Tools(Struct, frozen=True, kw_only=True, dict=True):
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
    counted: dict[str, float] = field(default_factory=dict)  # what steps at work cost, by run
    # Tells of a run whose tool is down whether there is other work, so that it need not wait here.
    gives_way: Callable[[str], bool] = lambda run_id: False
    moves: list[Move] = field(default_factory=list)  # of the user's branches, made or under way

    @property
    def layout(self) -> Layout:
        """Return the project's paths."""
        return self.project.layout

    @property
    def repo(self) -> Repo:
        """Return the project's repository."""
        return self.project.repo

    def note(self, run_id: str, message: str, name: str | None = None) -> None:
        """Tell the onlooker something about a run; `name` is what it works on, if that is new."""
        self.watch(Progress(kind="note", run_id=run_id, message=message, name=name))

    @functools.cached_property
    def mask(self) -> Mask:
        """Return what takes the user's secrets out of texts and files."""
        return Mask(self.project.secrets)

    @functools.cached_property
    def today(self) -> Settings:
        """Return the configuration in force now, whatever a run began with."""
        return load(self.layout, self.env).config

    @functools.cached_property
    def neighbours(self) -> tuple[Layout, ...]:
        """Return the other projects of the repository, which no run of this one may disturb."""
        own, top = self.layout.shared, self.repo.root
        found = [root for root in known_projects(self.env) if root != own]
        return tuple(Layout(root) for root in found if root.is_relative_to(top))

    @property
    def env(self) -> Mapping[str, str]:
        """Return the environment treadle was started in."""
        return self.project.env


class Run(Struct, kw_only=True):
    """The state that changes from step to step; it changes only when a commit is through."""

    tools: Tools
    order: Order
    row: RunRow
    folder: RunLayout
    workspace: Workspace
    tree: str
    last_seq: int = 0  # of the events that are committed
    memory: RunMemory = EMPTY
    recorded: list[Event] = field(default_factory=list)
    step_dirs: list[str] = field(default_factory=list)
    ignored: frozenset[str] = frozenset()  # files that git ignores, as last seen in the workspace
    claimed_at: float = field(default_factory=time.monotonic)
    obstacle: GitError | None = None  # why it could not begin; raised once its end is told
    counted: object = None  # what the step at work has used, as it was last kept

    @property
    def id(self) -> str:
        """Return the run's id."""
        return self.row.run_id

    @property
    def name(self) -> str | None:
        """Return what an onlooker calls it: its task, and by whom if several do the same."""
        own, trial = self.order.name, self.memory.trial
        return f"{own or self.order.goal} by {trial.agent}" if trial else own

    @property
    def place(self) -> Path:
        """Return where the run's programs work."""
        return self.tools.layout.root if self.order.in_project else self.inside(self.workspace.path)

    def inside(self, checkout: Path) -> Path:
        """Return the project's folder in a checkout of the repository."""
        return checkout / self.tools.repo.prefix

    @property
    def bounds(self) -> str:
        """Return the folder of the repository that its changes must stay in; none for all of it."""
        prefix = self.tools.repo.prefix
        return "" if prefix and self.tools.today.project.outside == "allow" else prefix

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

    def events(
        self, happened: Iterable[NewEvent], before: Sequence[Event] = ()
    ) -> tuple[Event, ...]:
        """Give what happened now its place in the timeline, without the user's secrets."""
        at, mask, first = utc(self.tools.now()), self.tools.mask, self.last_seq + len(before) + 1
        return tuple(
            Event(
                seq,
                at,
                type_,
                readable(mask.text(message)),
                {key: _readable(mask.value(value)) for key, value in data.items()} or None,
            )
            for seq, (type_, message, data) in enumerate(happened, first)
        )

    def renumbered(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """Give events of a step their places anew, behind what was recorded meanwhile."""
        first = self.last_seq + 1
        return tuple(event._replace(seq=seq) for seq, event in enumerate(events, first))

    def record(
        self,
        *happened: NewEvent,
        cursor: Cursor | None = None,
        usage: Sequence[UsageRow] = (),
        **remembered: Any,
    ) -> None:
        """Commit what belongs to no step: first into run.json, then into the store."""
        cursor = cursor or self.cursor()
        after = self.memory._replace(**remembered)
        events = self.events(happened)
        row = self.row._replace(**cursor._asdict())
        reach("before_run_file")
        found = RunFile(self.order, row, [*self.recorded, *events], memory.encode(after))
        run_files.write_run(self.folder.run_json, found)
        reach("after_run_file")
        history = History(events=events, kv=memory.changes(self.memory, after), usage=usage)
        self.tools.store.advance(self.id, history, cursor, self.row.claim_epoch)
        self.row, self.memory = row, after
        self.recorded.extend(events)
        self.last_seq += len(events)

    def end(
        self, status: RunStatus, reason: str, message: str, *happened: NewEvent, **remembered: Any
    ) -> None:
        """Finish between two steps."""
        ended = self.cursor(status=status, ended_at=utc(self.tools.now()))
        event = NewEvent(ENDS[status], message, {"reason_code": reason})
        self.record(
            *happened, event, cursor=ended, reason_code=reason, reason=message, **remembered
        )


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
    branch, found = run.row.branch, refs.resolve(run.tools.repo, run.row.branch or "")
    text = f"branch {branch} was moved by someone else"
    where = {"branch": branch, "found": found}
    moved = NewEvent(EventType.BRANCH_MOVED, f"{text}; it stands on {found or 'nothing'}", where)
    run.end("failed", "branch_moved", text, moved)
