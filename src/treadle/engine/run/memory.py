"""What a run remembers from step to step, what people said to it, and how it is shown."""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

from treadle.contract import Role
from treadle.errors import BlockedError, NotFoundError
from treadle.files import atomic
from treadle.ids import utc
from treadle.layout import RunLayout
from treadle.store.runs import RunRow
from treadle.store.store import Reader, Store
from treadle.text import line, name_some, quoted

WAITS_FOR_APPROVAL = "protected_changed"  # the reason of a run that waits for a person's word
PROTECTED_DIFF = "protected.diff"
QUEUED = "queued"  # the reason of a run that waits for a worker
FLEET = "fleet"  # the key under which a run of the fleet has its ticket


class Spent(NamedTuple):
    """What a run has used so far; written with every step, so nothing can reset it."""

    minutes: float = 0.0
    tokens: int = 0
    cost_usd: float = 0.0
    output_mb: float = 0.0


class CheckSeen(NamedTuple):
    """What the last check looked at, and what failed."""

    tree: str
    failing: tuple[str, ...]


class SecondLook(NamedTuple):
    """Protected files that a passing run changed, and what fails with those of the base."""

    files: tuple[str, ...]
    failing: tuple[str, ...]
    is_observed: bool

    @property
    def sentence(self) -> str:
        """Say what the base's own files show."""
        if not self.is_observed:
            return "no command shows whether the work passes without these changes"
        if self.failing:
            verb = "fail" if len(self.failing) > 1 else "fails"
            return f"with these files as the base has them, {', '.join(self.failing)} {verb}"
        return "with these files as the base has them the commands pass too"


class ProtectedChange(NamedTuple):
    """What is kept of a second look: which tree it was about, and what it showed."""

    files: tuple[str, ...]
    failing: tuple[str, ...]
    sentence: str
    tree: str
    diff: str
    refused: bool = False

    @property
    def names(self) -> str:
        """Name the first twenty files."""
        return name_some(self.files)

    @property
    def note(self) -> str:
        """Tell the next agents that a change of protected files was not accepted."""
        if not self.refused:
            return ""
        return (
            f"Not accepted: the commands pass only because of changes to {self.names}, which"
            " decide what they check. Put these files back as they were and make the commands pass"
            f" with them; the difference is in {self.diff}"
        )


class Move(NamedTuple):
    """A branch of the user that is about to go from `old` to `commit`, to `land` or to `undo`."""

    what: str
    branch: str
    old: str
    commit: str


class Moved(NamedTuple):
    """A branch of the user that has gone from `old` to `commit`."""

    branch: str
    old: str
    commit: str
    at: str = ""


class LandRefusal(NamedTuple):
    """Why no branch of the user was moved."""

    what: str
    code: str | None
    message: str
    fix: tuple[str, ...] = ()


class ClashNote(NamedTuple):
    """Another run that cannot be merged with this one, as both stood then."""

    run_id: str
    head: str
    other_head: str | None
    files: tuple[str, ...] = ()


class ClaimCount(NamedTuple):
    """How often workers of the fleet took a run after a step, this time included."""

    step_index: int
    claims: int


class RunMemory(NamedTuple):
    """Everything a run remembers; `others` is what other topics keep with it, as they wrote it."""

    port_base: int | None = None
    stacked_on: str | None = None
    lands: bool = False  # whether it lands without being asked once it passes
    set_up: bool = False
    spent: Spent | None = None
    failing: tuple[str, ...] = ()
    refuted: tuple[str, ...] = ()
    last_check: CheckSeen | None = None
    protected: ProtectedChange | None = None
    letters_given: Mapping[str, int] = {}  # the last letter each role was given
    reason_code: str | None = None
    reason: str | None = None
    budget_needed: str | None = None
    resume_at: str | None = None
    stop_requested: str | None = None
    landing: Move | None = None
    landed: Moved | None = None
    undone: Moved | None = None
    land_refused: LandRefusal | None = None
    weather: tuple[ClashNote, ...] = ()
    push_refused: str | None = None
    tries: ClaimCount | None = None
    others: Mapping[str, object] = {}

    @property
    def is_of_fleet(self) -> bool:
        """Tell whether workers of the fleet drive the run."""
        return FLEET in self.others

    @property
    def landed_commit(self) -> str | None:
        """Return the commit in which the work is in the user's branch, unless it was undone."""
        return self.landed.commit if self.landed and not self.undone else None

    @property
    def landing_words(self) -> list[str]:
        """Return a line for each thing that happened to the work after the run."""
        found = []
        if self.landed:
            found.append(f"landed as {self.landed.commit[:12]} on {self.landed.branch}")
        if self.undone:
            found.append(f"undone by {self.undone.commit[:12]} on {self.undone.branch}")
        if self.land_refused:
            found.append(f"{self.land_refused.what} was refused: {self.land_refused.message}")
        return found

    @property
    def protected_words(self) -> str | None:
        """Say which protected files the run changed, and what the base's own ones show."""
        found = self.protected
        return f"{found.names}: {found.sentence}" if found and found.files else None


