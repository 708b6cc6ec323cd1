"""Move a branch of the user exactly once: write the move down, make it, write down that it is made.

After a kill the next owner of the run looks where the branch stands and finishes the move, or
drops it if the branch went elsewhere or git refuses.
"""

import contextlib
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import structs

from treadle.agents import table
from treadle.contract import Role
from treadle.contract.events import EventType, NewEvent
from treadle.contract.messages import AskedCriterion
from treadle.engine import letters
from treadle.engine.checks import clean
from treadle.engine.landing import tracker
from treadle.engine.run import resume
from treadle.engine.run.memory import SUPERSEDED, LandRefusal, Move, Moved
from treadle.engine.run.run import Run, Tools, reach, readable
from treadle.errors import BlockedError, FormatError, GitError, TreadleError, argument
from treadle.git import refs, trees
from treadle.git import repo as git
from treadle.git.repo import Repo
from treadle.git.trees import Leaf
from treadle.ids import utc
from treadle.store.questions import Action, Subject
from treadle.tasks import claim, questions, tries
from treadle.tasks.questions import Question
from treadle.text import name_some

UNDONE = "undone"  # the matter of the question what becomes of a spec


def make_move(run: Run, move: Move) -> None:
    """Move the branch; only when this returns is the run landed or undone."""
    message = f"{move.what}: {move.branch} goes from {move.old[:12]} to {move.commit[:12]}"
    run.record(NewEvent(EventType.LANDING, message, move._asdict()), landing=move)
    reach("after_intent")
    run.tools.moves.append(move)
    with _spec_known(run, run.tools.repo, move):
        refs.advance(run.tools.repo, move.branch, move.commit, move.old, f"{move.what} {run.id}")
    reach("after_move")
    _finish(run, move)


def written(tools: Tools) -> set[str]:
    """Return what moves have written into the checkout, and nobody has changed since."""
    repo, moved = tools.repo, dict[str, Leaf | None]()
    for move in tools.moves:
        found = trees.changed_files(repo.place, move.old, move.commit)
        moved |= {change.path: change.new for change in found}
    if not moved:
        return set()
    now, dirty = trees.files(repo, "HEAD", moved), {*git.dirty_files(repo.root)}
    kept = {path for path, leaf in moved.items() if now.get(path) == leaf and path not in dirty}
    folders = {above for path in kept for above in trees.above(path) if above}
    return {f"{repo.root}/{path}" for path in kept | folders}


@contextlib.contextmanager
def refusals(run: Run, what: str) -> Iterator[None]:
    """Write down why the block moved no branch, if it did not."""
    try:
        yield
    except (BlockedError, GitError) as error:
        _redirect(run, what, error)
        _refuse(run, what, error)
        raise


def _redirect(run: Run, what: str, error: TreadleError) -> None:
    """Send whoever asked to the work tree in which the branch is checked out."""
    there = Path(str(error.details.get("work_tree", "")), run.tools.repo.prefix)
    if "work_tree" in error.details and there.is_dir():
        name = str(error.details["branch"])
        onto = "" if what != "land" or name == run.row.base_branch else f" --onto {argument(name)}"
        error.fix = (f"cd {argument(str(there))} && treadle {what} {run.id}{onto}",)


def _refuse(run: Run, what: str, error: TreadleError) -> None:
    why = {"what": what, "code": error.code}
    event = NewEvent(EventType.LAND_REFUSED, error.message, why)
    fix = tuple(readable(command) for command in error.fix)
    is_passed = run.row.status == "passed"  # else nothing was to land yet
    told = LandRefusal(what, error.code, readable(error.message), fix) if is_passed else None
    # Where a lock cut git off, files may be written: the move waits to be finished.
    kept = run.memory.landing if error.code == refs.LOCKED else None
    run.record(event, landing=kept, land_refused=told)


