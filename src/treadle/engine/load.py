"""Take up a run again from what its files and the store say."""

from msgspec import structs

from treadle.engine import confined, floor, place, restore, runfile
from treadle.engine.run import Run, Tools
from treadle.engine.timeline import Timeline
from treadle.git import repo
from treadle.proc import identity
from treadle.store.runs import RunRow


def take_over(tools: Tools, row: RunRow) -> Run:
    """Become the run's owner; whoever owned it before can commit nothing more."""
    owner = tools.worker or identity.current().encode()
    epoch = tools.store.take_over(row.run_id, owner)
    return load(tools, row._replace(claim_epoch=epoch, owner=owner))


def take_up(tools: Tools, row: RunRow) -> Run:
    """Become the owner of a run whose commands are to run again, within today's bounds."""
    run = take_over(tools, row)
    held = floor.held_to(run.order, tools.today)
    today = structs.replace(tools.today.workspace, branch=held.workspace.branch)
    run.order = structs.replace(held, workspace=today)
    run.workspace = place.workspace_of(tools, run.order, run.folder, row.base_branch)
    return run


def load(tools: Tools, row: RunRow) -> Run:
    """Return the run as its last commit left it."""
    if tools.carrier is None:
        restore.here(tools.layout, tools.store, tools.repo, row, tools.env)
    folder = tools.layout.run(row.run_id)
    found = runfile.read(folder.run_json)
    last_seq = tools.store.last_seq(row.run_id)
    run = Run(
        tools=tools,
        order=found.order,
        row=row,
        folder=folder,
        timeline=Timeline(last_seq, tools.now, tools.mask),
        workspace=place.workspace_of(tools, found.order, folder, row.base_branch),
        tree=repo.tree_of(tools.repo, row.head_commit or row.base_commit or ""),
        kv=dict(tools.store.kv(row.run_id)),
        step_dirs=[
            f"{tools.layout.root}/{step.step_dir}" for step in tools.store.steps(row.run_id)
        ],
        # What run.json holds beyond the store's last event was never committed.
        recorded=[event for event in found.timeline() if event.seq <= last_seq],
    )
    return confined.confine(run)
