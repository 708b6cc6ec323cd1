"""Begin a run: write down what was asked, then make its branch and workspace."""

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any, NamedTuple

from msgspec import structs

from treadle import layout
from treadle.agents import table
from treadle.config.schema import Config
from treadle.contract import ROLES
from treadle.contract.events import EventType, NewEvent, StepError
from treadle.engine.run import ceiling, confinement, memory, night, outage, run_files
from treadle.engine.run.memory import Progress, RunMemory
from treadle.engine.run.order import Order, after_conflict
from treadle.engine.run.run import Run, Tools, reach
from treadle.engine.run.run_files import RunFile
from treadle.errors import BlockedError, GitError, ProjectError, TreadleError, edit
from treadle.files import atomic, beneath, sync
from treadle.git import build, refs, repo, scratch, workspace
from treadle.git.build import Conflict
from treadle.git.repo import Head
from treadle.git.scratch import Scratch
from treadle.git.workspace import Survey, Workspace
from treadle.ids import new_run_id, utc
from treadle.layout import STDERR, STDOUT, Layout
from treadle.proc import identity
from treadle.proc.keeper import Ended
from treadle.project.context import workspaces
from treadle.sandbox import jails
from treadle.store.runs import RunRow
from treadle.tasks import claim
from treadle.tasks import images as task_images
from treadle.tasks.tries import Trial
from treadle.text import name_some


class Ground(NamedTuple):
    """The commit that a run begins on, and the runs whose unlanded work is in it, lowest first."""

    commit: str
    stacked_on: tuple[str, ...] = ()


def ground(tools: Tools, below: Sequence[RunRow], head: str) -> Ground:
    """Return a commit with `head` and the work of the passed runs `below` that have not landed.

    Where they do not go together BlockedError says so. A single run that conflicts with `head`
    alone is built on as it is: it has to be rebased before it lands, and what is above it too.
    """
    rows = _unlanded(tools, below)
    ids = tuple(row.run_id for row in rows)
    if not rows:
        return Ground(head)
    top = rows[-1].head_commit or ""
    known = memory.recall(tools.store, ids[-1]).stacked_on
    if {*ids[:-1]} <= {*known} and refs.contains(tools.repo, top, head):
        return Ground(top, ids)
    place = scratch.make(tools.repo, tools.layout.run(ids[-1]).live / "ground")
    try:
        return Ground(_merge(tools, place, rows, head), ids)
    except BlockedError:
        if len(below) > 1 or not {*ids[:-1]} <= {*known}:
            raise
        return Ground(top, ids)
    finally:
        scratch.drop(place)


def _unlanded(tools: Tools, below: Sequence[RunRow]) -> list[RunRow]:
    """Return the runs that have not landed, each after what it builds on itself."""
    store, found = tools.store, dict[str, RunRow]()
    for row in below:
        under = memory.recall(store, row.run_id).stacked_on
        for item in (*(store.run(run_id) for run_id in under), row):
            if item and (memory.may_land(store, item) or _is_aside(tools, item)):
                found[item.run_id] = item
    return list(found.values())


def _is_aside(tools: Tools, row: RunRow) -> bool:
    """Tell whether a run landed on another branch than the one it began on, which still waits."""
    known = memory.recall(tools.store, row.run_id)
    landed = known.landed if known.landed_commit else None
    if landed is None or landed.branch == row.base_branch:
        return False
    tip = refs.resolve(tools.repo, row.base_branch or "")
    is_open = refs.resolve(tools.repo, landed.branch) is not None
    return is_open and not (tip and refs.contains(tools.repo, tip, landed.commit))


def _merge(tools: Tools, place: Scratch, rows: Sequence[RunRow], head: str) -> str:
    """Commit `head` with each run's own change on top, as landing one after the other would."""
    tree = repo.tree_of(tools.repo, head)
    for number, row in enumerate(rows):
        base, work = row.base_commit or "", row.head_commit or ""
        sides = [repo.tree_of(tools.repo, commit) for commit in (base, work)]
        found = build.three_way(place, sides[0], tree, sides[1])
        if isinstance(found, Conflict):
            raise _conflict(tools, rows[:number], row, found)
        tree = found
    ids = ", ".join(row.run_id for row in rows)
    parents = [head, *(row.head_commit or "" for row in rows)]
    author = build.author_of(tools.git_settings, tools.env)
    text = build.encode_commit(tree, parents, f"Work of {ids}", tools.now(), author)
    name = scratch.write_object(place.store, "commit", text, tools.repo.object_format)
    reach("before_ground")
    scratch.keep(place)
    reach("after_ground")
    return name


