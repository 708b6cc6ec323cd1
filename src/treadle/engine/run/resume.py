"""Take up a run again: load what its files and the store say, and continue after its last step."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from treadle.config import agents
from treadle.config.schema import TOOLS, AgentConfig, Config
from treadle.contract.events import EventType, NewEvent
from treadle.engine.run import begin, confinement, memory, run_files
from treadle.engine.run import order as run_order
from treadle.engine.run.memory import CheckSeen, RunMemory
from treadle.engine.run.order import Exceeded, NamedAgent, named
from treadle.engine.run.run import Run, Tools, lost_branch
from treadle.errors import BlockedError, FormatError, GitError
from treadle.git import refs
from treadle.proc import identity
from treadle.store.runs import RunRow, StepRow
from treadle.store.store import Reader
from treadle.tasks import tries

# What a run forgets when it goes on.
OF_ONE_END = ("reason_code", "reason", "stop_requested", "resume_at", "budget_needed")


def take_over(tools: Tools, row: RunRow) -> Run:
    """Become the run's owner; whoever owned it before can commit nothing more."""
    owner = tools.worker or identity.current().encode()
    epoch = tools.store.take_over(row.run_id, owner)
    return load_run(tools, row._replace(claim_epoch=epoch, owner=owner))


def take_up(tools: Tools, row: RunRow) -> Run:
    """Become the owner of a run whose commands are to run again, within today's bounds."""
    run = take_over(tools, row)
    held = run_order.held_to(run.order, tools.today)
    today = structs.replace(tools.today.workspace, branch=held.workspace.branch)
    run.order = structs.replace(held, workspace=today)
    try:
        confinement.require_closed(run.order)
    except BlockedError:
        tools.store.release(run.id, run.row.claim_epoch)
        raise
    run.workspace = begin.workspace_of(tools, run.order, row)
    return confinement.confine(run)


def load_run(tools: Tools, row: RunRow) -> Run:
    """Return the run as its last commit left it."""
    found, store = run_files.read_run(tools.layout.run(row.run_id).run_json), tools.store
    last_seq = store.last_seq(row.run_id)
    return begin.open_run(
        tools,
        found.order,
        row,
        last_seq=last_seq,
        memory=memory.recall(store, row.run_id),
        step_dirs=[f"{tools.layout.shared}/{step.step_dir}" for step in store.steps(row.run_id)],
        # What run.json holds beyond the store's last event was never committed.
        recorded=[event for event in found.events if event.seq <= last_seq],
    )


def mismatches(tools: Tools, row: RunRow) -> dict[str, str]:
    """Say of each step whose folder is missing, damaged or not the one committed what is wrong."""
    problems = {step.step_dir: _problem(tools, step) for step in tools.store.steps(row.run_id)}
    return {folder: text for folder, text in problems.items() if text}


def require_intact(tools: Tools, row: RunRow) -> None:
    """Refuse to build on a run whose rows and folders disagree."""
    found = mismatches(tools, row)
    if not found:
        return
    told = (f"{folder}: {text}" for folder, text in found.items())
    take_over(tools, row).record(*(NewEvent(EventType.ROW_MISMATCH, text) for text in told))
    text = f"the store and the files of run {row.run_id} disagree about {', '.join(found)}"
    raise BlockedError(text, code="row_mismatch", fix=["treadle doctor --repair"])


def _problem(tools: Tools, step: StepRow) -> str | None:
    if step.digest is None:
        return None
    try:
        run_files.read_committed(tools.layout.shared / step.step_dir, step)
    except FormatError as error:
        return error.message
    return None


def _approve(run: Run, lands: bool) -> None:
    """Let a run pass that waits for it, with exactly the tree that was looked at."""
    found = run.memory.protected
    if found is None or found.tree != run.tree:
        text = f"run {run.id} stands on another tree than the one that was looked at"
        raise BlockedError(text, code="tree_changed", fix=[f"treadle run --resume {run.id}"])
    told = {"tree": run.tree, "files": list(found.files[:100])}
    approved = NewEvent(EventType.PROTECTED_APPROVED, found.names, told)
    text = f"every criterion passed; changes approved: {found.names}"
    run.end("passed", "passed", text, approved, lands=lands)


def refuse(run: Run) -> RunMemory:
    """Return what a run remembers that goes on without approval of what it waits for."""
    known, found = run.memory, run.memory.protected
    if known.held:
        return known._replace(held=known.held._replace(rejected=True))
    if known.reason_code != memory.WAITS_FOR_APPROVAL or found is None:
        return known
    return known._replace(
        protected=found._replace(refused=True),
        failing=found.failing,
        refuted=found.failing,
        last_check=CheckSeen(run.tree, found.failing),
    )


def resume_run(
    tools: Tools,
    row: RunRow,
    config: Config,
    *,
    budgets: Mapping[str, float],
    swaps: Mapping[str, str],
    approve: bool = False,
    lands: bool = False,
) -> Run:
    """Return the run, running again; with `approve`, as passed if it waits for just that."""
    run = open_stopped(tools, row)
    if approve:
        if not _lost(run):
            _approve(run, lands)
        return run
    change_order(run, config, budgets, swaps)
    over = Exceeded("max_iterations", run.order.budgets.max_iterations, row.iteration)
    is_spent = (run.memory.budget_needed or "").startswith(over.key) and over.used >= over.limit
    refused = refuse(run)
    verdict = "FAIL" if refused.failing != run.memory.failing else run.row.verdict
    now = run.cursor(status="running", ended_at=None, verdict=verdict)
    cleared: dict[str, Any] = dict.fromkeys(OF_ONE_END)
    at = row.current_step_index
    run.record(
        *raised(budgets),
        NewEvent(EventType.RUN_RESUMED, f"after step {at}", {"step": at}),
        cursor=now,
        **refused._replace(lands=lands, **cleared)._asdict(),
    )
    make_ready(run)
    if is_spent and run.row.status == "running":
        run.end("stopped", "budget_exceeded", over.sentence, budget_needed=over.needed)
    return run


