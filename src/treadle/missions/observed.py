"""Hold what agents say of a mission's work against what can be seen of it."""

import contextlib
import fcntl
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from treadle.contract import Criterion
from treadle.engine import goals, session, verify
from treadle.engine.run.run import reach
from treadle.engine.show.ends import last_lines
from treadle.engine.verify import SeenNow
from treadle.errors import BlockedError, GitError, InterruptedRun, argument
from treadle.git import call, repo
from treadle.git.repo import Head
from treadle.ids import utc
from treadle.layout import Layout
from treadle.missions import worktree
from treadle.missions.report import Report
from treadle.missions.state import At, Halt, State
from treadle.project import trust
from treadle.project.context import Context
from treadle.store.store import Store
from treadle.store.tasks import SeenCommand, WorkRow
from treadle.tasks.task import with_configured_commands

CLAIMED = "claimed"
_LINES = 10
_SHOWN = 3


class AskedCommand(NamedTuple):
    """One criterion with a command, and the task it belongs to."""

    task: str
    criterion: Criterion


def judge(project: Context, found: State, store: Store, at: At, word: Report) -> WorkRow | Halt:
    """Return what speaks for a reported success, or why it is not believed."""
    if at.phase == "accept" and (left := worktree.unmerged(project.repo, found)):
        return left
    own, head = worktree.task_commit(project.repo, found, at), repo.head(project.repo)
    head = head._replace(commit=own or head.commit)
    commit, known = head.commit or "", store.mission_work(found.mission.slug)
    before, others = known.get(at.key), worktree.others(project.repo, found, at) if own else ()
    begun = before.base if before else _beginning(project, found, known, commit)
    base = _branched(project, commit, others) if own else begun
    since = (before.head if before else None) or base
    needs_work = at.phase == "implement" and not word.no_change
    if needs_work and _is_same(project, found, commit, (since, *others)):
        return _unchanged(found, at, since)
    seen = look(project, found, store, at, head)
    if isinstance(seen, Halt):
        return seen
    if at.phase == "accept" and repo.head(project.repo).commit != commit:
        text = f"the branch moved on from {commit[:9]} while the commands ran"
        raise BlockedError(text, code="head_moved", fix=[_again(found, at)])
    said = word.note if word.no_change else None
    return WorkRow(found.mission.slug, at.key, base, commit, seen, said, utc(found.now))


def look(
    project: Context, found: State, store: Store, at: At, head: Head
) -> tuple[SeenCommand, ...] | Halt:
    """Return what the commands of a step show on a commit, or which of them speak against it."""
    asked = _asked(project, found, at)
    return _claimed(project, found, at, asked) or _seen(project, found, store, at, asked, head)


def _beginning(project: Context, found: State, known: dict[str, WorkRow], commit: str) -> str:
    """Return where a task that nobody was lent began: behind what was reported last."""
    heads = sorted((row.at, row.head) for row in known.values() if row.head)
    folder = found.mission.name(found.mission.files.folder)
    return heads[-1][1] if heads else (*_log(project, "-1", commit, "--", folder), commit)[0]


def _branched(project: Context, commit: str, others: Sequence[str]) -> str:
    """Return where a task's own branch began, behind what was merged for it."""
    args = ("--first-parent", "--no-merges", "--format=%P", commit, "--not", *others)
    parents = " ".join(_log(project, *args)[-1:]).split()
    return parents[0] if parents else commit


def _is_same(project: Context, found: State, commit: str, without: Sequence[str]) -> bool:
    """Tell whether nobody's work but the mission's own records was committed."""
    files = found.mission.files
    own = (files.meta, files.tasks, files.folder / "status.*")
    books = [f":(exclude){found.mission.name(path)}" for path in own]
    try:
        return not _log(project, "-1", "--no-merges", commit, "--not", *without, "--", ".", *books)
    except GitError:  # history was written anew since then, which is a change
        return False


def _log(project: Context, *args: str) -> list[str]:
    """Return the commits that git lists."""
    place, cwd = project.repo.place, project.layout.root
    return call.out(["log", "--format=%H", *args], place, cwd=cwd).decode().splitlines()