def _conflict(tools: Tools, before: Sequence[RunRow], row: RunRow, found: Conflict) -> BlockedError:
    others = "".join(f" with run {item.run_id} ({item.goal})," for item in before)
    known = run_files.read_run(tools.layout.run(row.run_id).run_json)
    return BlockedError(
        f"what it builds on does not go together: run {row.run_id} ({row.goal}) conflicts"
        f"{others or ' with your branch'} in {name_some(found.paths)}",
        code="dependency_conflict",
        fix=[
            *(f"treadle land {item.run_id}" for item in before),
            *after_conflict(known.order, row.run_id),
        ],
        details={"run_id": row.run_id, "files": list(found.paths)},
    )


_FIRST_PORT = 20_000
_PORTS = 20
_MOST_LEFT = 1000


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


def prepare(run: Run, is_excused: Callable[[TreadleError], object] | None = None) -> None:
    """Bring branch and workspace to the run's head; a setup that fails ends the run.

    Unless whoever asks takes it for trouble of this machine: then it is raised.
    """
    failed = None if run.order.in_project else reopen(run)
    if failed and failed.reason == "stopped":
        run.end("stopped", "interrupted", failed.detail)
    elif failed:
        is_killed = failed.reason == "lost" or failed.signal in (SIGKILL, SIGTERM)
        code = StepError.AGENT_LOST if is_killed else StepError.SETUP_FAILED
        error = TreadleError(setup_failure(run, failed), code=code)
        if is_excused and is_excused(error):
            raise error
        run.end("failed", StepError.SETUP_FAILED, error.message)


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
    told = confinement.denied(run, logs, confinement.for_command(run, fetches=True))
    text = f"workspace.setup {how}; its output is in {run.tools.layout.shown(folder)}"
    return f"{text} ({told})" if told else text


def free_port_base(tools: Tools) -> int:
    """Return the first port of a block that no running run was given."""
    taken = {memory.recall(tools.store, row.run_id).port_base for row in tools.store.running()}
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
        ended = confinement.execute(run, setup, folder / STDOUT, folder / STDERR, fetches=True)
        if ended.reason != "exit" or ended.exit_code != 0:
            return ended
        # What is new is what the setup was run for, and stays, ignored or not.
        left = workspace.left_new(run.workspace, run.head)[:_MOST_LEFT]
        run.workspace = replace(run.workspace, kept=left)
        if changes := set_aside(run, folder / "changes.diff").changes:
            data["undone"] = [change.path for change in changes[:20]]
        else:  # the agent's git is to know
            workspace.write_git_dir(run.workspace, run.head)
        if left:
            data["kept"] = list(left[:20])
    elif copied:
        survey(run)
    ready = NewEvent(EventType.WORKSPACE_READY, f"workspace at {path}", data)
    run.record(ready, set_up=True, setup_left=run.workspace.kept)
    return None


class Extras(NamedTuple):
    """What a message brings into its run's folder and timeline, and the branch it is for."""

    files: Mapping[str, bytes] = {}
    notes: Sequence[NewEvent] = ()
    branch: str | None = None


