"""Bring a passed run's work into a branch of the user, or take it out again by its inverse."""

import contextlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from treadle.engine.checks import observe
from treadle.engine.elsewhere import fleet_run
from treadle.engine.landing import move, tracker, wording
from treadle.engine.run import begin, memory, resume
from treadle.engine.run.memory import Move, Moved, RunMemory
from treadle.engine.run.order import after_conflict
from treadle.engine.run.run import Run, Tools
from treadle.errors import BlockedError, GitError, InterruptedRun, argument, stop_code
from treadle.git import build, call, refs, repo, scratch, trees
from treadle.git.build import Conflict
from treadle.git.scratch import Scratch
from treadle.ids import OWN_PREFIX, is_run_id
from treadle.store.runs import RunRow
from treadle.text import name_some

_NAMED = 20
# Of each kind of obstacle: what it is, its code, and what git can do about it.
_OBSTACLES = {
    "staged": ("staged", "staged_files", ("commit",)),
    "unstaged": ("uncommitted", "uncommitted_files", ("diff", "commit", "stash push")),
    "unknown": ("unknown to git", "file_in_the_way", ()),
}


class Landed(NamedTuple):
    """Where a run's work is now; without a commit there was nothing to bring in."""

    run_id: str
    branch: str
    commit: str | None
    merged: bool = False
    by_hand: bool = False  # somebody had merged it before
    below: tuple["Landed", ...] = ()  # what it builds on and what landed first

    @property
    def document(self) -> dict[str, object]:
        """Return it as programs get it."""
        told = {"run_id": self.run_id, "landed": self.commit, "branch": self.branch}
        below = [item.document for item in self.below]
        return {**told, "merged": self.merged, "by_hand": self.by_hand, "below": below}


class Undone(NamedTuple):
    """The inverse; `exact` says that the tree is as before the landing, but for the spec."""

    run_id: str
    branch: str
    undone: str | None  # the commit
    exact: bool
    above: tuple[str, ...] = ()  # the runs that had changed its lines again and went first


class Part(NamedTuple):
    """One commit to be: the change between two trees of the run, and what to say about it."""

    base: str
    tree: str
    message: str


class Spot(NamedTuple):
    """Where a commit goes: on the tip of a branch, or from there onto a new one."""

    branch: str
    tip: str
    new: str | None = None

    @property
    def name(self) -> str:
        """Return the branch that is to have it."""
        return self.new or self.branch


class LandingCommit(NamedTuple):
    """The commit that the branch should stand on, and its tree."""

    commit: str
    tree: str
    is_merged: bool = False
    by_hand: bool = False
    is_exact: bool = False  # as it was before, with the spec that was to be done


def land(
    tools: Tools,
    row: RunRow,
    *,
    onto: str | None = None,
    keep_steps: bool = False,
    branch: bool = False,
    asked: bool = True,
) -> Landed:
    """Land a run and what it builds on, or raise BlockedError with its branch as it was.

    With `branch` it lands as one commit on a branch of its own. Unless somebody `asked`, nothing
    below is landed that was not to land by itself.
    """
    if row.status != "passed":
        stands = memory.word(row, memory.recall(tools.store, row.run_id))
        text = f"run {row.run_id} has not passed: it is {stands}"
        raise BlockedError(text, code="not_passed", fix=[f"treadle why {row.run_id}"])
    with taken(tools, row, resume.take_up) as run:
        require_not_landed(run, goes_on=not branch)
        with move.refusals(run, "land"):
            below = tuple(_land_below(run, onto, branch, asked))
            spot = _spot(run, onto, branch, asked)
            built = _move(run, "land", spot, lambda at: _build(run, at, spot, keep_steps))
    if built is None:
        return Landed(run.id, spot.branch, None, below=below)
    name = spot.branch if built.by_hand else spot.name
    return Landed(run.id, name, built.commit, built.is_merged, built.by_hand, below)