def _asked(project: Context, found: State, at: At) -> list[AskedCommand]:
    """Return the commands that speak for a step: its task's, or those of all that is accepted."""
    commands = project.settings.config.verify
    ids = [at.id] if at.id else found.board.in_lane("approved", "done")
    return [
        AskedCommand(id_, item)
        for id_ in ids
        for item in with_configured_commands(found.board.file(id_).criteria, commands)
        if item.verify
    ]


def _claimed(
    project: Context, found: State, at: At, asked: Sequence[AskedCommand]
) -> tuple[SeenCommand, ...] | Halt:
    """Say what nobody lets run: such a claim is written down as one, and nothing is accepted."""
    if not asked:
        return ()
    try:
        trust.require(project)
    except BlockedError as error:
        if at.phase == "accept":
            fix = (*error.fix, _again(found, at))
            return Halt("blocked", at, f"no command was run: {error.message}", error.code, fix)
        return tuple(SeenCommand(it.id, it.verify or "", CLAIMED) for _, it in asked)
    return ()


def _seen(
    project: Context, found: State, store: Store, at: At, asked: Sequence[AskedCommand], head: Head
) -> tuple[SeenCommand, ...] | Halt:
    """Run the commands on a commit, each once, and say what they show."""
    if not asked:
        return ()
    config, texts = project.settings.config, [str(it.verify) for _, it in asked]
    goals.require_sandbox(config)
    name = f"claim-{at.task_id or at.mission_slug}"
    try:
        with alone(project.layout, name), session.beside(project, store) as tools:
            shown = verify.see(tools, config, texts, head, project.layout.claims / name)
    except InterruptedRun as error:
        error.fix = (_again(found, at),)
        raise
    reach("claim_observed")
    if bad := [item for item in asked if shown[str(item.criterion.verify)].state != "green"]:
        return _refuted(found, at, [(it, shown[str(it.criterion.verify)]) for it in bad], head)
    return tuple(
        SeenCommand(it.id, it.verify or "", "passed", shown[it.verify or ""].log) for _, it in asked
    )


@contextlib.contextmanager
def alone(layout: Layout, name: str) -> Iterator[None]:
    """Let one process at a time look at a step; others wait."""
    layout.claims.mkdir(parents=True, exist_ok=True)
    lock = layout.claims / f"{name}.lock"
    if lock.is_symlink():  # it may have come with the project
        lock.unlink()
    with lock.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _refuted(found: State, at: At, bad: Sequence[tuple[AskedCommand, SeenNow]], head: Head) -> Halt:
    """Say which commands do not show what was claimed, and what they said."""
    name = at.task_id or at.mission_slug
    told = [_told(item, seen, at) for item, seen in bad[:_SHOWN]]
    more = [f"and {len(bad) - _SHOWN} more"] if len(bad) > _SHOWN else []
    start = f"{name} was reported as done, and on commit {(head.commit or '')[:9]} it is not:"
    logs = dict.fromkeys(f"cat {argument(seen.log)}" for _, seen in bad[:_SHOWN])
    open_ = [] if at.id else [it for it in bad if found.board.lane(it[0].task) == "approved"]
    back = [_send_back(found, at, *item) for item in open_[:1]]
    fix = (*logs, *back, _again(found, at))
    return Halt("blocked", at, "\n".join([start, *told, *more]), "claim_refuted", fix)


def _told(item: AskedCommand, seen: SeenNow, at: At) -> str:
    name = item.criterion.id if at.id else f"{item.criterion.id} of {item.task}"
    how = "cannot run" if seen.state == "cannot run" else "failed"
    note = f" ({seen.note})" if seen.note else ""
    lines = [f"    {text}" for text in last_lines(seen.log)[-_LINES:]]
    return "\n".join([f"{name} {how}{note}: {seen.command}", *lines, f"  all of it: {seen.log}"])


def _send_back(found: State, at: At, item: AskedCommand, seen: SeenNow) -> str:
    note = argument(f"{item.criterion.id} fails: {seen.command}")
    return f"{found.report_command(at)} --result failed --task {item.task} --note {note}"


def _unchanged(found: State, at: At, since: str) -> Halt:
    text = f"{at.task_id} was reported as done, and nothing was changed since commit {since[:9]}"
    text += "; commit the work, or say with --no-change and --note why none was needed"
    return Halt("blocked", at, text, "nothing_changed", (_again(found, at),))


def _again(found: State, at: At) -> str:
    return f"{found.report_command(at)} --result success"