def finish_move(run: Run) -> None:
    """Finish or drop a move that a kill cut off; behind a lock it waits as it is."""
    move = run.memory.landing
    if move is None:
        return
    repo, found = _checkout(run, move.branch), refs.resolve(run.tools.repo, move.branch)
    if found and refs.contains(repo, found, move.commit):
        _finish(run, move)
        return
    try:
        if (found or repo.null_id) != move.old:
            where = f"{move.branch} stands on {(found or 'nothing')[:12]}"
            raise BlockedError(f"cut off by a kill, and now {where}", code="branch_moved")
        if refs.is_checked_out(repo, move.branch):
            # A spec of the user's that lies there already is no beginning of git's.
            kept = {tracker.spec_in_git(run)}
            mend = run.folder.live / "mend"
            refs.stage_written(repo, mend, move.branch, move.old, move.commit, kept)
        with _spec_known(run, repo, move):
            refs.advance(repo, move.branch, move.commit, move.old, f"{move.what} {run.id}")
    except (BlockedError, GitError) as error:
        if error.code == refs.LOCKED:
            raise
        _refuse(run, move.what, error)
    else:
        _finish(run, move)


@contextlib.contextmanager
def _spec_known(run: Run, repo: Repo, move: Move) -> Iterator[None]:
    """Let git know the spec that a landing brings to the checkout in which it was written."""
    if move.what != "land" or not refs.is_checked_out(repo, move.branch):
        yield
        return
    with tracker.spec_known(run, repo, move.old, move.commit):
        reach("after_spec")
        yield


def _checkout(run: Run, branch: str) -> Repo:
    """Return the work tree in which a move began: the one that has the branch checked out."""
    here = run.tools.repo
    found = [root for root in refs.work_trees(here, branch) if root.is_dir()]
    return git.find(found[0]) if found and found[0] != here.root else here


def finish_moves(tools: Tools) -> None:
    """Finish or drop what killed processes were about to move."""
    for run_id in tools.store.runs_with_key("landing"):
        row = tools.store.run(run_id)
        if row is None:
            continue
        try:
            run = resume.take_over(tools, row)
            finish_move(run)
        except (BlockedError, FormatError, GitError) as error:
            tools.note(run_id, f"not recovered: {error.message}")
        else:
            tools.store.release(run.id, run.row.claim_epoch)


def _finish(run: Run, move: Move) -> None:
    if move.what == "rebase":
        _finish_rebase(run, move)
        return
    made = Moved(move.branch, move.old, move.commit, utc(run.tools.now()), move.by_hand)
    text, where = (
        f"{move.commit[:12]} on {move.branch}",
        {"commit": move.commit, "branch": move.branch},
    )
    if move.by_hand:
        text += f", where it was {'merged' if move.what == 'land' else 'taken out'} by hand"
    landed, undone = (made, None) if move.what == "land" else (run.memory.landed, made)
    kind = EventType.LANDED if move.what == "land" else EventType.UNDONE
    event = NewEvent(kind, text, where)
    questions.settle(run.tools.store, run.id, str(kind), run.tools.now())
    _see_to_spec(run, made, undone)
    letters.follow_landing(run, move.what)
    _put_branch(run, move.what)
    if move.what == "land":
        _supersede(run)
    reach("before_landed")
    run.record(event, landing=None, land_refused=None, landed=landed, undone=undone)
    reach("after_landed")
    clean.remove_workspace(run.tools, run.row)


def _supersede(landed: Run) -> None:
    """Close the other runs of a set: what they ask is settled, their branches are put away."""
    tools = landed.tools
    for row in tries.beside(tools.store, landed.row):
        run = resume.take_over(tools, row)
        if run.memory.reason_code != SUPERSEDED:
            text = f"run {landed.id} of the same set landed"
            event = NewEvent(EventType.SUPERSEDED, text, {"run_id": landed.id})
            run.record(event, reason_code=SUPERSEDED, reason=text, resume_at=None)
        questions.settle(tools.store, run.id, SUPERSEDED, tools.now())
        _put_branch(run, "land")
        tools.store.release(run.id, run.row.claim_epoch)
        clean.remove_workspace(tools, run.row)


def _put_branch(run: Run, what: str) -> None:
    """Put the branch of a landed run away, its commits held without it; undoing brings it back."""
    here, name = run.tools.repo, run.row.branch or ""
    found = refs.resolve(here, name)
    if what == "land":
        refs.hold(here, run.id, run.head)
        if found == run.head and not refs.work_trees(here, name):
            refs.delete(here, name, run.head)
    elif found is None:
        refs.create(here, name, run.head)