def undo(tools: Tools, row: RunRow, *, with_later: bool = False) -> Undone:
    """Undo a landing, or raise BlockedError with everything as it was.

    Where the same lines were changed again, only `with_later` takes them back as they were before;
    runs that did so are undone first.
    """
    with taken(tools, row, resume.take_over) as run:
        landed = _landed(run)
        with move.refusals(run, "undo"):
            _tip_with(run, landed)
            before, after = _sides(tools, row, run.memory, landed)
            above = tuple(_undo_above(run, landed, before, after)) if with_later else ()
            spot = Spot(landed.branch, _tip_with(run, landed))
            if tools.today.land.is_protected(landed.branch):
                spot = spot._replace(new=wording.branch_name(run, "undo "))

            def invert(at: Scratch) -> LandingCommit:
                return _invert(run, at, spot, landed, before, after, later=with_later)

            built = _move(run, "undo", spot, invert)
    commit = built.commit if built and built.commit != spot.tip else None
    return Undone(run.id, spot.name, commit, bool(built and built.is_exact), above)


def _sides(tools: Tools, row: RunRow, known: RunMemory, landed: Moved) -> tuple[str, str]:
    """Return the trees between which lies what a landing brought in."""
    start = landed.old if landed.old.strip("0") else f"{landed.commit}^"
    ends = (row.base_commit or "", row.head_commit or row.base_commit or "")
    # A pull request may have the work in several commits, others between them.
    offered = known.pull and known.pull.branch == landed.branch
    before, after = ends if landed.by_hand or offered else (start, landed.commit)
    return repo.tree_of(tools.repo, before), repo.tree_of(tools.repo, after)


@contextlib.contextmanager
def taken(tools: Tools, row: RunRow, take: Callable[[Tools, RunRow], Run]) -> Iterator[Run]:
    """Own a run for as long as the block works, with no move of it left half made."""
    fleet_run.bring_here(tools, row)
    run = take(tools, row)
    try:
        move.finish_move(run)
        yield run
    finally:
        tools.store.release(run.id, run.row.claim_epoch)


def _move(
    run: Run, what: str, spot: Spot, build_on: Callable[[Scratch], LandingCommit]
) -> LandingCommit | None:
    """Build a commit beside the repository and move a branch to it; None if nothing changes."""
    here, name, tip = run.tools.repo, spot.name, spot.tip
    refs.require_quiet(here, name)
    place = scratch.make(here, run.folder.live / what)
    try:
        built = build_on(place)
        if built.commit == tip and not built.by_hand:
            return None
        if refs.is_checked_out(here, name):
            refs.require_unlocked(here, name)
            _require_clear(run, place, tip, built.commit)
        scratch.keep(place)
    finally:
        scratch.drop(place)
    if built.is_merged:
        _require_checks(run, built.commit)
    is_new = spot.new and not built.by_hand
    name, old = (name, here.null_id) if is_new else (spot.branch, tip)
    move.make_move(run, Move(what, name, old, built.commit, by_hand=built.by_hand))
    return built


def _build(run: Run, place: Scratch, spot: Spot, keep_steps: bool) -> LandingCommit:
    """Put the run's change on the tip, as one commit or step by step; no change, no commit."""
    name, tip = spot.name, spot.tip
    is_base, signs = tip == run.row.base_commit, build.signs_commits(run.tools.git_settings)
    built = LandingCommit(tip, repo.tree_of(run.tools.repo, tip))
    if _is_in(run, place, tip, built.tree):
        tree = tracker.listed(run, place, name, tip, built.tree)
        if tree != built.tree:
            built = LandingCommit(_commit(run, place, tree, tip, wording.message(run)), tree)
        return built._replace(by_hand=True)
    if keep_steps and is_base and not signs and not run.order.message:
        return LandingCommit(run.head, run.tree)
    parts = tuple(_parts(run, name, keep_steps))
    for part in parts:
        tree = _combine(
            run, place, part.base, built.tree, part.tree, after_conflict(run.order, run.id)
        )
        is_merged = tree != run.tree
        if part is parts[-1]:
            tree = tracker.listed(run, place, name, tip, tree)
        if tree != built.tree:
            new = _commit_hooked(run, place, tree, built.commit, part.message)
            built = LandingCommit(new, tree, is_merged)
    return built


