"""What a run remembers from step to step, and how it is shown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from treadle.contract import Role, follows
from treadle.contract.events import StepError
from treadle.errors import argument
from treadle.ids import OWN_PREFIX, utc
from treadle.store.runs import RunRow, StepRow
from treadle.store.store import Reader
from treadle.tasks import lanes, tries
from treadle.tasks.tries import TRIAL, Trial
from treadle.text import name_some

WAITS_FOR_APPROVAL = "protected_changed"  # the reason of a run that waits for a person's word
ALREADY_TRUE = "already_true"  # the reason of a run that had nothing to do
CHECK_BROKEN = str(StepError.CHECK_BROKEN)  # the reason of a run whose checks cannot run
PROTECTED_DIFF = "protected.diff"
HELD_DIFF = "held.diff"
PLAN_WAITS = "plan_waits"  # the reason of a run whose plan a person wants to see first
SUPERSEDED = "superseded"  # the reason of one of several runs when another has landed
NIGHT_LIMIT = "night_limit"  # the reason of a run that waits for the next day
OVER_BUDGET = ("budget_exceeded", NIGHT_LIMIT)
# What a rebase takes out of the way of a landing.
TO_REBASE = ("merge_conflict", "checks_failed")
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


class Held(NamedTuple):
    """What waits for a person's word: a change that is kept as a commit, or a plan.

    `file` has the diff or the plan, `mark` is the tree or the digest of the plan.
    """

    what: Literal["change", "plan"]
    role: Role
    file: str
    mark: str
    why: str = ""
    commit: str = ""
    base: str = ""
    rejected: bool = False

    @property
    def look(self) -> str:
        """Return the command that shows it."""
        if self.what == "plan":
            return f"cat {argument(self.file)}"
        return f"git diff {self.base[:12]} {self.commit[:12]}"

    @property
    def note(self) -> str:
        """Tell the next agents that it was not accepted."""
        if not self.rejected:
            return ""
        why = f" ({self.why})" if self.why else ""
        return f"Not accepted: the last {self.what}{why}; it is in {self.file}. Find another way."


class Move(NamedTuple):
    """A branch that is about to go from `old` to `commit`, to `land`, to `undo` or to `rebase`.

    A rebased run's own branch goes to a commit on `base`, with conflicts in `files`.
    """

    what: str
    branch: str
    old: str
    commit: str
    base: str = ""
    files: tuple[str, ...] = ()
    by_hand: bool = False


class Moved(NamedTuple):
    """A branch of the user that has gone from `old` to `commit`, or had the work `by_hand`."""

    branch: str
    old: str
    commit: str
    at: str = ""
    by_hand: bool = False


class Pull(NamedTuple):
    """The pull request of a run: the branch here and its `name` there, with what `head` had."""

    branch: str
    name: str
    head: str
    url: str
    number: int
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
    stacked_on: tuple[str, ...] = ()  # the runs whose unlanded work it began on, lowest first
    trial: Trial | None = None  # whether it is one of several side by side
    lands: bool = False  # whether it lands without being asked once it passes
    set_up: bool = False
    setup_left: tuple[str, ...] = ()  # what it made that the project does not ignore
    spent: Spent | None = None
    failing: tuple[str, ...] = ()
    refuted: tuple[str, ...] = ()
    last_check: CheckSeen | None = None
    ahead: tuple[Role, ...] = ()  # whose turns come before the wheel goes on as usual
    protected: ProtectedChange | None = None
    held: Held | None = None
    plan: str | None = None  # as a person wrote it
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
    pull: Pull | None = None
    weather: tuple[ClashNote, ...] = ()
    push_refused: str | None = None
    tries: ClaimCount | None = None
    others: Mapping[str, object] = {}

    @property
    def is_of_fleet(self) -> bool:
        """Tell whether workers of the fleet drive the run."""
        return FLEET in self.others

    @property
    def waiting(self) -> Held | None:
        """Return what a person can still approve."""
        return self.held if self.held and not self.held.rejected else None

    @property
    def landed_commit(self) -> str | None:
        """Return the commit in which the work is in the user's branch, unless it was undone."""
        return self.landed.commit if self.landed and not self.undone else None

    def aside(self, row: RunRow) -> str | None:
        """Return the branch of its own on which the work landed, if not where the run began."""
        name = self.landed.branch if self.landed and self.landed_commit else ""
        return name if name != row.base_branch and name.startswith(OWN_PREFIX) else None

    @property
    def landing_words(self) -> list[str]:
        """Return a line for each thing that happened to the work after the run."""
        found = []
        if self.landed:
            found.append(f"landed as {self.landed.commit[:12]} on {self.landed.branch}")
        if self.undone:
            found.append(f"undone by {self.undone.commit[:12]} on {self.undone.branch}")
        if self.pull:
            found.append(f"offered as {self.pull.url}")
        if self.land_refused:
            found.append(f"{self.land_refused.what} was refused: {self.land_refused.message}")
        return found

    @property
    def protected_words(self) -> str | None:
        """Say which protected files the run changed, and what the base's own ones show."""
        found = self.protected
        return f"{found.names}: {found.sentence}" if found and found.files else None


