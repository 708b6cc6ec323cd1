"""Move a branch of the user exactly once: write the move down, make it, write down that it is made.

After a kill the next owner of the run looks where the branch stands and finishes the move, or
drops it if the branch went elsewhere or git refuses.
"""

import contextlib
from collections.abc import Iterator

from treadle.contract import EventType, NewEvent
from treadle.engine.checks import clean
from treadle.engine.run import resume
from treadle.engine.run.memory import LandRefusal, Move, Moved
from treadle.engine.run.run import Run, Tools, reach, readable
from treadle.errors import BlockedError, FormatError, GitError, TreadleError
from treadle.git import refs
from treadle.ids import utc
from treadle.tasks import questions


def make_move(run: Run, move: Move) -> None:
    """Move the branch; only when this returns is the run landed or undone."""
    message = f"{move.what}: {move.branch} goes from {move.old[:12]} to {move.commit[:12]}"
    run.record(NewEvent(EventType.LANDING, message, move._asdict()), landing=move)
    reach("after_intent")
    refs.advance(run.tools.repo, move.branch, move.commit, move.old, f"{move.what} {run.id}")
    reach("after_move")
    _finish(run, move)


@contextlib.contextmanager
def refusals(run: Run, what: str) -> Iterator[None]:
    """Write down why the block moved no branch, if it did not."""
    try:
        yield
    except (BlockedError, GitError) as error:
        _refuse(run, what, error)
        raise


def _refuse(run: Run, what: str, error: TreadleError) -> None:
    why = {"what": what, "code": error.code}
    event = NewEvent(EventType.LAND_REFUSED, error.message, why)
    fix = tuple(readable(command) for command in error.fix)
    told = LandRefusal(what, error.code, readable(error.message), fix)
    # Where a lock cut git off, files may be written: the move waits to be finished.
    kept = run.memory.landing if error.code == refs.LOCKED else None
    run.record(event, landing=kept, land_refused=told)


def finish_move(run: Run) -> None:
    """Finish or drop a move that a kill cut off; behind a lock it waits as it is."""
    move = run.memory.landing
    if move is None:
        return
    repo, found = run.tools.repo, refs.resolve(run.tools.repo, move.branch)
    if found and refs.contains(repo, found, move.commit):
        _finish(run, move)
        return
    try:
        if found != move.old:
            where = f"{move.branch} stands on {(found or 'nothing')[:12]}"
            raise BlockedError(f"cut off by a kill, and now {where}", code="branch_moved")
        if refs.is_checked_out(repo, move.branch):
            refs.stage_written(repo, run.folder.live / "mend", move.branch, move.old, move.commit)
        refs.advance(repo, move.branch, move.commit, move.old, f"{move.what} {run.id}")
    except (BlockedError, GitError) as error:
        if error.code == refs.LOCKED:
            raise
        _refuse(run, move.what, error)
    else:
        _finish(run, move)


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
    made = Moved(move.branch, move.old, move.commit, utc(run.tools.now()))
    text, where = f"{move.commit[:12]} on {move.branch}", {"commit": move.commit}
    where["branch"] = move.branch
    landed, undone = (made, None) if move.what == "land" else (run.memory.landed, made)
    kind = EventType.LANDED if move.what == "land" else EventType.UNDONE
    event = NewEvent(kind, text, where)
    run.record(event, landing=None, land_refused=None, landed=landed, undone=undone)
    reach("after_landed")
    questions.settle(run.tools.store, run.id, "landed", run.tools.now())
    clean.remove_workspace(run.tools, run.row)