def _is_in(run: Run, place: Scratch, tip: str, now: str) -> bool:
    """Tell whether somebody has brought the run's change into the branch by hand."""
    base = repo.tree_of(run.tools.repo, run.row.base_commit or "")
    if run.tree == base or tip == run.row.base_commit or _undone(run):
        return False
    is_merged = refs.contains(run.tools.repo, tip, run.head)
    return is_merged or merge(run, place, base, now, run.tree) == now


def _invert(
    run: Run, place: Scratch, spot: Spot, landed: Moved, before: str, after: str, *, later: bool
) -> LandingCommit:
    tip, now = spot.tip, repo.tree_of(run.tools.repo, spot.tip)
    before = tracker.keeping_spec(run, place, before, after)
    tree = merge(run, place, after, now, before)
    if isinstance(tree, Conflict):
        if _is_reverted(run, landed.commit, tip):
            tree = now
        elif later:
            tree = _preferring(place, tree, now, after, before)
        else:
            raise conflict(tree.paths, _ways_out(run, landed, tip, tree.paths))
    tree = tracker.unlisted(run, place, spot.name, tip, tree)
    if tree == now:
        return LandingCommit(tip, now, by_hand=True)
    message = wording.message(run, "Undo: ", f"This reverts commit {landed.commit}.")
    new = _commit(run, place, tree, tip, message)
    return LandingCommit(new, tree, is_exact=tree == before)


def _is_reverted(run: Run, commit: str, tip: str) -> bool:
    """Tell whether somebody has taken the work out with git, whatever they left of it."""
    said, here = f"--grep=This reverts commit {commit}", run.tools.repo
    args = ["log", "-1", "-z", "--fixed-strings", "--format=%H", said, f"{commit}..{tip}"]
    return bool(call.fields(args, here.place, here.root))


def _preferring(place: Scratch, found: Conflict, ours: str, base: str, theirs: str) -> str:
    """Return the merged tree, with the lines of `theirs` where the sides disagree."""
    wanted = trees.files(place, theirs, found.paths)
    tree = trees.edited(place, found.tree, {path: wanted.get(path) for path in found.paths})
    names = [place.folder / name for name in ("ours", "base", "theirs")]
    for path, leaf in wanted.items():
        sides = [trees.read_blob(place, f"{side}:{path}") for side in (ours, base, theirs)]
        for name, content in zip(names, sides, strict=True):
            name.write_bytes(content or b"")
        done = call.run(["merge-file", "-p", "--theirs", *map(str, names)], place.place)
        if None not in sides and done.returncode == 0:  # one without lines is taken whole
            tree = trees.put_file(place, tree, path, done.stdout, leaf.mode)
    return tree


def _ways_out(run: Run, landed: Moved, tip: str, files: Sequence[str]) -> list[str]:
    """Return how to undo what others have built on: their runs first, or lines and all."""
    later = _later(run, landed.commit, tip, files)
    if later and all(known.landed_commit for known in later.values()):
        return [f"treadle undo {run_id}" for run_id in (*later, run.id)]
    since = f"{landed.commit[:12]}..{argument(landed.branch)}"
    look = f"git log --oneline {since} -- {shlex.join(files)}"
    return [look, f"treadle undo {run.id} --with-later"]


def _later(run: Run, commit: str, tip: str, files: Sequence[str]) -> dict[str, RunMemory]:
    """Return the runs whose commits changed these files since, the newest first, "" for others."""
    here, key = run.tools.repo, "run:%(trailers:key=Treadle-Run,valueonly,separator=)"
    args = ["--literal-pathspecs", "log", "-z", f"--format={key}", f"{commit}..{tip}", "--", *files]
    told = [it.removeprefix("run:") for it in call.fields(args, here.place, here.root)]
    later = {it: memory.recall(run.tools.store, it) for it in told}
    return {run_id: known for run_id, known in later.items() if not known.undone}


