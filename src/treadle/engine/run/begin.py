"""Begin a run: write down what was asked, then make its branch and workspace."""

import contextlib
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from treadle import layout
from treadle.agents import table
from treadle.config.schema import Config
from treadle.contract import ROLES, EventType, NewEvent
from treadle.engine.run import confinement, memory, run_files
from treadle.engine.run.memory import Progress, RunMemory
from treadle.engine.run.order import Order
from treadle.engine.run.run import Run, Tools, reach
from treadle.engine.run.run_files import RunFile
from treadle.errors import BlockedError, GitError, ProjectError
from treadle.files import atomic, beneath, sync
from treadle.git import build, refs, repo, workspace
from treadle.git.repo import Head
from treadle.git.workspace import Survey, Workspace
from treadle.ids import new_run_id, utc
from treadle.layout import STDERR, STDOUT, Layout
from treadle.proc import identity
from treadle.proc.keeper import Ended
from treadle.project.context import workspaces
from treadle.sandbox import jails
from treadle.store.runs import RunRow
from treadle.store.store import Reader
from treadle.tasks import claim
from treadle.text import name_some

_FIRST_PORT = 20_000
_PORTS = 20


def open_run(tools: Tools, order: Order, row: RunRow, **known: Any) -> Run:
    """Return the run as far as it is known, with hands on its workspace, made or not."""
    run = Run(
        tools=tools,
        order=order,
        row=row,
        folder=tools.layout.run(row.run_id),
        workspace=workspace_of(tools, order, row),
        tree=repo.tree_of(tools.repo, row.head_commit or row.base_commit or ""),
        **known,
    )
    return confinement.confine(run)


def workspace_of(tools: Tools, order: Order, row: RunRow) -> Workspace:
    """Return the run's workspace, made or not, before git is confined in it."""
    root = workspaces(tools.project, Config(workspace=order.workspace))
    return Workspace(
        repo=tools.repo,
        path=root / row.run_id,
        index=tools.layout.run(row.run_id).index,
        branch=row.base_branch,
        config=tools.git_settings,
    )


def prepare(run: Run) -> None:
    """Bring branch and workspace to the run's head; a setup that fails ends the run."""
    failed = None if run.order.in_project else reopen(run)
    if failed and failed.reason == "stopped":
        run.end("stopped", "interrupted", failed.detail)
    elif failed:
        run.end("failed", "setup_failed", setup_failure(run, failed))


def reopen(run: Run) -> Ended | None:
    """Bring branch and workspace to the run's head; return how the setup failed, if it did."""
    name, head, ws = run.row.branch or "", run.head, run.workspace
    if refs.resolve(run.tools.repo, name) is None:
        refs.create(run.tools.repo, name, head)
    new = not ws.path.exists() or not run.memory.set_up
    workspace.create(ws, head)
    with contextlib.suppress(FileExistsError):
        run.folder.workspace_link.symlink_to(ws.path)
    return _set_up(run) if new else None


def set_aside(run: Run, target: Path) -> Survey:
    """Keep what differs in the workspace as a diff and put it back; return what was seen."""
    found = survey(run)
    if found.changes:
        target.parent.mkdir(exist_ok=True)
        build.write_patch(run.workspace, run.head, target, found.changes)
        workspace.restore(run.workspace, run.head)
    return found


def survey(run: Run) -> Survey:
    """List what differs in the workspace, and remember what git ignores there."""
    found = workspace.survey(run.workspace)
    run.ignored = frozenset(found.ignored)
    return found


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


def _set_up(run: Run) -> Ended | None:
    path = run.workspace.path
    copied, setup = workspace.copy_included(run.tools.repo, path), run.order.workspace.setup
    data: dict[str, object] = {"path": str(path)}
    if copied:
        data["copied"] = list(copied[:100])
    if setup:
        folder = run.folder.folder / "setup"
        beneath.remove_tree(folder)
        folder.mkdir()
        ended = confinement.execute(run, setup, folder / STDOUT, folder / STDERR)
        if ended.reason != "exit" or ended.exit_code != 0:
            return ended
        # What git ignores is what the setup was run for, and stays.
        if changes := set_aside(run, folder / "changes.diff").changes:
            data["undone"] = [change.path for change in changes[:20]]
    elif copied:
        survey(run)
    run.record(NewEvent(EventType.WORKSPACE_READY, f"workspace at {path}", data), set_up=True)
    return None


