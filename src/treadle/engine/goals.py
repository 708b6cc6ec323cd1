"""Run goals, tasks and stopped runs: what `treadle run` asks for."""

import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from msgspec import UNSET

from treadle.config.schema import Config
from treadle.contract import ROLES, Criterion
from treadle.contract.events import EventType, NewEvent
from treadle.engine import approval, autoland
from treadle.engine.elsewhere import fleet_run
from treadle.engine.landing import back, rebase
from treadle.engine.landing.move import REBASED
from treadle.engine.landing.rebase import Rebased
from treadle.engine.run import begin, confinement, memory, night, order, outage, resume, run_files
from treadle.engine.run.comments import Comment
from treadle.engine.run.order import Order
from treadle.engine.run.run import Run, Tools
from treadle.engine.show import view
from treadle.engine.wheel import loop
from treadle.errors import BlockedError, GitError, TreadleError, UsageError
from treadle.git import refs
from treadle.git import repo as git
from treadle.mail import effect
from treadle.sandbox import jails
from treadle.store.runs import RunRow
from treadle.store.tasks import TaskRow
from treadle.tasks import claim as claims
from treadle.tasks import lanes, questions, task, tries, waiting
from treadle.tasks.tries import Trial

_LOOK = 1.0


class Refused(NamedTuple):
    """A task that could not be begun, and why."""

    task_id: str
    error: TreadleError


def require_sandbox(asked: Config | order.Order) -> None:
    """Refuse to work without the sandbox that a configuration or an order demands."""
    confinement.require_closed(asked)
    if asked.sandbox.mode != "required":
        return
    found = jails.probe(asked.sandbox.tier)
    if found.tier == "0":
        text = f'sandbox = "required", but there is none: {found.reason}'
        raise BlockedError(text, code="no_sandbox", fix=[*found.fix, "treadle doctor"])


def run_goal(
    tools: Tools, config: Config, goal: str, criteria: Sequence[Criterion], swaps: Mapping[str, str]
) -> RunRow:
    """Run a goal that is no task."""
    asked = order.freeze(config, text=goal, criteria=criteria, swaps=swaps, task_id=None)
    return loop.drive_run(begin.begin_run(tools, asked, lands=config.land.run != "manual"))


def run_again(
    tools: Tools, config: Config, text: str, swaps: Mapping[str, str], note: str | None = None
) -> RunRow:
    """Run what an earlier run was asked once more, from today's code and by today's agents."""
    row = view.find_run(tools.store, text)
    of = tools.store.task(row.task_id) if row.task_id else None
    if row.message_id or (of and of.lane not in lanes.FINAL):
        fix = ["treadle process"] if row.message_id else [f"treadle run {row.task_id}"]
        what = f"message {row.message_id}" if row.message_id else f"task {row.task_id}"
        raise BlockedError(f"run {row.run_id} is of {what}", code="not_a_goal", fix=fix)
    fleet_run.bring_here(tools, row)
    before = run_files.read_run(tools.layout.run(row.run_id).run_json).order
    asked = [
        Criterion(it.id, it.text, None if it.verify is UNSET else it.verify)
        for it in before.criteria
    ]
    words = order.with_note(before.text, note)
    goal = order.freeze(config, text=words, criteria=asked, swaps=swaps, task_id=None)
    run = begin.begin_run(tools, goal, lands=config.land.run != "manual")
    questions.settle(tools.store, row.run_id, f"run again as {run.id}", tools.now())
    return loop.drive_run(run)


def resume_run(
    tools: Tools,
    config: Config,
    text: str,
    budgets: Mapping[str, float],
    swaps: Mapping[str, str],
    *,
    approve: str | None = None,
    reject: str | None = None,
) -> RunRow:
    """Continue a run that has not passed: with what a person approves of it, or without."""
    row = view.find_run(tools.store, text)
    if not approve:
        night.require(tools, begins=False)
    is_one = tries.trial_of(tools.store, row.run_id)  # of several, the best is chosen by a person
    lands = config.land.run != "manual" and is_one is None
    fleet_run.bring_here(tools, row)
    limits: dict[str, Any] = {"budgets": budgets, "swaps": swaps, "lands": lands}
    if approve:
        run = approval.approve(tools, row, config, approve, **limits)
    else:
        approval.require_decided(tools, row, () if reject is not None else budgets)
        if reject is not None:
            approval.reject(tools, row, reject)
        run = resume.resume_run(tools, _on_landed_work(tools, row), config, **limits)
    if reject is not None:
        run.record(NewEvent(EventType.REJECTED, reject or "without a reason"))
    word = "approved" if approve else "resumed" if reject is None else "rejected"
    questions.settle(tools.store, run.id, word, tools.now())
    if run.order.task_id:
        _claim(run, run.order.task_id)
    return loop.drive_run(run)


