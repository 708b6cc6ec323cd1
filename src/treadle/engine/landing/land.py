"""Bring a passed run's work into a branch of the user, or take it out again by its inverse."""

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from treadle.contract.messages import Observed
from treadle.engine.checks import observe
from treadle.engine.elsewhere import fleet_run
from treadle.engine.landing import move, tracker
from treadle.engine.run import begin, memory, resume
from treadle.engine.run.memory import Move, Moved
from treadle.engine.run.order import Order
from treadle.engine.run.run import Run, Tools, name_some
from treadle.errors import BlockedError, ExitCode, InterruptedRun
from treadle.files import beneath
from treadle.git import build, obstacles, refs, repo, scratch, workspace
from treadle.git.build import Conflict
from treadle.git.refs import OWN_PREFIX
from treadle.git.scratch import Scratch
from treadle.ids import is_run_id
from treadle.store.runs import RunRow, StepRow
from treadle.text import line


def require_checks(run: Run, commit: str) -> None:
    """Check a merged commit where the run's own commits were checked."""
    if not run.order.commands:
        return
    if run.memory.stop_requested:
        run.record(stop_requested=None)
    if observe.in_clean_place(run):
        found = _observe(run, commit)
    else:
        found = _observe_in_workspace(run, commit)
    failed = [seen for seen in found if not seen.passed]
    if failed:
        names = ", ".join(f"{seen.id} ({seen.command})" for seen in failed)
        where = run.tools.layout.relative(run.folder.landing)
        raise BlockedError(
            f"merged with what came meanwhile, the work no longer passes: {names}",
            code="checks_failed",
            fix=[*(f"cat {where}/{seen.id}.txt" for seen in failed), _again(run)],
        )


def _observe_in_workspace(run: Run, commit: str) -> tuple[Observed, ...]:
    """Use the run's workspace, which is put back afterwards."""
    _open_workspace(run)
    workspace.restore(run.workspace, commit)
    try:
        return _observe(run, commit)
    finally:
        workspace.restore(run.workspace, run.head)


def _open_workspace(run: Run) -> None:
    failed = begin.reopen(run)
    if failed and failed.reason == "stopped":
        raise _interrupted(failed.detail)
    if failed:
        raise BlockedError(begin.setup_failure(run, failed), code="checks_failed")


def _observe(run: Run, commit: str) -> tuple[Observed, ...]:
    beneath.remove_tree(run.folder.landing)
    run.folder.landing.mkdir()
    seen, stopped = observe.Bench(run, commit).observe(run.folder.landing)
    if stopped:
        raise _interrupted(stopped)
    for item in seen:
        observe.note_observed(run, item, " on the merged tree")
    return seen


def _interrupted(reason: str) -> InterruptedRun:
    code = ExitCode.INTERRUPTED if "SIGINT" in reason else ExitCode.TERMINATED
    return InterruptedRun(f"not landed: {reason}", exit_code=code)


def _again(run: Run) -> str:
    return f"treadle run {run.row.task_id}" if run.row.task_id else "treadle run --goal …"


_SUBJECT = 72


def landing_message(order: Order, run_id: str) -> str:
    """Return the message of a landing: the goal, and where it came from."""
    return _message(_line(order.goal), order, run_id)


def step_message(order: Order, run_id: str, row: StepRow) -> str:
    """Return the message of one step that is brought in by itself."""
    return _message(f"{row.role} {row.iteration}: {_line(order.goal)}", order, run_id)


def undo_message(order: Order, run_id: str, commit: str) -> str:
    """Return the message of the commit that takes a landing back."""
    text = f"Undo: {_line(order.goal)}"
    return _message(text, order, run_id, f"This takes back {commit}.")


