"""Run goals, tasks and stopped runs: what `treadle run` asks for."""

from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import NamedTuple

from treadle.config.schema import Config
from treadle.contract import Criterion
from treadle.engine.elsewhere import fleet_run
from treadle.engine.run import begin, order, resume
from treadle.engine.run.run import Tools
from treadle.engine.show import view
from treadle.engine.wheel import end, loop
from treadle.errors import BlockedError, GitError, TreadleError
from treadle.sandbox import jails
from treadle.store.runs import RunRow
from treadle.store.tasks import TaskRow
from treadle.tasks import claim as claims
from treadle.tasks import questions, task


class Refused(NamedTuple):
    """A task that could not be begun, and why."""

    task_id: str
    error: TreadleError


def require_sandbox(asked: Config | order.Order) -> None:
    """Refuse to work without the sandbox that a configuration or an order demands."""
    if asked.sandbox.mode != "required":
        return
    found = jails.probe(asked.sandbox.tier)
    if found.tier == "0":
        text = f'sandbox = "required", but there is none: {found.reason}'
        raise BlockedError(text, code="no_sandbox", fix=[*found.fix, "treadle doctor"])


def run_goal(
    tools: Tools,
    config: Config,
    goal: str,
    criteria: Sequence[Criterion],
    swaps: Mapping[str, str],
) -> RunRow:
    """Run a goal that is no task."""
    asked = order.freeze(config, text=goal, criteria=criteria, swaps=swaps, task_id=None)
    return loop.drive_run(begin.begin_run(tools, asked, lands=config.land.run == "auto"))


def resume_run(
    tools: Tools,
    config: Config,
    text: str,
    budgets: Mapping[str, float],
    swaps: Mapping[str, str],
    *,
    approve: bool = False,
) -> RunRow:
    """Continue a stopped run, or let it pass if all it waits for is an approval."""
    row = view.find_run(tools.store, text)
    lands = config.land.run == "auto"
    fleet_run.bring_here(tools, row)
    run = resume.resume_run(
        tools, row, config, budgets=budgets, swaps=swaps, approve=approve, lands=lands
    )
    questions.settle(tools.store, run.id, "approved" if approve else "resumed", tools.now())
    if run.order.task_id:
        claims.begin_run(tools.store, run.order.task_id, run.id, tools.now())
    return loop.drive_run(run)


def run_tasks(
    tools: Tools,
    config: Config,
    ids: Sequence[str],
    swaps: Mapping[str, str],
    parallel: int,
) -> list[RunRow | Refused]:
    """Run these tasks, or everything that is ready, at most `parallel` at a time.

    Dependencies that are done meanwhile make further tasks ready; a task that was tried is
    not tried again, and one that is refused holds up no other. One after the other, a run
    builds on the one before even if that could not land.
    """
    named, taken = [task.find_task(tools.store, task_id) for task_id in ids], set[str]()
    results: list[RunRow | Refused] = []
    busy: set[Future[RunRow | Refused]] = set()
    with ThreadPoolExecutor(max_workers=parallel, thread_name_prefix="run") as pool:
        while True:
            while len(busy) < parallel and (found := _next_task(tools, named, taken)):
                taken.add(found.task_id)
                below = _below(tools, results) if parallel == 1 else None
                busy.add(pool.submit(_run_task, tools, config, found, swaps, below))
            if not busy:
                return results
            done, busy = wait(busy, return_when=FIRST_COMPLETED)
            results.extend(future.result() for future in done)


def _next_task(tools: Tools, named: Sequence[TaskRow], taken: set[str]) -> TaskRow | None:
    """Return the next task, or None if nothing is ready now."""
    if tools.interrupted():
        return None
    waiting = named or task.ready(tools.store, tools.now())
    return next((item for item in waiting if item.task_id not in taken), None)


def _run_task(
    tools: Tools, config: Config, found: TaskRow, swaps: Mapping[str, str], below: RunRow | None
) -> RunRow | Refused:
    asked = order.freeze(
        config,
        text=found.text or found.goal,
        criteria=found.criteria,
        swaps=swaps,
        task_id=found.task_id,
    )
    try:
        run = begin.begin_run(tools, asked, below, lands=config.land.run == "auto")
        return loop.drive_run(run)
    except (BlockedError, GitError) as error:
        return Refused(found.task_id, error)


def _below(tools: Tools, results: Sequence[RunRow | Refused]) -> RunRow | None:
    """Return the last run of the series if it passed and could not land."""
    rows = [item for item in results if not isinstance(item, Refused) and item.status == "passed"]
    return rows[-1] if rows and end.waits_to_land(tools, rows[-1]) else None
