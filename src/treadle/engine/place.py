"""Make a run's branch and workspace, as often as needed, from what run.json says."""

import contextlib

from treadle.config.schema import Config
from treadle.contract.event import EventType
from treadle.engine import surroundings
from treadle.engine.order import Order
from treadle.engine.run import Run, Tools
from treadle.files import remove
from treadle.git import diff, refs, workspace
from treadle.git.checkout import Workspace
from treadle.layout import RunLayout
from treadle.proc.keeper import Ended, Limits
from treadle.project.project import workspaces

_FIRST_PORT = 20_000
_PORTS = 20


def workspace_of(
    tools: Tools, order: Order, folder: RunLayout, base_branch: str | None
) -> Workspace:
    """Return the run's workspace, made or not."""
    root = workspaces(tools.project, Config(workspace=order.workspace))
    return Workspace(
        repo=tools.repo,
        path=root / folder.folder.name,
        index=folder.index,
        branch=base_branch,
        config=tools.git_settings,
    )


def prepare(run: Run) -> None:
    """Bring branch and workspace to the run's head; a setup that fails ends the run."""
    if run.order.in_project:
        return
    failed = reopen(run)
    if failed and failed.reason == "stopped":
        run.end("stopped", "interrupted", failed.detail)
    elif failed:
        run.end("failed", "setup_failed", setup_failure(run, failed))


def reopen(run: Run) -> Ended | None:
    """Bring branch and workspace to the run's head; return how the setup failed, if it did."""
    name, head = run.row.branch or "", run.head
    if refs.resolve(run.tools.repo, name) is None:
        refs.create(run.tools.repo, name, head)
    new = not run.workspace.path.exists() or run.kv.get("set_up") is not True
    old = run.workspace
    run.workspace = workspace.create(old.repo, old.path, old.index, head, old.branch, old.runner)
    _link(run)
    return _set_up(run) if new else None


def setup_failure(run: Run, ended: Ended) -> str:
    """Say what became of the setup."""
    how = f"exited with {ended.exit_code}" if ended.reason == "exit" else ended.detail
    folder = run.folder.folder / "setup"
    logs = (folder / "stderr.txt", folder / "stdout.txt")
    told = surroundings.denied(run, logs, surroundings.for_command(run))
    text = f"workspace.setup {how}; its output is in {run.tools.layout.relative(folder)}"
    return f"{text} ({told})" if told else text


def free_port_base(tools: Tools) -> int:
    """Return the first port of a block that no running run was given."""
    taken = {tools.store.kv(row.run_id).get("port_base") for row in tools.store.running()}
    base = _FIRST_PORT
    while base in taken:
        base += _PORTS
    return base


def _link(run: Run) -> None:
    with contextlib.suppress(FileExistsError):
        run.folder.workspace_link.symlink_to(run.workspace.path)


def _set_up(run: Run) -> Ended | None:
    copied = workspace.copy_included(run.tools.repo, run.workspace.path)
    message = f"workspace at {run.workspace.path}"
    data: dict[str, object] = {"path": str(run.workspace.path)}
    if copied:
        data["copied"] = list(copied[:100])
    if run.order.workspace.setup:
        ended = _run_setup(run, run.order.workspace.setup)
        if ended.reason != "exit" or ended.exit_code != 0:
            return ended
        data |= _undo_setup(run)
    elif copied:
        run.ignored = frozenset(workspace.survey(run.workspace).ignored)
    run.timeline.add(EventType.WORKSPACE_READY, message, **data)
    run.record(run.cursor(), {"set_up": True})
    return None


def _undo_setup(run: Run) -> dict[str, object]:
    """Put back what the setup changed; what git ignores is what it was run for, and stays."""
    found = workspace.survey(run.workspace)
    changes, run.ignored = found.changes, frozenset(found.ignored)
    if not changes:
        return {}
    diff.write(run.workspace, run.head, run.folder.folder / "setup" / "changes.diff", changes)
    workspace.restore(run.workspace, run.head)
    return {"undone": [change.path for change in changes[:20]]}


def _run_setup(run: Run, argv: tuple[str, ...]) -> Ended:
    folder = run.folder.folder / "setup"
    remove.remove_tree(folder)
    folder.mkdir()
    limits = Limits(wall=run.order.checks.timeout, idle=None, output_bytes=16 << 20)
    return surroundings.execute(run, argv, folder / "stdout.txt", folder / "stderr.txt", limits)