def _message(text: str, order: Order, run_id: str, body: str = "") -> str:
    short = text if len(text) <= _SUBJECT else f"{text[: _SUBJECT - 1].rstrip()}…"
    parts = [short, text if short != text else "", body, _trailers(order, run_id)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _trailers(order: Order, run_id: str) -> str:
    lines = [f"Treadle-Run: {run_id}"]
    if order.task_id:
        lines.append(f"Treadle-Task: {order.task_id}")
    if order.message and order.message.spec:
        lines.append(f"Treadle-Spec: {order.message.spec}")
    return "\n".join(lines)


def _line(goal: str) -> str:
    return " ".join(line(goal).split())


_NAMED = 20


def require_clear(run: Run, place: Scratch, old: str, new: str) -> None:
    """Name the files that would be overwritten; `new` may still lie in the scratch place."""
    where = run.tools.repo.place | {"GIT_OBJECT_DIRECTORY": str(place.store)}
    found = obstacles.find(run.tools.repo.root, where, old, new)
    if found.staged:
        names = _words(found.staged)
        raise _refusal("staged", "staged_files", found.staged, [f"git commit -- {names}"])
    if found.unstaged:
        names = _words(found.unstaged)
        fix = [f"git diff -- {names}", f"git commit -- {names}", f"git stash push -- {names}"]
        raise _refusal("uncommitted", "uncommitted_files", found.unstaged, fix)
    if found.unknown:
        fix = [f"mv {name} {name}.mine" for name in map(shlex.quote, found.unknown[:_NAMED])]
        raise _refusal("unknown to git", "file_in_the_way", found.unknown, fix)


def _words(paths: Sequence[str]) -> str:
    return shlex.join(paths[:_NAMED])


def _refusal(what: str, code: str, paths: Sequence[str], fix: list[str]) -> BlockedError:
    return BlockedError(
        f"files in your checkout that are {what} would be overwritten: {name_some(paths)}",
        code=code,
        fix=fix,
        details={"files": list(paths)},
    )


class Landed(NamedTuple):
    """Where a run's work is now; without a commit there was nothing to bring in."""

    run_id: str
    branch: str
    commit: str | None
    merged: bool = False


class Part(NamedTuple):
    """One commit to be: the change between two trees of the run, and what to say about it."""

    base: str
    tree: str
    message: str


class LandingCommit(NamedTuple):
    """The commit that the branch should stand on, and its tree."""

    commit: str
    tree: str
    is_merged: bool = False


def land(tools: Tools, row: RunRow, *, onto: str | None = None, keep_steps: bool = False) -> Landed:
    """Land a run, or raise BlockedError with everything as it was."""
    _require_passed(row)
    fleet_run.bring_here(tools, row)
    run = resume.take_up(tools, row)
    try:
        move.finish_move(run)
        _require_not_landed(run)
        with move.refusals(run, "land"):
            _require_ground(run)
            return _bring(run, _target(run, onto), keep_steps)
    finally:
        tools.store.release(run.id, run.row.claim_epoch)


def _bring(run: Run, name: str, keep_steps: bool) -> Landed:
    tip = _tip(run, name)
    refs.require_quiet(run.tools.repo, name)
    place = scratch.make(run.tools.repo, run.folder.live / "land")
    try:
        built = _build(run, place, tip, keep_steps)
        if built.commit == tip:
            return Landed(run.id, name, None)
        if refs.is_checked_out(run.tools.repo, name):
            refs.require_unlocked(run.tools.repo, name)
            require_clear(run, place, tip, built.commit)
        scratch.keep(place)
    finally:
        scratch.drop(place)
    if built.is_merged:
        require_checks(run, built.commit)
    move.make_move(run, Move(what="land", branch=name, old=tip, commit=built.commit))
    return Landed(run.id, name, built.commit, built.is_merged)


def _build(run: Run, place: Scratch, tip: str, keep_steps: bool) -> LandingCommit:
    """Put the run's change on the tip, as one commit or step by step; no change, no commit."""
    is_base, signs = tip == run.row.base_commit, build.signs_commits(run.tools.git_settings)
    built = LandingCommit(tip, repo.tree_of(run.tools.repo, tip))
    if keep_steps and is_base and not signs and not run.order.message:
        return LandingCommit(run.head, run.tree)
    parts = tuple(_parts(run, keep_steps))
    for part in parts:
        tree = combine(place, part.base, built.tree, part.tree, _by_hand(run))
        is_merged = tree != run.tree
        if part is parts[-1]:
            tree = tracker.listed(run, place, tip, tree)
        if tree != built.tree:
            new = commit_on(run, place, tree, built.commit, part.message)
            built = LandingCommit(new, tree, is_merged)
    return built


def commit_on(run: Run, place: Scratch, tree: str, parent: str, text: str) -> str:
    """Commit a tree as the user would; no branch moves."""
    settings = run.tools.git_settings
    who, sign = build.committer(settings, run.tools.env), build.signs_commits(settings)
    return build.commit_tree(place, tree, parent, text, when=run.tools.now(), who=who, sign=sign)


def combine(place: Scratch, base: str, ours: str, theirs: str, fix: Sequence[str]) -> str:
    """Merge three trees; BlockedError names the files that both sides changed."""
    if ours == base:
        return theirs
    found = build.three_way(place, base, ours, theirs)
    if isinstance(found, Conflict):
        raise BlockedError(
            f"both sides changed {name_some(found.paths)}",
            code="merge_conflict",
            fix=fix,
            details={"files": list(found.paths)},
        )
    return found.tree


def _by_hand(run: Run) -> tuple[str, ...]:
    """Return how to go on where git cannot merge: by hand, or by a new run from the new base."""
    again = f"treadle run {run.row.task_id}" if run.row.task_id else "treadle run --goal …"
    return f"git merge {shlex.quote(run.row.branch or '')}", again


def _parts(run: Run, keep_steps: bool) -> Iterator[Part]:
    base = repo.tree_of(run.tools.repo, run.row.base_commit or "")
    if not keep_steps:
        yield Part(base, run.tree, landing_message(run.order, run.id))
        return
    for step in run.tools.store.steps(run.id):
        if step.tree and step.tree != base:
            yield Part(base, step.tree, step_message(run.order, run.id, step))
            base = step.tree
    if run.order.message:
        yield Part(base, base, landing_message(run.order, run.id))


def _require_passed(row: RunRow) -> None:
    if row.status != "passed":
        raise BlockedError(
            f"run {row.run_id} has not passed: it is {row.status}",
            code="not_passed",
            fix=[f"treadle why {row.run_id}"],
        )


def _require_not_landed(run: Run) -> None:
    landed = run.memory.landed
    if landed and not run.memory.undone:
        raise BlockedError(
            f"run {run.id} landed already: {landed.commit[:12]} on {landed.branch}",
            code="already_landed",
            fix=[f"git show {landed.commit[:12]}", f"treadle undo {run.id}"],
        )


def _require_ground(run: Run) -> None:
    """Refuse a run that builds on another one's work before that is in."""
    below = run.memory.stacked_on
    if below and not memory.recall(run.tools.store, below).landed_commit:
        raise BlockedError(
            f"run {run.id} builds on run {below}, which has not landed",
            code="stacked",
            fix=[f"treadle land {below}", f"treadle land {run.id}"],
        )


def _target(run: Run, onto: str | None) -> str:
    name = onto.removeprefix("refs/heads/") if onto else run.row.base_branch
    again = f"treadle land {run.id} --onto BRANCH"
    if not name:
        raise BlockedError(
            f"run {run.id} began on a detached HEAD; say which branch it should land on",
            code="no_branch",
            fix=["git branch", again],
        )
    own = name.startswith(OWN_PREFIX) and is_run_id(name.removeprefix(OWN_PREFIX))
    if name == run.row.branch or own:
        text = f"{name} is a run's own branch, which only its steps move"
        raise BlockedError(text, code="own_branch", fix=[again])
    return name


def _tip(run: Run, name: str) -> str:
    found = refs.resolve(run.tools.repo, name)
    if found is None:
        base = (run.row.base_commit or "")[:12]
        raise BlockedError(
            f"there is no branch {name}",
            code="branch_missing",
            fix=[
                f"git branch {shlex.quote(name)} {base}",
                f"treadle land {run.id} --onto BRANCH",
            ],
        )
    return found


class Undone(NamedTuple):
    """The inverse; `exact` says that the tree is the very one from before the landing."""

    run_id: str
    branch: str
    commit: str | None
    exact: bool


def undo(tools: Tools, row: RunRow) -> Undone:
    """Undo a landing, or raise BlockedError with everything as it was."""
    fleet_run.bring_here(tools, row)
    run = resume.take_over(tools, row)
    try:
        move.finish_move(run)
        landed = _landed(run)
        with move.refusals(run, "undo"):
            return _invert(run, landed)
    finally:
        tools.store.release(run.id, run.row.claim_epoch)


def _invert(run: Run, landed: Moved) -> Undone:
    tip = _undo_tip(run, landed)
    place_repo, name = run.tools.repo, landed.branch
    refs.require_quiet(place_repo, name)
    before, after, now = (
        repo.tree_of(place_repo, commit) for commit in (landed.old, landed.commit, tip)
    )
    place = scratch.make(place_repo, run.folder.live / "undo")
    try:
        tree = combine(place, after, now, before, [f"git revert {landed.commit[:12]}"])
        if tree == now:
            return Undone(run.id, name, None, False)
        text = undo_message(run.order, run.id, landed.commit)
        new = commit_on(run, place, tree, tip, text)
        if refs.is_checked_out(place_repo, name):
            refs.require_unlocked(place_repo, name)
            require_clear(run, place, tip, new)
        scratch.keep(place)
    finally:
        scratch.drop(place)
    move.make_move(run, Move(what="undo", branch=name, old=tip, commit=new))
    return Undone(run.id, name, new, repo.tree_of(place_repo, new) == before)


def _landed(run: Run) -> Moved:
    undone = run.memory.undone
    if undone:
        raise BlockedError(
            f"run {run.id} is undone already: {undone.commit[:12]} on {undone.branch}",
            code="already_undone",
            fix=[f"git show {undone.commit[:12]}", f"treadle land {run.id}"],
        )
    landed = run.memory.landed
    if landed is None:
        raise BlockedError(
            f"run {run.id} has not landed, so there is nothing to undo",
            code="not_landed",
            fix=[f"treadle runs show {run.id}"],
        )
    return landed


def _undo_tip(run: Run, landed: Moved) -> str:
    name = shlex.quote(landed.branch)
    tip = refs.resolve(run.tools.repo, landed.branch)
    if tip is None:
        text = f"there is no branch {landed.branch}, on which run {run.id} landed"
        raise BlockedError(text, code="branch_missing", fix=[f"git branch {name} BASE"])
    if not refs.contains(run.tools.repo, tip, landed.commit):
        raise BlockedError(
            f"{landed.branch} no longer holds {landed.commit[:12]}: its history was rewritten",
            code="not_in_branch",
            fix=[f"git log --oneline -5 {name}"],
        )
    return tip