def _see_to_spec(run: Run, made: Moved, undone: Moved | None) -> None:
    """List a spec that landed; ask about one whose work was taken out: it is not begun again."""
    spec, store, now = tracker.spec_of(run), run.tools.store, run.tools.now()
    if spec is None:
        return
    tracker.relist(run, made.branch, tracker.take_out if undone else tracker.put_in)
    about = Subject("spec", spec)
    if undone is None:
        questions.close(store, about, "landed", now, UNDONE)
        return
    question = Question(
        kind="question",
        summary=f"{spec}: its run {run.id} was undone; do it again, or leave it out?",
        subject=about,
        actions=(Action("again"), Action("reject")),
        look=(f"git show {undone.commit[:12]}",),
        matter=UNDONE,
    )
    questions.ask(store, question, now)


RESOLVE = "resolve"  # the criterion that a conflict adds
NOTE = ".conflict"  # how the note beside a file ends that cannot hold conflict markers
REBASED = "rebased"  # the reason of a run that passed before it was rebased


def _finish_rebase(run: Run, move: Move) -> None:
    """Let the run stand on its new base; one that had passed is to be checked again."""
    store, now, known = run.tools.store, run.tools.now(), run.memory
    questions.settle(store, run.id, REBASED, now)
    had_passed = run.row.status == "passed" and run.order.script is None
    if had_passed and run.row.task_id:
        claim.take_back(store, run.row.task_id, run.id, now)
    where = f"on {move.base[:12]}, where {run.row.base_branch} stands"
    ahead: tuple[Role, ...] = ("check",) if had_passed or known.protected else known.ahead
    if move.files:
        where += f", with conflicts in {name_some(move.files)}"
        ahead = ("act" if _can_change(run, "act") else "do", "check")
        run.order = structs.replace(run.order, criteria=_with_conflict(run, move.files))
        known = known._replace(failing=(RESOLVE,), refuted=())
    if had_passed:
        known = known._replace(reason_code=REBASED, reason=f"the change stands {where}")
    store.move_base(run.id, move.base, run.row.claim_epoch)
    reach("after_base")
    run.row = run.row._replace(base_commit=move.base)
    run.tree = git.tree_of(run.tools.repo, move.commit)
    status, verdict = ("stopped", None) if had_passed else (run.row.status, run.row.verdict)
    cursor = run.cursor(status=status, verdict=verdict, head_commit=move.commit)
    told = {"base": move.base, "commit": move.commit, "files": list(move.files[:100])}
    known = known._replace(landing=None, land_refused=None, stacked_on=(), protected=None)
    known = known._replace(ahead=ahead, set_up=False, last_check=None, weather=())
    event = NewEvent(EventType.REBASED, where, told)
    run.record(event, cursor=cursor, **known._asdict())
    reach("after_rebased")
    clean.remove_workspace(run.tools, run.row)


def _can_change(run: Run, role: Role) -> bool:
    return table.can_change(run.order.agent(role).config, role)


def _with_conflict(run: Run, files: Sequence[str]) -> tuple[AskedCriterion, ...]:
    """Return the criteria with one that asks for the end of the conflict."""
    files = [os.path.relpath(name, run.tools.repo.prefix or ".") for name in files]
    notes = [name for name in files if name.endswith(NOTE)]
    names = name_some(files)
    text = (
        f"The change was put on top of what came to {run.row.base_branch} meanwhile, and conflicts"
        f" with it in {names}: keep what both sides wanted, and leave no conflict markers"
    )
    marks = "^(<<<<<<<|>>>>>>>)( |$)"
    # A file that is gone makes grep fail, whatever it finds in the others.
    verify = f"! {shlex.join(['grep', '-lsE', marks, '--', *files])} | grep ."
    if notes:
        text += f"; delete {name_some(notes)} once that is so"
        verify = " && ".join([verify, *(f"test ! -e {shlex.quote(name)}" for name in notes)])
    asked = AskedCriterion(id=RESOLVE, text=text, verify=verify)
    return (*(item for item in run.order.criteria if item.id != RESOLVE), asked)