_RECORDS: Mapping[str, Any] = {
    "spent": Spent,
    "last_check": CheckSeen,
    "protected": ProtectedChange,
    "landing": Move,
    "landed": Moved,
    "undone": Moved,
    "land_refused": LandRefusal,
    "tries": ClaimCount,
}
EMPTY = RunMemory()


def recall(store: Reader, run_id: str) -> RunMemory:
    """Return what a run remembers."""
    return decode(store.kv(run_id))


def decode(kv: Mapping[str, object]) -> RunMemory:
    """Read what a run remembers; a value that is not what it should be counts as forgotten."""
    known: dict[str, Any] = {
        name: _decoded(name, kv[name]) for name in RunMemory._fields[:-1] if name in kv
    }
    others = {key: value for key, value in kv.items() if key not in known}
    return EMPTY._replace(
        **{name: value for name, value in known.items() if value is not None}, others=others
    )


def encode(memory: RunMemory) -> dict[str, object]:
    """Return it as the store and run.json keep it."""
    found = changes(EMPTY, memory)
    return {key: value for key, value in found.items() if value is not None}


def changes(before: RunMemory, after: RunMemory) -> dict[str, object]:
    """Return what is to be stored so that a run remembers `after`; None removes a key."""
    fields = zip(RunMemory._fields[:-1], before, after, EMPTY, strict=False)
    found: dict[str, object] = {
        name: None if new == empty else _plain(new)
        for name, old, new, empty in fields
        if old != new
    }
    for key in {**before.others, **after.others}:
        if before.others.get(key) != after.others.get(key):
            found[key] = after.others.get(key)
    return found


def apply(before: RunMemory, kv: Mapping[str, object]) -> RunMemory:
    """Return what a run remembers once these values are stored; None removes one."""
    found = {**encode(before), **kv}
    return decode({key: value for key, value in found.items() if value is not None})


def _decoded(name: str, value: object) -> object:
    if name in _RECORDS:
        return _record(_RECORDS[name], value)
    if name == "weather":
        notes = value if isinstance(value, list) else []
        return tuple(note for item in notes if (note := _record(ClashNote, item)))
    if name == "stop_requested":
        return str(value.get("reason")) if isinstance(value, dict) else value
    if isinstance(value, list):
        return tuple(map(str, value))
    return value


def _record(kind: Any, value: object) -> Any:
    if not isinstance(value, dict):
        return None
    fields = {key: value[key] for key in value if key in kind._fields}
    try:
        return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()})
    except TypeError:
        return None


def _plain(value: Any) -> Any:
    """Return a record as a mapping, several values as a list."""
    if hasattr(value, "_asdict"):
        return {key: _plain(item) for key, item in value._asdict().items()}
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def is_queued(row: RunRow, memory: RunMemory) -> bool:
    """Tell whether a run waits for a worker of the fleet."""
    return row.status == "stopped" and memory.reason_code == QUEUED


def next_commands(row: RunRow, memory: RunMemory) -> tuple[str, ...]:
    """Return what a user would do now, as literal commands."""
    run_id, code = row.run_id, memory.reason_code
    if row.status == "running":
        return (f"treadle log -f {run_id}", f"treadle stop {run_id}")
    if row.status == "passed":
        return _commands_after_pass(row, memory)
    again = f"treadle run {row.task_id}" if row.task_id else "treadle run --goal …"
    go_on = f"treadle run --resume {run_id}"
    if row.status == "failed":
        return (f"treadle runs show {run_id}", again)
    if code == QUEUED:
        return (f"treadle log -f {run_id}", "treadle fleet status", f"treadle stop {run_id}")
    if code == "budget_exceeded":
        return (f"{go_on} --budget {memory.budget_needed}",)
    if code == WAITS_FOR_APPROVAL and memory.protected:
        return (f"cat {memory.protected.diff}", f"{go_on} --approve protected", go_on)
    if code == "no_progress":
        return (f"{go_on} --agent act=NAME", again)
    return (go_on,)


def _commands_after_pass(row: RunRow, memory: RunMemory) -> tuple[str, ...]:
    if landed := memory.landed_commit:
        return (f"git show {landed[:12]}", f"treadle undo {row.run_id}")
    look = f"git diff {(row.base_commit or '')[:12]}..{row.branch}"
    return (look, f"treadle land {row.run_id}")


