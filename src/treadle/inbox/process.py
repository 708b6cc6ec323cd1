"""Go through the inbox and the specs once, each chain to its end before the next."""

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from msgspec import field
from msgspec.structs import replace

from treadle.config.schema import Config
from treadle.engine import goals, notices, session
from treadle.engine.prune import apply_daily
from treadle.engine.run import memory, outage, resume
from treadle.engine.run.memory import Watch
from treadle.engine.run.run import Tools
from treadle.errors import BlockedError, GitError, TreadleError
from treadle.files import walk
from treadle.git import repo
from treadle.ids import day_begin, utc
from treadle.inbox import (
    attempt,
    box,
    carry_out,
    decide,
    routine,
    schedule,
    spec_choice,
    spec_state,
    specs,
)
from treadle.inbox.attempt import Tried, try_out
from treadle.inbox.known import (
    ALL,
    OPEN,
    Action,
    AskFirst,
    Bury,
    InboxView,
    Known,
    Proceed,
    ReadyMessage,
    Scope,
    Submit,
    Try,
    Wait,
    Work,
)
from treadle.inbox.outcome import Outcome, Status, Summary, explained
from treadle.inbox.spec_choice import SpecChoice
from treadle.project.context import Context
from treadle.store.messages import MessageRow, waiting
from treadle.store.questions import Subject
from treadle.store.runs import RunRow
from treadle.store.store import Reader
from treadle.tasks import questions

_LOOK_AGAIN = 5.0
_STOPS: Sequence[Status] = ("dead", "stopped", "refused", "held")


def process(
    tools: Tools, config: Config, scope: Scope = ALL, submit: Submit | None = None
) -> Summary:
    """Carry out every waiting message, then every unprocessed spec; `submit` queues their runs."""
    specs.require_folder(tools.layout)
    work = Pass(tools, config, submit, scope, repo.head(tools.repo).branch)
    work.tools = replace(tools, gives_way=work.gives_way)
    work.resume_due()
    routine.run_hook(tools, config, "beforeAll", {})
    work.go_round()
    if work.outcomes:
        box.settle(tools.layout)
    work.run_hook("afterAll", {})
    return Summary(
        tuple(explained(work.view, item) for item in work.outcomes),
        tools.interrupted(),
        work.failed_hook,
        tuple(specs.not_taken(tools.layout)),
    )


def carry_on(tools: Tools, config: Config, run: RunRow) -> None:
    """Finish the message of a run that a person took up: land it, and do what follows from it."""
    path = tools.layout.inbox / f"{run.message_id}.md"
    if path.exists():
        Pass(tools, config, None, ALL, run.base_branch).drain(path)


def find_scope(project: Context, store: Reader, texts: Sequence[str]) -> Scope:
    """Return the specs and messages that a command line names.

    BlockedError if a spec is finished or set aside.
    """
    layout, known = project.layout, specs.names(project.layout)
    view = InboxView(layout, project.settings.config, store, utc(project.now()))
    asked, messages = list[str](), list[str]()
    for text in texts:
        found = box.find_waiting(layout, store, text)
        asked += [] if found else [specs.match(known, text)]
        for name in found:
            row = store.message(name.removesuffix(".md"))
            if row and row.spec and row.spec in known:  # which may have to begin anew
                asked.append(row.spec)
            else:
                messages.append(name)
    only = tuple(dict.fromkeys(asked))
    _require_open(view, only)
    return Scope(only, tuple(dict.fromkeys(messages)))


def _require_open(view: InboxView, found: Sequence[str]) -> None:
    for name in found:
        spec_state.require_unprocessed(view, name)
        choice = spec_choice.decide_spec(view, name)
        if choice.state in ("dropped", "undone"):
            text = f"{name} is not taken: {choice.reason}"
            raise BlockedError(text, code="spec_set_aside", fix=[choice.fix])


def serve_once(project: Context, watch: Watch) -> Summary:
    """Send what the schedule says, go on with what waited, make a pass."""
    schedule.fire(project.layout, project.now(), watch)
    config = project.settings.config
    with session.opened(project, watch=watch, now=project.now) as tools:
        begun = utc(tools.now())
        found = process(tools, config, Scope(still=schedule.SPEC_STILL))
        apply_daily(tools)
        # Told by the round that met the limit, not by every one until tomorrow.
        is_over = any(item.status == "spent" for item in found.outcomes)
        if is_over and any((row.ended_at or "") >= begun for row in tools.store.runs(50)):
            notices.work_ended(tools, day_begin(tools.now()), "the night is over")
        return found