def begin_run(
    tools: Tools,
    order: Order,
    below: Sequence[RunRow] = (),
    extras: Extras | None = None,
    *,
    lands: bool = False,
    trial: Trial | None = None,
    at: Head | None = None,
) -> Run:
    """Create the run's folder, row, branch and workspace; each of them survives a kill.

    It begins where the user's checkout stands, or `at` a commit, with the unlanded work of the
    runs `below`.
    """
    confinement.require_closed(order)
    if order.script is None:
        check_possible(tools.layout, order)
    outage.require_ready(tools, order)
    head = at or repo.head(tools.repo)
    if extras and extras.branch not in (None, head.branch):  # the user has switched meanwhile
        commit = refs.resolve(tools.repo, extras.branch or "")
        head = Head(commit, extras.branch) if commit else head
    if head.commit is None:
        text = "this repository has no commit yet, so there is nothing to work on"
        raise ProjectError(text, code="no_commit", fix=["git add -A", "git commit -m 'Begin'"])
    with tools.beginning:
        night.require(tools, begins=True)
        start = ground(tools, below, head.commit)
        head = head._replace(commit=start.commit)
        known = RunMemory(port_base=free_port_base(tools), lands=lands, stacked_on=start.stacked_on)
        known = known._replace(trial=trial)
        row = new_row(tools.layout, tools.store.last_run_id(), order, tools.now(), head)
        row = row._replace(status="running", claim_epoch=1, owner=identity.current().encode())
        run = open_run(tools, order, row, memory=known)
        _write_down(run, extras)
    tools.watch(Progress(kind="run", run_id=run.id, message=order.goal, name=run.name))
    try:
        prepare(run)
    except GitError as error:  # it ends the run, and is the answer
        run.end("failed", error.code, error.message)
        run.obstacle = error
    return run


def _write_down(run: Run, extras: Extras | None) -> None:
    """Make the run's folder, then its row."""
    shown = task_images.of_task(run.tools.layout, run.order.task_id) if run.order.task_id else {}
    run.order = structs.replace(run.order, images=tuple(shown))
    if run.order.task_id:
        trial, now = run.memory.trial, run.tools.now()
        claim.begin_run(run.tools.store, run.order.task_id, run.id, now, trial=trial)
    run.recorded += run.events(_beginning(run, extras.notes if extras else ()))
    run.last_seq = len(run.recorded)
    _write_folder(run, extras, shown)
    reach("before_run_row")
    # After a power cut the folder brings the row back.
    run.tools.store.insert_run(run.row, run.recorded, memory.encode(run.memory), lasting=False)
    reach("after_run_row")


_HELP = "treadle run --help"


def check_possible(place: Layout, order: Order) -> None:
    """Refuse a run that could never pass or never change anything."""
    bare = [item.id for item in order.criteria if item not in order.commands]
    if order.agent("check").config.type == "builtin" and bare:
        text = f"nobody can check {', '.join(bare)}: give each a command"
        raise BlockedError(
            f'{text}, as in --verify "{bare[0]}=make test", or configure [agents.check]',
            code="nobody_checks",
            fix=[f"treadle task edit {order.task_id} --help" if order.task_id else _HELP],
            details={"criteria": bare},
        )
    agents = [(order.agent(role).config, role) for role in ROLES]
    if not any(table.can_change(config, role) for config, role in agents):
        text = "neither do nor act can change anything: configure [agents.do] or [agents.act]"
        fix = [*(edit(place.relative(path)) for path in place.config_files()), "treadle doctor"]
        raise BlockedError(text, code="nobody_works", fix=fix)


def new_row(place: Layout, last: str | None, order: Order, now: datetime, head: Head) -> RunRow:
    """Return the row of a run that nobody drives yet; its id comes after the `last` one."""
    run_id = new_run_id(now, last, secrets.randbits(24))
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
    for event in ceiling.unheld(run):
        run.tools.note(run.id, event.message, run.name)
        yield event
    if order.sandbox.mode != "off" and confinement.tier(run) == "0":
        text = f"NO SANDBOX: {jails.probe(order.sandbox.tier).reason}"
        run.tools.note(run.id, text, run.name)
    dirty = () if order.in_project else repo.dirty_files(run.tools.layout.root)
    if dirty:
        text = f"uncommitted files are not part of this run: {name_some(dirty)}"
        run.tools.note(run.id, text, run.name)
        left = {"files": list(dirty[:20]), "count": len(dirty)}
        yield NewEvent(EventType.BASE_DIRTY, text, left)


def _write_folder(run: Run, extras: Extras | None, images: Mapping[str, bytes]) -> None:
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
    brought = ((layout.MESSAGE, extras.files if extras else {}), (layout.IMAGES, images))
    for folder, files in ((f"{staged}/{name}", files) for name, files in brought if files):
        filled.append(folder)
        new |= {f"{folder}/{name}": data for name, data in files.items()}
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