def _on_landed_work(tools: Tools, row: RunRow) -> RunRow:
    """Put a run on top of its branch if something that it builds on has landed there since."""
    store, task_row = tools.store, tools.store.task(row.task_id) if row.task_id else None
    stacked = memory.recall(store, row.run_id).stacked_on
    needed = below_task(tools, task_row) if task_row else []
    known = [memory.recall(store, run_id) for run_id in {*stacked, *(it.run_id for it in needed)}]
    landed = [it.landed for it in known if it.landed and it.landed_commit]
    new = [it for it in landed if it.branch == row.base_branch]
    base = row.base_commit or ""
    if row.status == "passed" or all(refs.contains(tools.repo, base, it.commit) for it in new):
        return row
    try:
        found = rebase.rebase(tools, row)
    except BlockedError as error:  # part of what is below has not landed: that base still holds
        tools.note(row.run_id, f"it stays on the base it began on: {error.message}")
        return row
    tools.note(row.run_id, f"what it builds on has landed: it stands on {found.base[:12]} now")
    return store.run(row.run_id) or row


def _claim(run: Run, task_id: str) -> None:
    """Take the task of a run that goes on; one that is not to be had stops it again."""
    try:
        now, trial = run.tools.now(), run.memory.trial
        claims.begin_run(run.tools.store, task_id, run.id, now, trial=trial)
    except BlockedError as error:
        if run.row.status == "running":
            run.end("stopped", error.code, error.message)
            run.tools.store.release(run.id, run.row.claim_epoch)
        raise


def rebase_run(tools: Tools, config: Config, text: str) -> tuple[Rebased, RunRow]:
    """Put a run's change on the tip of its branch; one that had passed is checked again."""
    row = view.find_run(tools.store, text)
    before = memory.recall(tools.store, row.run_id)
    found = rebase.rebase(tools, row)
    known, row = memory.recall(tools.store, row.run_id), view.find_run(tools.store, row.run_id)
    if row.status != "stopped" or known.reason_code != REBASED:
        return found, row
    # The pass lands what it carries out; one that it could not land has no other way there.
    lands = known.lands or bool(row.message_id and before.land_refused)
    run = resume.resume_run(tools, row, config, budgets={}, swaps={}, lands=lands)
    return found, loop.drive_run(run)


def send_back(tools: Tools, config: Config, row: RunRow, said: Sequence[Comment]) -> RunRow:
    """Let a passed run go on with what a person has to say about its change."""
    known = back.send_back(tools, row, said)
    row = view.find_run(tools.store, row.run_id)
    run = resume.resume_run(tools, row, config, budgets={}, swaps={}, lands=known.lands)
    return loop.drive_run(run)


def run_tasks(
    tools: Tools,
    config: Config,
    ids: Sequence[str],
    swaps: Mapping[str, str],
    parallel: int,
    note: str | None = None,
) -> list[RunRow | Refused]:
    """Run these tasks, or everything that is ready, at most `parallel` at a time.

    Dependencies that are done meanwhile make further tasks ready; a task that was tried is
    not tried again, and one that is refused holds up no other. A task begins on the work of
    what it depends on; one that depends on nothing, on the run before it in a series even if
    that could not land. What other programs wrote about tasks counts.
    """
    effect.refresh(tools.store, tools.layout.mail, tools.now(), reading=True)
    named, taken = [task.find_task(tools.store, task_id) for task_id in ids], set[str]()
    agents = [*order.named(config, ROLES, swaps).values()]
    working = dict[Future[RunRow | Refused], str]()
    results: list[RunRow | Refused] = [] if ids else _resume_due(tools, config)
    with ThreadPoolExecutor(max_workers=parallel, thread_name_prefix="run") as pool:
        while True:
            held = None
            while len(working) < parallel and (
                found := _next_task(tools, named, taken, {*working.values()})
            ):
                if held := outage.holding(tools, agents):
                    break
                taken.add(found.task_id)
                found = found._replace(text=order.with_note(found.text or found.goal, note))
                before = _before(tools, results, parallel)
                job = pool.submit(_run_task, tools, config, found, swaps, before)
                working[job] = found.task_id
            if working:
                # What is held goes on as soon as one of those at work finds that it can.
                done, _ = wait(working, _LOOK if held else None, FIRST_COMPLETED)
                results.extend(job.result() for job in done if working.pop(job))
            elif not held or not found:
                return results
            elif not outage.wait_out(tools, held):
                if not tools.interrupted():
                    results.append(Refused(found.task_id, outage.blocked(tools, held)))
                return results