class Extras(NamedTuple):
    """What a message brings into its run's folder and timeline."""

    files: Mapping[str, bytes] = {}
    notes: Sequence[NewEvent] = ()


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
        text = "this repository has no commit yet, so there is nothing to work on"
        raise ProjectError(text, code="no_commit", fix=["git add -A", "git commit -m 'Begin'"])
    with tools.beginning:
        known = RunMemory(port_base=free_port_base(tools), lands=lands)
        if below and below.base_branch == head.branch and below.head_commit:
            head = head._replace(commit=below.head_commit)
            known = known._replace(stacked_on=below.run_id)
        row = new_row(tools.layout, tools.store, order, tools.now(), head)
        row = row._replace(status="running", claim_epoch=1, owner=identity.current().encode())
        run = open_run(tools, order, row, memory=known)
        _write_down(run, extras)
    tools.watch(Progress(kind="run", run_id=run.id, message=order.goal))
    try:
        prepare(run)
    except GitError as error:  # it ends the run, and is the answer
        run.end("failed", error.code, error.message)
        run.obstacle = error
    return run


def _write_down(run: Run, extras: Extras | None) -> None:
    """Make the run's folder, then its row."""
    if run.order.task_id:
        claim.begin_run(run.tools.store, run.order.task_id, run.id, run.tools.now())
    run.recorded += run.events(_beginning(run, extras.notes if extras else ()))
    run.last_seq = len(run.recorded)
    _write_folder(run, extras)
    reach("before_run_row")
    # After a power cut the folder brings the row back.
    run.tools.store.insert_run(run.row, run.recorded, memory.encode(run.memory), lasting=False)
    reach("after_run_row")


def check_possible(order: Order) -> None:
    """Refuse a run that could never pass or never change anything."""
    bare = [item.id for item in order.criteria if item not in order.commands]
    if order.agent("check").config.type == "builtin" and bare:
        text = f"nobody can check {', '.join(bare)}: give each a command"
        fix = [f'--verify "{id_}=COMMAND"' for id_ in bare]
        raise BlockedError(f"{text} or configure [agents.check]", code="nobody_checks", fix=fix)
    agents = [(order.agent(role).config, role) for role in ROLES]
    if not any(table.can_change(config, role) for config, role in agents):
        text = "neither do nor act can change anything: configure [agents.do] or [agents.act]"
        raise BlockedError(text, code="nobody_works", fix=["treadle config show"])


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


def _beginning(run: Run, notes: Sequence[NewEvent]) -> Iterator[NewEvent]:
    """Yield what happens first; what the user may want to see to is said at once."""
    order, row, message = run.order, run.row, run.order.message
    known = {"base_commit": row.base_commit, "branch": row.branch, "criteria": list(order.ids)}
    yield NewEvent(EventType.RUN_STARTED, order.goal, known)
    yield from notes
    if message:
        chosen = {"routine": message.routine, "source": message.source}
        text = f"{message.routine}: {message.reason}"
        yield NewEvent(EventType.ROUTINE_CHOSEN, text, chosen)
    if order.sandbox.mode != "off" and confinement.tier(run) == "0":
        run.tools.note(run.id, f"NO SANDBOX: {jails.probe(order.sandbox.tier).reason}")
    dirty = () if order.in_project else repo.dirty_files(run.tools.repo.root)
    if dirty:
        text = f"uncommitted files are not part of this run: {name_some(dirty)}"
        run.tools.note(run.id, text)
        left = {"files": list(dirty[:20]), "count": len(dirty)}
        yield NewEvent(EventType.BASE_DIRTY, text, left)


def _write_folder(run: Run, extras: Extras | None) -> None:
    """Write the run's folder under another name and rename it: it is there whole, or not."""
    runs = run.tools.layout.runs
    is_first = not runs.exists()
    staged = run.tools.layout.staged_run(run.id)
    os.makedirs(staged)
    found = RunFile(run.order, run.row, run.recorded, memory.encode(run.memory))
    new = {
        f"{staged}/{layout.README}": _readme(run).encode(),
        f"{staged}/{layout.SPEC}": run.order.text.encode() + b"\n",
        f"{staged}/{layout.RUN_JSON}": run_files.encode_run(found),
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