def open_stopped(tools: Tools, row: RunRow) -> Run:
    """Become the owner of a run that can go on, with its branch where its last step left it."""
    _check_resumable(row)
    require_not_superseded(tools.store, row)
    require_intact(tools, row)
    run = take_up(tools, row)
    _catch_up_branch(run)
    return run


def make_ready(run: Run) -> None:
    """Bring branch and workspace to where the run stands, or fail a run that lost its branch."""
    if not _lost(run):
        keep_interrupted(run)
        begin.prepare(run)


def _catch_up_branch(run: Run) -> None:
    """Move the branch to the last step's commit, where something stood in the way before."""
    name = run.row.branch or ""
    found = refs.resolve(run.tools.repo, name) if name else run.head
    if found in (None, run.head):
        return
    last = run.tools.store.steps(run.id)[-1]
    if (last.before_commit, last.after_commit) != (found, run.head):
        return
    try:
        refs.move(run.tools.repo, name, run.head, found)
    except GitError:
        run.tools.store.release(run.id, run.row.claim_epoch)
        raise


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
    target = _free_name(run)
    if begin.set_aside(run, target).changes:
        text = f"interrupted edits are kept in {run.tools.layout.shown(target)}"
        run.record(NewEvent(EventType.WORKSPACE_RESTORED, text))


def _free_name(run: Run) -> Path:
    """Return where the diff goes; a step can be cut off more than once."""
    name, again = f"{run.row.current_step_index + 1:03d}", 1
    path = run.folder.interrupted / f"{name}.diff"
    while path.exists():
        again += 1
        path = path.with_name(f"{name}-{again}.diff")
    return path


def _check_resumable(row: RunRow) -> None:
    run_id = row.run_id
    if row.status == "running":
        fix = [f"treadle log -f {run_id}", f"treadle stop {run_id}"]
        raise BlockedError(f"run {run_id} is running", code="still_running", fix=fix)
    if row.status == "passed":
        text = f"run {run_id} has passed; there is nothing left to go on with"
        raise BlockedError(text, code="not_resumable", fix=[f"treadle why {run_id}"])


def require_not_superseded(store: Reader, row: RunRow) -> None:
    """Refuse to go on with one of several runs when another of them has landed."""
    if instead := tries.successor(store, row):
        raise BlockedError(
            f"run {instead.run_id} of the same set landed instead of run {row.run_id}",
            code="superseded",
            fix=[f"treadle compare {row.run_id}", f"treadle undo {instead.run_id}"],
        )


def _require_agents(run: Run) -> None:
    """Refuse to start a program that only the record names."""
    unknown = {role: it for role, it in run.order.agents.items() if not _is_known(run, it)}
    if not unknown:
        return
    run.tools.store.release(run.id, run.row.claim_epoch)
    agent = next(iter(unknown.values()))
    words = agent.config.cmd or agent.config.run or (agent.config.type,)
    today = ((role, agents.resolve(run.tools.today, role)[0]) for role in unknown)
    swaps = " ".join(f"--agent {role}={name}" for role, name in today)
    raise BlockedError(
        f"run {run.id} began with an agent {agent.name} that today's configuration does not"
        f" have: {' '.join(words)}",
        code="agent_unknown",
        fix=[f"treadle run --resume {run.id} {swaps}", "treadle config show"],
    )


def _is_known(run: Run, agent: NamedAgent) -> bool:
    config, script = agent.config, run.order.script
    if config.type in ("builtin", "replay") and not config.run:
        return True
    if script and config.type == "builtin" and config.run == script.argv:
        return Path(script.argv[-1]).is_relative_to(run.tools.layout.routines)
    if run.memory.trial and config == AgentConfig(type=agent.name, model=config.model):
        return agent.name in TOOLS  # as the person named it with --try
    return run_order.is_known(agent, run.tools.today)


def change_order(
    run: Run, config: Config, budgets: Mapping[str, float], swaps: Mapping[str, str]
) -> None:
    """Let a run go on with other limits or agents than it began with."""
    order = run.order
    if not run.memory.trial:  # which model was tried stays
        now = {role: run_order.mended(it, config) for role, it in order.agents.items()}
        order = structs.replace(order, agents=now)
    if config.checks.anyway:
        order = structs.replace(order, checks=structs.replace(order.checks, anyway=True))
    if budgets:
        order = structs.replace(order, budgets=structs.replace(order.budgets, **budgets))
    if swaps:
        order = structs.replace(order, agents=order.agents | named(config, swaps, swaps))
    run.order = order
    _require_agents(run)


def raised(budgets: Mapping[str, float]) -> Iterator[NewEvent]:
    """Tell which limits a person has changed."""
    if budgets:
        words = ", ".join(f"{key} = {value:g}" for key, value in budgets.items())
        yield NewEvent(EventType.BUDGET_RAISED, words, budgets)