def _undo_above(run: Run, landed: Moved, before: str, after: str) -> Iterator[str]:
    """Undo the later runs that changed lines of this one again, the newest first."""
    tools, tip = run.tools, _tip_with(run, landed)
    if tools.today.land.is_protected(landed.branch) or _is_reverted(run, landed.commit, tip):
        return
    place = scratch.make(tools.repo, run.folder.live / "above")
    try:
        for run_id in _later(run, landed.commit, tip, ()):
            row, known = tools.store.run(run_id), memory.recall(tools.store, run_id)
            theirs = known.landed if known.landed_commit else None
            if row is None or theirs is None or theirs.branch != landed.branch:
                continue  # it may have been undone with a newer one
            now = repo.tree_of(tools.repo, _tip_with(run, landed))
            both = (before, after), _sides(tools, row, known, theirs)
            ours, others = (_taken_out(run, place, now, *sides) for sides in both)
            if isinstance(merge(run, place, now, ours, others), Conflict):
                yield from (*undo(tools, row, with_later=True).above, run_id)
    finally:
        scratch.drop(place)


def _taken_out(run: Run, place: Scratch, now: str, before: str, after: str) -> str:
    """Return a tree without a change, whatever became of its lines later."""
    found = merge(run, place, after, now, before)
    return _preferring(place, found, now, after, before) if isinstance(found, Conflict) else found


def _parts(run: Run, name: str, keep_steps: bool) -> Iterator[Part]:
    """Yield what is to be committed to a branch: what the run changed that it does not have."""
    pull = run.memory.pull
    goes_on = pull and pull.branch == name and not run.memory.undone
    before = pull.head if pull and goes_on else run.row.base_commit or ""
    base = repo.tree_of(run.tools.repo, before)
    if not keep_steps:
        yield Part(base, run.tree, wording.message(run))
        return
    for step in run.tools.store.steps(run.id):
        if step.tree and step.tree != base:
            yield Part(base, step.tree, wording.message(run, f"{step.role} {step.iteration}: "))
            base = step.tree
    if run.order.message:
        yield Part(base, base, wording.message(run))


def _commit(run: Run, place: Scratch, tree: str, parent: str, text: str) -> str:
    """Commit a tree as the user would; no branch moves."""
    settings = run.tools.git_settings
    who, sign = build.author_of(settings, run.tools.env), build.signs_commits(settings)
    return build.commit_tree(place, tree, [parent], text, when=run.tools.now(), who=who, sign=sign)


def _commit_hooked(run: Run, place: Scratch, tree: str, parent: str, text: str) -> str:
    """Commit a tree with the message that the user's hooks leave, if they are to run."""
    new = _commit(run, place, tree, parent, text)
    if not run.tools.today.land.hooks:
        return new
    scratch.keep(place)  # so that they can look at it
    told = wording.look_at(run, new, parent, text)
    return new if told == text else _commit(run, place, tree, parent, told)


def _combine(
    run: Run, place: Scratch, base: str, ours: str, theirs: str, fix: Sequence[str]
) -> str:
    """Merge three trees; BlockedError names the files that both sides changed."""
    found = merge(run, place, base, ours, theirs)
    if isinstance(found, Conflict):
        raise conflict(found.paths, fix)
    return found


def merge(run: Run, place: Scratch, base: str, ours: str, theirs: str) -> str | Conflict:
    """Return our tree with what happened between the other two; the list of specs never clashes."""
    if ours == base:
        return theirs
    path = tracker.name_in_git(run)
    return build.three_way(place, *tracker.alike(place, path, base, ours, theirs))


def conflict(files: Sequence[str], fix: Sequence[str]) -> BlockedError:
    """Say which files both sides changed."""
    text = f"both sides changed {name_some(files)}"
    return BlockedError(text, code="merge_conflict", fix=fix, details={"files": list(files)})