def due_runs(store: Reader, now: datetime) -> list[RunRow]:
    """Return the stopped runs whose usage limit is over by now, oldest first."""
    found = (store.run(run_id) for run_id in store.runs_with_key("resume_at"))
    stopped = [row for row in found if row and row.status == "stopped"]
    return [row for row in stopped if str(store.kv_value(row.run_id, "resume_at")) <= utc(now)]


class Clash(NamedTuple):
    """Two runs whose branches cannot be merged, and where."""

    runs: tuple[str, str]
    files: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Say it to the user."""
        one, other = self.runs
        return f"runs {one} and {other} would conflict in {', '.join(self.files)}"


def clashes(store: Reader, rows: Iterable[RunRow]) -> list[Clash]:
    """Return the conflicts that these runs noted and that still stand."""
    return [
        Clash((note.run_id, row.run_id), note.files)
        for row in rows
        for note in recall(store, row.run_id).weather
        if may_land(store, row) and _still_stands(store, row, note)
    ]


def may_land(store: Reader, row: RunRow) -> bool:
    """Tell whether a run has work that may still land."""
    if row.status == "failed" or row.head_commit == row.base_commit:
        return False
    return recall(store, row.run_id).landed_commit is None


def _still_stands(store: Reader, row: RunRow, note: ClashNote) -> bool:
    other = store.run(note.run_id)
    return (
        other is not None
        and row.head_commit == note.head
        and other.head_commit == note.other_head
        and may_land(store, other)
    )


Moment = Literal["run", "step", "tick", "committed", "ended", "note"]


class Progress(NamedTuple):
    """One moment of a run."""

    kind: Moment
    run_id: str
    message: str = ""
    role: Role | None = None
    iteration: int = 0
    max_iterations: int = 0
    elapsed: float = 0.0
    passed: int = 0
    total: int = 0


Watch = Callable[[Progress], None]


def nobody(_: Progress) -> None:
    """Look away."""


_COMMENT_KEY = "comment."
_MAX_COMMENT = 8 << 10
_INTRODUCTION = "Comments of a person on earlier changes; answer each of them with this change:"


class Comment(NamedTuple):
    """One remark; without a path it is about the whole step."""

    at: str
    step_index: int
    text: str
    path: str | None = None
    line: int | None = None

    @property
    def place(self) -> str:
        """Say what it is about."""
        where = f", {self.path}" if self.path else ""
        return f"step {self.step_index}{where}{f' line {self.line}' if self.line else ''}"


def add_comment(store: Store, folder: RunLayout, row: RunRow, comment: Comment) -> None:
    """Leave a comment for the next act step of a run that can still have one."""
    if row.status in ("passed", "failed"):
        text = f"run {row.run_id} has {row.status}: no further act step will read a comment"
        raise BlockedError(text, code="run_over", fix=["treadle run --goal GOAL"])
    if not any(step.step_index == comment.step_index for step in store.steps(row.run_id)):
        text = f"run {row.run_id} has no step {comment.step_index}"
        raise NotFoundError(text, fix=[f"treadle runs show {row.run_id}"])
    value = comment._replace(text=comment.text[:_MAX_COMMENT])._asdict()
    if folder.folder.is_dir():  # a run of the fleet may have none here
        atomic.append(folder.comments, json.dumps(value).encode() + b"\n")
        atomic.sync(folder.comments)
    store.leave(row.run_id, f"{_COMMENT_KEY}{comment.at}", value)


def kept_comments(folder: RunLayout) -> dict[str, object]:
    """Return the comments as the run's folder has them, for a store that lost them."""
    try:
        lines = folder.comments.read_bytes().splitlines()
        found: list[dict[str, object]] = [json.loads(item) for item in lines]
    except (OSError, ValueError):
        return {}
    return {f"{_COMMENT_KEY}{item.get('at')}": item for item in found}


def comments_of(kv: Mapping[str, object]) -> list[Comment]:
    """Return what was said about a run's steps, in order."""
    found = [value for key, value in sorted(kv.items()) if key.startswith(_COMMENT_KEY)]
    return [Comment(**value) for value in found if isinstance(value, dict)]


def unheard_comments(store: Reader, run_id: str) -> list[Comment]:
    """Return what was said since the last act step began."""
    acts = [step.started_at for step in store.steps(run_id) if step.role == "act"]
    return [item for item in comments_of(store.kv(run_id)) if item.at > max(acts, default="")]


def comment_notes(store: Reader, run_id: str) -> str:
    """Return what the next act step is told, or nothing."""
    found = [
        f"On {line(item.place)}:\n{quoted(item.text, _MAX_COMMENT)}"
        for item in unheard_comments(store, run_id)
    ]
    return "\n\n".join([_INTRODUCTION, *found]) if found else ""