_RECORDS: Mapping[str, Any] = {
    TRIAL: Trial,
    "spent": Spent,
    "last_check": CheckSeen,
    "protected": ProtectedChange,
    "held": Held,
    "landing": Move,
    "landed": Moved,
    "undone": Moved,
    "land_refused": LandRefusal,
    "pull": Pull,
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
    if name == "stacked_on" and isinstance(value, str):
        return (value,)
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


def next_role(steps: Sequence[StepRow]) -> Role:
    """Return whose turn it is after these steps; one that failed is repeated, unless its work
    was taken over.
    """
    if not steps:
        return "plan"
    last = steps[-1]
    is_lost = last.status == "fail" and last.before_commit == last.after_commit
    return last.role if is_lost else follows(last.role)


def is_queued(row: RunRow, memory: RunMemory) -> bool:
    """Tell whether a run waits for a worker of the fleet."""
    return row.status == "stopped" and memory.reason_code == QUEUED


def word(row: RunRow, memory: RunMemory) -> str:
    """Return how a person is told that a run stands."""
    return QUEUED if is_queued(row, memory) else row.status


def next_commands(row: RunRow, memory: RunMemory) -> tuple[str, ...]:
    """Return what a user would do now, as literal commands."""
    run_id, code = row.run_id, memory.reason_code
    if row.status == "running":
        return (f"treadle log -f {run_id}", f"treadle stop {run_id}")
    if row.status == "passed":
        return _commands_after_pass(row, memory)
    if code == SUPERSEDED:
        return (f"treadle compare {run_id}" if memory.trial else "treadle spec list",)
    go_on = f"treadle run --resume {run_id}"
    if code == QUEUED:
        return (f"treadle log -f {run_id}", "treadle fleet status", f"treadle stop {run_id}")
    if held := memory.waiting:
        return (held.look, f"{go_on} --approve {held.what}", f"{go_on} --reject")
    if code in OVER_BUDGET and memory.budget_needed:
        return (f"{go_on} --budget {memory.budget_needed}",)
    if code == WAITS_FOR_APPROVAL and memory.protected:
        approve, reject = f"{go_on} --approve protected", f"{go_on} --reject"
        return (f"cat {memory.protected.diff}", approve, reject)
    if code == CHECK_BROKEN:
        return (go_on, f"{go_on} --anyway")
    if code == "branch_moved":
        return (f"git branch -f {row.branch} {(row.head_commit or '')[:12]}", go_on)
    return (go_on, *((command,) if (command := again(row)) else ()))


def again(row: RunRow) -> str | None:
    """Return the command that begins anew with what a run was asked; None for a message's run.

    The inbox counts the attempts of a message, and begins them.
    """
    if row.message_id:
        return None
    return f"treadle run {row.task_id or f'--again {row.run_id}'}"


def _commands_after_pass(row: RunRow, memory: RunMemory) -> tuple[str, ...]:
    if memory.landed_commit and (told := memory.land_refused) and told.code == "merge_conflict":
        return told.fix
    if landed := memory.landed_commit:
        return (f"git show {landed[:12]}", f"treadle undo {row.run_id}")
    if memory.reason_code == ALREADY_TRUE:
        return (f"treadle report {row.run_id}",)
    if memory.reason_code == SUPERSEDED:
        return (f"treadle compare {row.run_id}",)
    look = f"git diff {(row.base_commit or '')[:12]}..{row.branch}"
    if memory.trial:
        look = f"treadle compare {row.run_id}"
    if (refused := memory.land_refused) and refused.code in TO_REBASE:
        return (look, *(way for way in refused.fix if way.startswith("treadle ")))
    is_closed = not row.base_branch or (refused and refused.code == "protected_branch")
    return (look, f"treadle land {row.run_id}{' --branch' if is_closed else ''}")


def is_over(store: Reader, row: RunRow) -> bool:
    """Tell whether nobody goes on with a run: it has passed, or its task is done without it."""
    task = store.task(row.task_id) if row.task_id else None
    is_done = task is not None and task.lane in (*lanes.REVIEW, *lanes.FINAL)
    is_superseded = recall(store, row.run_id).reason_code == SUPERSEDED
    return row.status == "passed" or is_superseded or (is_done and not tries.beside(store, row))


def due_runs(store: Reader, now: datetime) -> list[RunRow]:
    """Return the stopped runs whose usage limit is over by now, oldest first."""
    found = (store.run(run_id) for run_id in store.runs_with_key("resume_at"))
    stopped = [row for row in found if row and row.status == "stopped" and not is_over(store, row)]
    return [row for row in stopped if str(recall(store, row.run_id).resume_at) <= utc(now)]


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
    known = recall(store, row.run_id)
    return not known.landed_commit and not (known.trial and tries.successor(store, row))


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
    name: str | None = None  # of the task or spec, if it is known here


Watch = Callable[[Progress], None]


def nobody(_: Progress) -> None:
    """Look away."""