def _require_clear(run: Run, place: Scratch, old: str, new: str) -> None:
    """Name the files that would be overwritten; `new` may still lie in the scratch place."""
    where = run.tools.repo.place | {"GIT_OBJECT_DIRECTORY": str(place.store)}
    found = refs.find_obstacles(run.tools.repo.root, where, old, new)
    # A spec that comes to where it was written does not touch what lies there.
    own = tuple(path for path in found.unknown if path != tracker.spec_in_git(run))
    for kind, paths in found._replace(unknown=own)._asdict().items():
        if not paths:
            continue
        what, code, verbs = _OBSTACLES[kind]
        names = [shlex.quote(path) for path in paths[:_NAMED]]
        aside = [f"mv {name} {name}.mine" for name in names]
        raise BlockedError(
            f"files in your checkout that are {what} would be overwritten: {name_some(paths)}",
            code=code,
            fix=[f"git {verb} -- {' '.join(names)}" for verb in verbs] or aside,
            details={"files": list(paths)},
        )


def require_not_landed(run: Run, *, goes_on: bool = False) -> None:
    """Refuse a run that has landed; from a branch of its own its work may go on to another."""
    landed = run.memory.landed
    stays = landed and not run.memory.undone and not _is_gone(run, landed)
    if landed and stays and not (goes_on and run.memory.aside(run.row)):
        text = f"run {run.id} landed already: {landed.commit[:12]} on {landed.branch}"
        fix = [f"git show {landed.commit[:12]}", f"treadle undo {run.id}"]
        raise BlockedError(text, code="already_landed", fix=fix)
    resume.require_not_superseded(run.tools.store, run.row)


def _land_below(run: Run, onto: str | None, branch: bool, asked: bool) -> Iterator[Landed]:
    """Land what the run builds on, the lowest first; refuse if that cannot be."""
    store = run.tools.store
    for row in filter(None, map(store.run, run.memory.stacked_on)):
        known = memory.recall(store, row.run_id)
        aside = known.aside(row)
        if known.landed_commit and (branch or not aside):
            continue
        ways = [f"treadle land {row.run_id}", f"treadle land {run.id}"]
        why = f"is on {aside}" if aside else "has not landed"
        if row.status == "passed" and not known.undone:
            if asked or known.lands or known.land_refused:
                try:
                    yield land(run.tools, row, onto=onto, branch=branch, asked=asked)
                    continue
                except (BlockedError, GitError) as error:
                    why, ways = f"cannot land: {error.message}", [*error.fix, *ways]
        elif row.status != "passed":
            why = f"has not passed: it is {memory.word(row, known)}"
            ways = [f"treadle why {row.run_id}"]
        text = f"run {run.id} builds on run {row.run_id}, which {why}"
        raise BlockedError(text, code="stacked", fix=list(dict.fromkeys(ways)))


def _spot(run: Run, onto: str | None, branch: bool, asked: bool) -> Spot:
    """Return where a run lands; what is protected gets no commit of treadle's."""
    pull = run.memory.pull
    if branch and pull and (tip := refs.resolve(run.tools.repo, pull.branch)):
        return Spot(pull.branch, tip)  # it goes on there
    if branch and not (onto or run.row.base_branch):
        return Spot("", run.row.base_commit or "", wording.branch_name(run))
    name = target(run, onto)
    aside = run.memory.aside(run.row)
    is_closed = run.tools.today.land.is_protected(name)
    if is_closed and asked and not branch:
        text = f"{name} is protected by land.protected: nothing is committed to it directly"
        fix = [f"treadle pr {run.id}" if aside else f"treadle land {run.id} --branch"]
        raise BlockedError(text, code="protected_branch", fix=fix)
    tip = tip_of(run, name)
    if not (branch or is_closed):
        return Spot(name, tip)
    return Spot(name, _top(run, name, tip), wording.branch_name(run))


def _top(run: Run, name: str, tip: str) -> str:
    """Return what a new branch begins at: the tip, or the branch of what the run builds on."""
    below = (memory.recall(run.tools.store, run_id) for run_id in run.memory.stacked_on)
    aside = [it.landed for it in below if it.landed_commit and it.landed and it.landed[0] != name]
    last = aside[-1].commit if aside else tip
    return last if refs.contains(run.tools.repo, last, tip) else tip


