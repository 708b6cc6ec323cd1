"""Continue a stopped run after its last committed step."""

import itertools
from collections.abc import Mapping
from pathlib import Path

from msgspec import structs

from treadle.config.schema import Config
from treadle.contract.event import EventType
from treadle.engine import approval, edits, floor, integrity, load, place, restore
from treadle.engine.commit import lost_branch
from treadle.engine.order import NamedAgent, named
from treadle.engine.run import Run, Tools
from treadle.errors import BlockedError
from treadle.git import diff, refs, workspace
from treadle.store.runs import RunRow


def resume(
    tools: Tools,
    row: RunRow,
    config: Config,
    *,
    budgets: Mapping[str, float],
    swaps: Mapping[str, str],
    approve: bool = False,
) -> Run:
    """Return the run, running again; with `approve`, as passed if it waits for just that."""
    _check_resumable(row)
    restore.here(tools.layout, tools.store, tools.repo, row, tools.env)
    integrity.require(tools, row)
    run = load.take_up(tools, row)
    if approve:
        return _approve(run)
    _change_order(run, config, budgets, swaps)
    _require_agents(run)
    run.timeline.add(EventType.RUN_RESUMED, f"after step {row.current_step_index}")
    cleared = {"reason_code": None, "reason": None, "stop_requested": None, "resume_at": None}
    cleared["budget_needed"] = None
    refused = approval.refuse(run)
    verdict = "FAIL" if refused else run.row.verdict
    now = run.cursor(status="running", ended_at=None, verdict=verdict)
    run.record(now, {**cleared, **refused})
    if _lost(run):
        return run
    keep_interrupted(run)
    place.prepare(run)
    return run


def _approve(run: Run) -> Run:
    if not _lost(run):
        approval.approve(run)
    return run


def _lost(run: Run) -> bool:
    """Fail a run whose branch does not stand where the run left it."""
    found = refs.resolve(run.tools.repo, run.row.branch or "")
    if run.row.branch and found not in (None, run.head):
        lost_branch(run)
        return True
    return False


def keep_interrupted(run: Run) -> None:
    """Save what a step left behind when it was cut off, then bring the workspace back."""
    if not run.workspace.path.is_dir() or not run.workspace.index.exists():
        return
    changes = edits.look(run).changes
    if not changes:
        return
    run.folder.interrupted.mkdir(exist_ok=True)
    target = _free_name(run)
    diff.write(run.workspace, run.head, target, changes)
    workspace.restore(run.workspace, run.head)
    where = run.tools.layout.relative(target)
    run.timeline.add(EventType.WORKSPACE_RESTORED, f"interrupted edits are kept in {where}")
    run.record(run.cursor())


def _free_name(run: Run) -> Path:
    """Return where the diff goes; a step can be cut off more than once."""
    name = f"{run.row.current_step_index + 1:03d}"
    names = itertools.chain([name], (f"{name}-{again}" for again in itertools.count(2)))
    paths = (run.folder.interrupted / f"{found}.diff" for found in names)
    return next(path for path in paths if not path.exists())


def _check_resumable(row: RunRow) -> None:
    if row.status == "stopped":
        return
    if row.status == "running":
        raise BlockedError(
            f"run {row.run_id} is running",
            code="still_running",
            fix=[f"treadle log -f {row.run_id}", f"treadle stop {row.run_id}"],
        )
    raise BlockedError(
        f"run {row.run_id} has {row.status}; only a stopped run can go on",
        code="not_resumable",
        fix=[f"treadle why {row.run_id}", "treadle run"],
    )


def _require_agents(run: Run) -> None:
    """Refuse to start a program that only the record names."""
    for role, agent in run.order.agents.items():
        if _is_known(run, agent):
            continue
        run.tools.store.release(run.id, run.row.claim_epoch)
        words = agent.config.cmd or agent.config.run or (agent.config.type,)
        raise BlockedError(
            f"run {run.id} began with an agent {agent.name} that today's configuration does not"
            f" have: {' '.join(words)}",
            code="agent_unknown",
            fix=["treadle config show", f"treadle run --resume {run.id} --agent {role}=NAME"],
        )


def _is_known(run: Run, agent: NamedAgent) -> bool:
    config, script = agent.config, run.order.script
    if config.type in ("builtin", "replay") and not config.run:
        return True
    if script and config.type == "builtin" and config.run == script.argv:
        return Path(script.argv[-1]).parent == run.tools.layout.routines
    return floor.is_known(agent, run.tools.today)


def _change_order(
    run: Run, config: Config, budgets: Mapping[str, float], swaps: Mapping[str, str]
) -> None:
    order = run.order
    if budgets:
        order = structs.replace(order, budgets=structs.replace(order.budgets, **budgets))
        words = ", ".join(f"{key} = {value:g}" for key, value in budgets.items())
        run.timeline.add(EventType.BUDGET_RAISED, words, **budgets)
    if swaps:
        order = structs.replace(order, agents=order.agents | named(config, swaps, swaps))
    run.order = order
