"""What is known of a message and what can be done about it; what a pass works with and for."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct

from treadle.config.schema import Config
from treadle.engine.landing import tracker
from treadle.engine.run.memory import Progress
from treadle.engine.run.order import Order
from treadle.engine.run.run import Tools
from treadle.errors import TreadleError
from treadle.git import repo, trees
from treadle.ids import utc
from treadle.inbox import routine, specs
from treadle.inbox.message import Message, Understood
from treadle.inbox.routine import Choice, Host
from treadle.inbox.specs import Spec
from treadle.layout import Layout
from treadle.store.messages import MessageRow
from treadle.store.runs import RunRow
from treadle.store.store import Reader
from treadle.tasks.questions import Question

# A message with one of these is not over: its file in the inbox is the message itself.
OPEN = ("waiting", "stopped", "refused", "held")


class InboxView(NamedTuple):
    """What is looked at: a project's files, its configuration, its store, and when."""

    layout: Layout
    config: Config
    store: Reader
    now: str
    listed: frozenset[str] | None = None  # finished specs, where the checkout's list is another's

    @property
    def processed(self) -> Collection[str]:
        """Return the specs that are finished on the branch that is worked for."""
        return specs.processed(self.layout) if self.listed is None else self.listed


class Known(NamedTuple):
    """A message with the bytes of its file; the row of a new one is not stored yet."""

    path: Path
    data: bytes
    said: Understood
    row: MessageRow
    is_new: bool = False

    @property
    def message(self) -> Message:
        """Return what the file says."""
        return self.said.message


class ReadyMessage(NamedTuple):
    """A message whose spec and routine were found, and what a person said to it."""

    known: Known
    spec: Spec | None
    choice: Choice
    words: str | None = None

    @property
    def text(self) -> str:
        """Return what is to be done, in words."""
        return self.spec.text if self.spec else self.known.message.text

    @property
    def spec_name(self) -> str | None:
        """Return the spec that is done when the message is; other files are not listed."""
        spec, asked = self.spec, self.known.message.input_file
        return spec.name if spec and asked == specs.path_of(spec.name) else None


class Try(NamedTuple):
    """A run of a message, as far as a decision depends on it."""

    run_id: str
    state: Literal[
        "passed", "refused", "failed", "stopped", "cut off", "queued", "running", "not begun"
    ]
    reason: str = ""


class Bury(NamedTuple):
    """Make a dead letter of it."""

    error: TreadleError


class PutAside(NamedTuple):
    """Put a second delivery beside the first."""


class Wait(NamedTuple):
    """Leave it: a human, a worker or another process has the next word, as `look` may say."""

    status: Literal["stopped", "refused", "held", "queued", "interrupted", "spent", "down"]
    reason: str
    fix: str | None = None
    look: tuple[str, ...] = ()


class AskFirst(NamedTuple):
    """Ask a human whether it may be carried out."""

    question: Question


class Proceed(NamedTuple):
    """Run its routine, go on with a run that was cut off, or land the run that passed."""

    how: Literal["run", "resume", "land"]
    run_id: str = ""


Action = Bury | PutAside | Wait | AskFirst | Proceed


class Decided(NamedTuple):
    """What is to be done about a message, and what that follows from."""

    action: Action
    row: MessageRow | None = None
    tries: tuple[Try, ...] = ()
    job: ReadyMessage | None = None


# Lets a worker drive a run, and returns the row it waits under.
Submit = Callable[[Order], RunRow]


class Scope(NamedTuple):
    """What a pass is limited to: these specs and messages alone, specs that nobody writes to."""

    only: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    still: float = 0.0
    fail_fast: bool = False
    parallel: int = 1

    @property
    def is_limited(self) -> bool:
        """Tell whether something is named that alone is carried out."""
        return bool(self.only or self.messages)


ALL = Scope()


class Work(Struct):
    """What messages are carried out with, and what the next run builds on.

    It is done for the branch that was checked out when it began, whatever is checked out later.
    """

    tools: Tools
    config: Config
    submit: Submit | None
    scope: Scope
    branch: str | None
    below: RunRow | None = None
    failed_hook: str | None = None
    _listed: frozenset[str] | None = None

    @property
    def view(self) -> InboxView:
        """Return what decisions are made from."""
        tools = self.tools
        return InboxView(tools.layout, self.config, tools.store, utc(tools.now()), self._listed)

    def look_where_the_user_is(self) -> None:
        """See whether another branch is checked out by now; its list of specs is not ours."""
        tools, here = self.tools, repo.head(self.tools.repo).branch
        if self.branch is None or here == self.branch:
            self._listed = None
            return
        if self._listed is None:
            where = here or "a detached HEAD"
            self.tell(f"{where} is checked out now; this pass still lands on {self.branch}")
        path = tools.repo.prefix + tools.layout.relative(tools.layout.tracker)
        content = trees.read_blob(tools.repo, f"refs/heads/{self.branch}:{path}")
        self._listed = frozenset(tracker.names(content or b""))

    @property
    def host(self) -> Host:
        """Return where the user's own commands run."""
        tools = self.tools
        return Host(tools.project, self.config, tools.keeper, tools.interrupted)

    def run_hook(self, hook: routine.Hook, env: dict[str, str]) -> None:
        """Run a hook that can spoil nothing any more; that it failed is told at the end."""
        try:
            routine.run_hook(self.tools, self.config, hook, env)
        except TreadleError as error:
            self.failed_hook = error.message

    def tell(self, message: str) -> None:
        """Say something to whoever watches."""
        self.tools.watch(Progress(kind="note", run_id="", message=message))

    def run(self, run_id: str) -> RunRow:
        """Return the row of a run that is known to be there."""
        row = self.tools.store.run(run_id)
        assert row is not None
        return row
