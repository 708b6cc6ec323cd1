"""Begin a run: write down what was asked, then make its branch and workspace."""

import contextlib
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from treadle import layout
from treadle.agents import table
from treadle.config.schema import Config
from treadle.contract import ROLES, EventType
from treadle.engine.run import confinement, memory, run_files
from treadle.engine.run.memory import Progress, RunMemory
from treadle.engine.run.order import Order
from treadle.engine.run.run import Run, Timeline, Tools, has_commands, name_some, reach
from treadle.errors import BlockedError, GitError, ProjectError
from treadle.files import atomic, beneath, sync
from treadle.git import build, refs, repo, settings, workspace
from treadle.git.repo import Head
from treadle.git.workspace import Workspace
from treadle.ids import new_run_id, utc
from treadle.layout import STDERR, STDOUT, Layout, RunLayout
from treadle.proc import identity
from treadle.proc.keeper import Ended, Limits
from treadle.project.context import workspaces
from treadle.sandbox import jails
from treadle.store.runs import RunRow
from treadle.store.store import Reader
from treadle.tasks import claim

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
    new = not run.workspace.path.exists() or not run.memory.set_up
    run.workspace = replace(run.workspace, config=settings.read(run.tools.repo))
    workspace.create(run.workspace, head)
    _link(run)
    return _set_up(run) if new else None


def setup_failure(run: Run, ended: Ended) -> str:
    """Say what became of the setup."""
    how = f"exited with {ended.exit_code}" if ended.reason == "exit" else ended.detail
    folder = run.folder.folder / "setup"
    logs = (folder / STDERR, folder / STDOUT)
    told = confinement.denied(run, logs, confinement.for_command(run))
    text = f"workspace.setup {how}; its output is in {run.tools.layout.relative(folder)}"
    return f"{text} ({told})" if told else text


def free_port_base(tools: Tools) -> int:
    """Return the first port of a block that no running run was given."""
    taken = {tools.store.kv_value(row.run_id, "port_base") for row in tools.store.running()}
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
    run.record(set_up=True)
    return None


def _undo_setup(run: Run) -> dict[str, object]:
    """Put back what the setup changed; what git ignores is what it was run for, and stays."""
    found = workspace.survey(run.workspace)
    changes, run.ignored = found.changes, frozenset(found.ignored)
    if not changes:
        return {}
    build.write_patch(
        run.workspace, run.head, run.folder.folder / "setup" / "changes.diff", changes
    )
    workspace.restore(run.workspace, run.head)
    return {"undone": [change.path for change in changes[:20]]}


def _run_setup(run: Run, argv: tuple[str, ...]) -> Ended:
    folder = run.folder.folder / "setup"
    beneath.remove_tree(folder)
    folder.mkdir()
    limits = Limits(wall=run.order.checks.timeout, output_bytes=16 << 20)
    return confinement.execute(run, argv, folder / STDOUT, folder / STDERR, limits)


class Extras(NamedTuple):
    """What a message brings into its run's folder and timeline."""

    files: Mapping[str, bytes] = {}
    notes: Sequence[tuple[EventType, str]] = ()


def begin_run(
    tools: Tools,
    order: Order,
    below: RunRow | None = None,
    extras: Extras | None = None,
    *,
    lands: bool = False,
) -> Run:
    """Create the run's folder, row, branch and workspace; each of them survives a kill.

    It begins where the user's checkout stands, or on the work of the run `below`.
    """
    if order.script is None:
        check_possible(order)
    head = repo.head(tools.repo)
    if head.commit is None:
        raise ProjectError(
            "this repository has no commit yet, so there is nothing to work on",
            code="no_commit",
            fix=["git add -A", "git commit -m 'Begin'"],
        )
    with tools.beginning:
        run = _new(tools, order, head)
        if lands:
            run.memory = run.memory._replace(lands=True)
        if below and below.base_branch == head.branch and below.head_commit:
            _stack(run, below, below.head_commit)
        _write_down(run, extras)
    tools.watch(Progress(kind="run", run_id=run.id, message=order.goal))
    _prepare(run)
    return run


def _write_down(run: Run, extras: Extras | None) -> None:
    """Make the run's folder, then its row."""
    if run.order.task_id:
        claim.begin_run(run.tools.store, run.order.task_id, run.id, run.tools.now())
    _note_start(run, extras)
    _write_folder(run, extras)
    reach("before_run_row")
    # After a power cut the folder brings the row back.
    run.tools.store.insert_run(run.row, run.recorded, memory.encode(run.memory), lasting=False)
    reach("after_run_row")


def _prepare(run: Run) -> None:
    """Make branch and workspace; what git cannot make ends the run, and is the answer."""
    try:
        prepare(run)
    except GitError as error:
        run.end("failed", error.code, error.message)
        run.obstacle = error


def check_possible(order: Order) -> None:
    """Refuse a run that could never pass or never change anything."""
    if order.agent("check").config.type == "builtin" and not has_commands(order):
        bare = [item.id for item in order.criteria if item not in order.commands]
        raise BlockedError(
            f"nobody can check {', '.join(bare)}: give each a command or configure [agents.check]",
            code="nobody_checks",
            fix=[f'--verify "{id_}=COMMAND"' for id_ in bare],
        )
    agents = [(order.agent(role).config, role) for role in ROLES]
    if not any(table.can_change(config, role) for config, role in agents):
        raise BlockedError(
            "neither do nor act can change anything: configure [agents.do] or [agents.act]",
            code="nobody_works",
            fix=["treadle config show"],
        )