def target(run: Run, onto: str | None) -> str:
    name = onto.removeprefix("refs/heads/") if onto else run.row.base_branch
    here = repo.head(run.tools.repo).branch
    again = f"treadle land {run.id} {f'--onto {shlex.quote(here)}' if here else '--branch'}"
    if not name:
        text = f"run {run.id} began on a detached HEAD; say which branch it should land on"
        raise BlockedError(text, code="no_branch", fix=[again])
    if name.startswith(OWN_PREFIX) and is_run_id(name.removeprefix(OWN_PREFIX)):
        text = f"{name} is a run's own branch, which only its steps move"
        raise BlockedError(text, code="own_branch", fix=[again])
    return name


def tip_of(run: Run, name: str) -> str:
    found = refs.resolve(run.tools.repo, name)
    if found is None:
        make = f"git branch {shlex.quote(name)} {(run.row.base_commit or '')[:12]}"
        fix = [make, f"treadle land {run.id}"]
        raise BlockedError(f"there is no branch {name}", code="branch_missing", fix=fix)
    return found


def _undone(run: Run) -> Moved | None:
    """Return what took the work out again, unless a reset has taken that back."""
    undone, landed = run.memory.undone, run.memory.landed
    if undone and landed and undone.branch == landed.branch:
        return None if _is_gone(run, undone) and not _is_gone(run, landed) else undone
    return undone


def _is_gone(run: Run, moved: Moved) -> bool:
    """Tell whether a branch stands where it does not hold a move, as after `git reset`."""
    tip = refs.resolve(run.tools.repo, moved.branch)
    with contextlib.suppress(GitError):  # such commits may be cleared away
        return tip is not None and not refs.contains(run.tools.repo, tip, moved.commit)
    return True


def _landed(run: Run) -> Moved:
    undone, landed = _undone(run), run.memory.landed
    if undone:
        text = f"run {run.id} is undone already: {undone.commit[:12]} on {undone.branch}"
        fix = [f"git show {undone.commit[:12]}", f"treadle land {run.id}"]
        raise BlockedError(text, code="already_undone", fix=fix)
    if landed is None:
        text = f"run {run.id} has not landed, so there is nothing to undo"
        raise BlockedError(text, code="not_landed", fix=[f"treadle runs show {run.id}"])
    return landed


def _tip_with(run: Run, landed: Moved) -> str:
    """Return where the branch of a landing stands, which must still hold it."""
    tip = refs.resolve(run.tools.repo, landed.branch)
    if tip is None:
        text = f"branch {landed.branch}, on which run {run.id} landed, is gone"
        fix = [f"git branch {argument(landed.branch)} {landed.commit[:12]}"]
        raise BlockedError(text, code="branch_missing", fix=fix)
    if _is_gone(run, landed):
        text = f"{landed.branch} no longer holds {landed.commit[:12]}: its history was rewritten"
        fix = [f"git log --oneline -5 {argument(landed.branch)}", f"treadle land {run.id}"]
        raise BlockedError(text, code="not_in_branch", fix=fix)
    return tip


def _require_checks(run: Run, commit: str) -> None:
    """Run the criteria's commands on a merged commit, where the run's own were checked."""
    if not run.order.commands:
        return
    if run.memory.stop_requested:
        run.record(stop_requested=None)
    if not observe.in_clean_place(run):
        _open_workspace(run)
    found, stopped = observe.observe_commit(run, commit, run.folder.landing)
    if stopped:
        raise _interrupted(stopped)
    run.record(*observe.told_of(found, " on the merged tree"))
    if failed := [seen for seen in found if not seen.passed]:
        names = ", ".join(f"{seen.id} ({seen.command})" for seen in failed)
        where = run.tools.layout.shown(run.folder.landing)
        raise BlockedError(
            f"merged with what came meanwhile, the work no longer passes: {names}",
            code="checks_failed",
            fix=[*(f"cat {where}/{seen.id}.txt" for seen in failed), f"treadle rebase {run.id}"],
        )


def _open_workspace(run: Run) -> None:
    failed = begin.reopen(run)
    if failed and failed.reason == "stopped":
        raise _interrupted(failed.detail)
    if failed:
        raise BlockedError(begin.setup_failure(run, failed), code="checks_failed")


def _interrupted(reason: str) -> InterruptedRun:
    return InterruptedRun(f"not landed: {reason}", exit_code=stop_code(reason))