class Pass(Work):
    """One pass over the inbox: what it has seen and what came of it."""

    outcomes: list[Outcome] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)
    _postponed: set[str] = field(default_factory=set)
    _gave_way: list[str] = field(default_factory=list)  # runs and messages
    _looks_at: float = 0.0

    def go_round(self) -> None:
        """Do all there is to do now, and what that brings about."""
        box.remove_beginnings(self.tools.layout)
        self._stack_on_refused()
        self._warn()
        self._start_edited_anew()
        while not self._is_over() and self._messages():
            pass
        if self.scope.parallel > 1:
            self._side_by_side()
        while not self._is_over() and (self._messages() or self._next_spec() or self._take_up()):
            pass
        if not self._is_over():
            self._leave_waiting()

    def gives_way(self, waiting: str) -> bool:
        """Tell whether there is anything else to do while the tool of a run or message is down.

        That there is nothing holds for a while: it is asked again and again.
        """
        if self.scope.fail_fast or time.monotonic() < self._looks_at:
            return False
        for job in self._open_jobs():
            try:
                agents = attempt.freeze(self.config, job, None).agents.values()
            except TreadleError:  # it is not begun either
                continue
            if not outage.holding(self.tools, agents):
                self._gave_way.append(waiting)
                return True
        self._looks_at = time.monotonic() + _LOOK_AGAIN
        return False

    def _open_jobs(self) -> Iterator[ReadyMessage]:
        """Yield what this pass has still to begin; a router of the user's own is not asked."""
        view, inbox = self.view, self.tools.layout.inbox
        files = [(inbox / name, None) for name in self._new_messages()]
        choices = [(name, spec_choice.decide_spec(view, name)) for name in self._open_specs(view)]
        begin = [(name, it.seen.wish.routine) for name, it in choices if it.next == "begin"]
        made = [(inbox / it[0], spec_choice.spec_message(None, *it)) for it in begin]
        for path, data in (*files, *made):
            file = decide.read(view, path, data=data)
            found = decide.decide(view, file, None) if isinstance(file, Known) else file
            if found.job and found.action == Proceed("run"):
                yield found.job

    def resume_due(self) -> None:
        """Go on with runs whose tool may be tried again, or whose day is over."""
        named = self.scope.messages
        for row in memory.due_runs(self.tools.store, self.tools.now()):
            if not named or f"{row.message_id}.md" in named:
                self._resume(row)

    def _take_up(self) -> bool:
        """Go on with what gave way, as soon as its tool may work; False if there is nothing."""
        while self._gave_way:
            name = self._gave_way.pop(0)
            run, rows = self.tools.store.run(name), [(it, it.row) for it in self.outcomes if it.row]
            if run and not self._resume(run, waits=True):
                continue
            for item, row in rows:
                if name in (row.message_id, *row.run_ids):
                    self.outcomes.remove(item)
                    self.drain(self.tools.layout.inbox / f"{row.message_id}.md")
            return True
        return False

    def _resume(self, run: RunRow, *, waits: bool = False) -> bool:
        """Go on with a stopped run, maybe when its tool may work; False if that cannot be."""
        tools = self.tools
        try:
            if waits:
                outage.require(tools, resume.load_run(tools, run).order.agents.values())
            goals.resume_run(tools, self.config, run.run_id, {}, {})
        except (BlockedError, GitError) as error:
            tools.note(run.run_id, error.message)
            return False
        return True

    def _is_over(self) -> bool:
        if self.tools.interrupted():
            return True
        stops = ("spent", *(_STOPS if self.scope.fail_fast else ()))
        return any(item.status in stops for item in self.outcomes)

    def _start_edited_anew(self) -> None:
        """Forget the attempts at specs that were edited after they stopped, were held or died."""
        tools, view = self.tools, self.view
        for name in self._open_specs(view):
            found = spec_choice.decide_spec(view, name)
            if found.next == "anew" and found.row:
                self.tell(f"{name} was edited; it starts anew")
                spec_state.start_anew(tools.layout, tools.store, found.row, tools.now())

    def _messages(self) -> bool:
        """Carry out what lies in the inbox now, by name; tell whether there was anything new."""
        new = self._new_messages()
        for name in new:
            path = self.tools.layout.inbox / name
            self._seen.add(name)
            if self._is_over():
                return False
            if spec_choice.is_postponed(self.view, name):
                self._postponed.add(name)
            elif os.path.lexists(path) and not walk.is_folder(path):
                self.drain(path)
        return bool(new)

    def _new_messages(self) -> list[str]:
        found = self.scope.messages if self.scope.is_limited else box.names(self.tools.layout)
        return [name for name in found if name not in self._seen]

    def _open_specs(self, view: InboxView) -> list[str]:
        """Return the specs that this pass has still to look at."""
        layout, scope, still = view.layout, self.scope, self.scope.still
        left = specs.names(layout, without=self._seen.union(view.processed))
        found = [name for name in left if not scope.is_limited or name in scope.only]
        return [it for it in found if not still or box.is_still(layout, it, time.time(), still)]

    def _pick_spec(self) -> tuple[str, SpecChoice] | None:
        """Return the next spec that waits for no other one."""
        self.look_where_the_user_is()
        view = self.view
        for name in self._open_specs(view):
            found = spec_choice.decide_spec(view, name)
            if found.next != "wait":
                self._seen.add(name)
                return name, found
        return None

    def _next_spec(self) -> bool:
        """Make a message of the next spec and carry it out; tell whether there was one."""
        if picked := self._pick_spec():
            if message := self._message_for(*picked):
                self.drain(message)
            return True
        return False

    def _leave_waiting(self) -> None:
        """Say what the specs that are left wait for."""
        view = self.view
        for name in self._open_specs(view):
            found = spec_choice.decide_spec(view, name)
            self.outcomes.append(Outcome(name, "waiting", found.reason, found.row, fix=found.fix))
            self._seen.add(name)
            about = Subject("spec", name)
            questions.close(self.tools.store, about, "it waits", self.tools.now(), "held")

    def _side_by_side(self) -> None:
        """Carry out several specs at a time that wait for no other; they land in their order."""
        begun: deque[tuple[ReadyMessage, Future[Tried]]] = deque()
        alone: list[Path] = []
        with ThreadPoolExecutor(self.scope.parallel, thread_name_prefix="spec") as pool:
            while True:
                working = [future for _, future in begun if not future.done()]
                while len(working) < self.scope.parallel and (found := self._next_job(alone)):
                    working.append(pool.submit(try_out, self, *found))
                    begun.append((found[0], working[-1]))
                if not begun:
                    break
                job, first = begun[0]
                if first.done():
                    begun.popleft()
                    self.drain(job.known.path, carry_out.conclude(self, job, first.result()))
                else:
                    wait(working, return_when=FIRST_COMPLETED)
        for path in alone:
            self.drain(path)

    def _next_job(self, alone: list[Path]) -> tuple[ReadyMessage, Sequence[Try], Action] | None:
        """Return the next spec's message, ready to be tried; what works in the checkout waits."""
        while not self._is_over() and (picked := self._pick_spec()):
            if not (path := self._message_for(*picked)):
                continue
            found = carry_out.decide_on(self, path, None)
            if found.job and found.job.choice.routine.in_project:
                alone.append(path)
            elif found.job and not isinstance(found.action, Bury | Wait | AskFirst):
                return carry_out.complete_file(self, found.job), found.tries, found.action
            else:
                self.drain(path)
        return None

    def drain(self, path: Path, outcome: Outcome | None = None) -> None:
        """Carry out one message, unless that is done, and all that follows from it, depth first."""
        stack: list[tuple[Path, MessageRow | None]] = [(path, None)]
        rows: list[MessageRow] = []
        while stack and (outcome or not self._is_over()):
            path, parent = stack.pop()
            self._seen.add(path.name)
            if outcome is None:
                if not os.path.lexists(path):
                    continue
                outcome = carry_out.carry_out(self, path, parent)
            self.outcomes.append(outcome)
            if row := outcome.row:
                rows.append(row)
                self._seen |= {f"{row.message_id}.md", row.spec or ""}
            stack.extend((child, row) for child in reversed(outcome.followups))
            outcome = None
        if rows:
            self._close(rows)

    def _close(self, rows: list[MessageRow]) -> None:
        """Write down how the chain ended: a dead follow-up makes it partial."""
        statuses = {row.status for row in rows}
        if "dead" in statuses and statuses.isdisjoint(OPEN):
            status = "failed" if rows[0].status == "dead" else "partial"
            self.tools.store.close_chain(rows[0].chain, status)

    def _message_for(self, name: str, found: SpecChoice) -> Path | None:
        """Return the file of a spec's message, made or found; None if there is nothing to do."""
        layout, row = self.tools.layout, found.row
        if found.next == "leave":
            self._leave_spec(name, found)
            return None
        if row is None:
            new = waiting("", 0, self.view.now)._replace(spec=name, spec_digest=found.seen.digest)
            row = self.tools.store.add_message(new)
        path = layout.inbox / f"{row.message_id}.md"
        if path.name in self._seen - self._postponed:
            return None
        if not path.exists():
            box.put(
                path, spec_choice.spec_message(row, name, found.seen.wish.routine), lasting=False
            )
        return path

    def _leave_spec(self, name: str, found: SpecChoice) -> None:
        """Say why a spec is not begun; what only a human can change goes to the desk."""
        if found.asks:
            carry_out.ask_about(self.tools, name, found.row, found.reason, found.fix)
        if found.state != "dropped":
            told_as: dict[str, Status] = {"empty": "waiting", "unmerged": "waiting", "dead": "dead"}
            status = told_as.get(found.state, "held")
            told = Outcome(name, status, found.reason, found.row, fix=found.fix)
            self.outcomes.append(told)

    def _stack_on_refused(self) -> None:
        """Build on what passed in an earlier pass and could not land."""
        store = self.tools.store
        for row in store.messages("refused"):
            tries = decide.tries_of(store, row)
            if tries and tries[-1].state == "refused":
                self.below = store.run(tries[-1].run_id)

    def _warn(self) -> None:
        for text in specs.complaints(self.tools.layout):
            self.tell(text)
        for name in sorted({*self.view.processed}.intersection(specs.names(self.tools.layout))):
            if spec_state.is_edited_since(self.view, name):
                self.tell(f"{name} was edited after it was processed; it is not run again")