def new_row(place: Layout, store: Reader, order: Order, now: datetime, head: Head) -> RunRow:
    """Return the row of a run that nobody drives yet."""
    run_id = new_run_id(now, store.last_run_id(), secrets.randbits(24))
    return RunRow(
        run_id=run_id,
        created_at=utc(now),
        goal=order.goal,
        status="stopped",
        iteration=1,
        current_step_index=0,
        verdict=None,
        run_dir=place.relative(place.run(run_id).folder),
        task_id=order.task_id,
        message_id=order.message.id if order.message else None,
        routine=order.message.routine if order.message else "develop",
        base_commit=head.commit,
        base_branch=head.branch,
        branch=None if order.in_project else order.workspace.branch.format(run_id=run_id),
        head_commit=head.commit,
    )


def _new(tools: Tools, order: Order, head: Head) -> Run:
    row = new_row(tools.layout, tools.store, order, tools.now(), head)
    row = row._replace(status="running", claim_epoch=1, owner=identity.current().encode())
    folder = tools.layout.run(row.run_id)
    run = Run(
        tools=tools,
        order=order,
        row=row,
        folder=folder,
        timeline=Timeline(0, tools.now, tools.mask),
        workspace=workspace_of(tools, order, folder, head.branch),
        tree=repo.tree_of(tools.repo, head.commit or ""),
        memory=RunMemory(port_base=free_port_base(tools)),
    )
    return confinement.confine(run)


def _stack(run: Run, below: RunRow, commit: str) -> None:
    run.row = run.row._replace(base_commit=commit, head_commit=commit)
    run.tree = repo.tree_of(run.tools.repo, commit)
    run.memory = run.memory._replace(stacked_on=below.run_id)


def _note_start(run: Run, extras: Extras | None) -> None:
    run.timeline.add(
        EventType.RUN_STARTED,
        run.order.goal,
        base_commit=run.row.base_commit,
        branch=run.row.branch,
        criteria=list(run.order.ids),
    )
    for kind, message in extras.notes if extras else ():
        run.timeline.add(kind, message)
    if run.order.message:
        run.timeline.add(
            EventType.ROUTINE_CHOSEN,
            f"{run.order.message.routine}: {run.order.message.reason}",
            routine=run.order.message.routine,
            source=run.order.message.source,
        )
    if run.order.sandbox.mode != "off" and confinement.tier(run) == "0":
        message = f"NO SANDBOX: {jails.probe(run.order.sandbox.tier).reason}"
        run.tools.watch(Progress(kind="note", run_id=run.id, message=message))
    if not run.order.in_project:
        _note_dirty(run)
    run.recorded.extend(run.timeline.take())


def _note_dirty(run: Run) -> None:
    if dirty := repo.dirty_files(run.tools.repo.root):
        names = name_some(dirty)
        message = f"uncommitted files are not part of this run: {names}"
        run.timeline.add(EventType.BASE_DIRTY, message, files=list(dirty[:20]), count=len(dirty))
        run.tools.watch(Progress(kind="note", run_id=run.id, message=message))


def _write_folder(run: Run, extras: Extras | None) -> None:
    """Write the run's folder under another name and rename it: it is there whole, or not."""
    runs = run.tools.layout.runs
    is_first = not runs.exists()
    staged = run.tools.layout.staged_run(run.id)
    os.makedirs(staged)
    new = {
        f"{staged}/{layout.README}": _readme(run).encode(),
        f"{staged}/{layout.SPEC}": _text(run),
        f"{staged}/{layout.RUN_JSON}": run_files.encode_run(
            run.order, run.row, run.recorded, memory.encode(run.memory)
        ),
    }
    filled, empty = [], [f"{staged}/{layout.STEPS}", f"{staged}/{layout.LIVE}"]
    if extras and extras.files:
        filled.append(f"{staged}/{layout.MESSAGE}")
        new |= {f"{filled[0]}/{name}": data for name, data in extras.files.items()}
    for folder in (*filled, *empty):
        os.mkdir(folder)
    for path, data in new.items():
        atomic.create(path, data)
    sync.sync_all([staged, *filled, *new])
    sync.rename_new(staged, run.folder.folder)
    # The new folder's own name, and in a fresh project its parents', must be durable too.
    for above in (runs, runs.parent, runs.parent.parent) if is_first else (runs,):
        atomic.sync(above)


def _text(run: Run) -> bytes:
    return run.order.text.encode() + b"\n"


def _readme(run: Run) -> str:
    lines = [f"# {run.order.goal}", "", f"Run `{run.id}`", "", "## Acceptance criteria", ""]
    for item in run.order.criteria:
        command = f": `$ {item.verify}`" if item in run.order.commands else ""
        lines.append(f"- **{item.id}** {item.text}{command}")
    lines += ["", "## Budgets", ""]
    budgets = run.order.budgets
    for key in budgets.__struct_fields__:
        if getattr(budgets, key) is not None:
            lines.append(f"- {key} = {getattr(budgets, key)}")
    lines += ["", "## Agents", ""]
    for role in ROLES:
        agent = run.order.agent(role)
        lines.append(f"- {role}: {agent.name} ({agent.config.type})")
    return "\n".join(lines) + "\n"