def _resume_due(tools: Tools, config: Config) -> list[RunRow | Refused]:
    """Go on with runs of tasks that were stopped until a moment which has come."""
    found: list[RunRow | Refused] = []
    for row in memory.due_runs(tools.store, tools.now()):
        if row.task_id and not tools.interrupted():
            try:
                found.append(resume_run(tools, config, row.run_id, {}, {}))
            except (BlockedError, GitError) as error:
                found.append(Refused(row.task_id, error))
    return found


def asked_of_task(
    tools: Tools, config: Config, task_id: str, swaps: Mapping[str, str], note: str | None
) -> Order:
    """Return what a task asks for; what other programs wrote about it counts."""
    effect.refresh(tools.store, tools.layout.mail, tools.now(), reading=True)
    found = task.find_task(tools.store, task_id)
    if found.mission:
        text = f"{task_id} belongs to a mission, whose tasks one agent does at a time"
        raise UsageError(f"--try: {text}")
    text = order.with_note(found.text or found.goal, note)
    return _asked(config, found._replace(text=text), swaps)


def run_tries(
    tools: Tools, config: Config, asked: Order, tried: Sequence[str], parallel: int | None
) -> list[RunRow | Refused]:
    """Let several agents do the same from the same commit, each in a run of its own.

    When all have ended, the best of those that passed lands if the configuration says so.
    """
    orders = [order.tried(config, asked, text) for text in tried]
    found = tools.store.task(asked.task_id) if asked.task_id else None
    below = below_task(tools, found) if found else []
    name, head = secrets.token_hex(4), git.head(tools.repo)

    def drive(one: Order, text: str) -> RunRow | Refused:
        try:
            if tools.interrupted():
                raise BlockedError("interrupted before it began", code="interrupted")
            run = begin.begin_run(tools, one, below, trial=Trial(name, text), at=head)
            return loop.drive_run(run)
        except TreadleError as error:  # the others go on, also when the day's limit is reached
            return Refused(f"{asked.task_id or asked.goal} by {text}", error)

    with ThreadPoolExecutor(parallel or len(orders), thread_name_prefix="try") as pool:
        results = list(pool.map(drive, orders, tried))
    rows = [item for item in results if not isinstance(item, Refused)]
    best = tries.chosen(tools.store, rows[0]) if rows else None
    if best and config.land.run != "manual":
        autoland.land_or_ask(tools, best)
    return results


def _next_task(
    tools: Tools, named: Sequence[TaskRow], taken: set[str], working: set[str]
) -> TaskRow | None:
    """Return the next task, or None if nothing is ready now.

    Of tasks that are named, one that depends on another of them comes after it.
    """
    if tools.interrupted():
        return None
    found = named or task.ready(tools.store, tools.now())
    left = [item for item in found if item.task_id not in taken]
    if not named:
        return next(iter(left), None)
    before = working | {item.task_id for item in left}
    below = ((item, waiting.all_below(tools.store, item.task_id)) for item in left)
    return next((item for item, needed in below if not before & needed), None)


def below_task(tools: Tools, found: TaskRow) -> list[RunRow]:
    """Return the passed runs of what a task depends on, brought to this machine."""
    rows = [
        row
        for needed in tools.store.dependencies(found.task_id)
        if (row := waiting.passed_run(tools.store, needed))
    ]
    for row in rows:
        fleet_run.bring_here(tools, row)
    return rows


def _run_task(
    tools: Tools, config: Config, found: TaskRow, swaps: Mapping[str, str], before: Sequence[RunRow]
) -> RunRow | Refused:
    asked = _asked(config, found, swaps)
    try:
        below = below_task(tools, found) or before
        run = begin.begin_run(tools, asked, below, lands=config.land.run != "manual")
        return loop.drive_run(run)
    except (BlockedError, GitError) as error:
        return Refused(found.task_id, error)


def _asked(config: Config, found: TaskRow, swaps: Mapping[str, str]) -> Order:
    text, criteria, id_ = found.text or found.goal, found.criteria, found.task_id
    return order.freeze(config, text=text, criteria=criteria, swaps=swaps, task_id=id_)


def _before(tools: Tools, results: Sequence[RunRow | Refused], parallel: int) -> list[RunRow]:
    """Return the last run of a series if it passed and could not land."""
    rows = [item for item in results if not isinstance(item, Refused) and item.status == "passed"]
    last = [(row, memory.recall(tools.store, row.run_id)) for row in rows[-1:] if parallel == 1]
    return [row for row, known in last if known.land_refused and not known.landed_commit]
