"""Where a passing run changed what decides its checks, see whether they pass without that."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from treadle.contract.event import EventType, StepError
from treadle.contract.request import Observed
from treadle.engine.checks import observe, protected
from treadle.engine.checks.observe import Bench
from treadle.engine.checks.protected import Found
from treadle.engine.run.memory import PROTECTED_DIFF, SecondLook
from treadle.engine.run.run import Run, name_some
from treadle.engine.run.step_folder import Stage
from treadle.engine.wheel.judge import Finding
from treadle.files import atomic, remove
from treadle.git import commit, diff, scratch, trees, workspace
from treadle.git.build import Built
from treadle.git.trees import Leaf

_SHOWN = 200


def review(run: Run, stage: Stage, finding: Finding) -> Finding:
    """Look a second time at a PASS: with the protected files as the base has them."""
    base = run.row.base_commit or run.head
    if finding.verdict != "PASS" or finding.error or run.order.in_project or base == run.head:
        return finding
    commands = [str(item.verify) for item in run.order.commands]
    found = protected.find(run.tools.repo, base, run.head, commands, run.order.checks.protect)
    if not found.files:
        return finding
    atomic.create(stage.live / PROTECTED_DIFF, _diff(run, base, found))
    seen, stopped = _again(run, stage, found) if commands else ((), None)
    if stopped:
        return finding.failed(StepError.INTERRUPTED, stopped)
    failing = tuple(item.id for item in seen if not item.passed)
    look = SecondLook(found.paths, failing, bool(seen))
    names = name_some(tuple(protected.names(found.files)))
    run.timeline.add(
        EventType.PROTECTED_CHANGED,
        f"{names}: {look.sentence}",
        files=list(found.paths[:100]),
        failing=list(failing),
    )
    finding = replace(finding, look=look)
    if failing and run.order.checks.protect_mode == "fail":
        return replace(finding, verdict="FAIL", failing=failing, refuted=failing)
    return finding


def _diff(run: Run, base: str, found: Found) -> bytes:
    """Return the change of just these files; big ones are only named."""
    sizes = trees.sizes(run.tools.repo, (leaf for item in found.files for leaf in item.sides))
    shown = [
        item.path
        for item in found.files
        if sum(sizes.get(leaf.id, 0) for leaf in item.sides) <= trees.MAX_BYTES
    ][:_SHOWN]
    text = diff.text(run.tools.repo, base, run.head, shown) if shown else b""
    others = [name for name in found.paths if name not in shown]
    return text + "".join(f"# not shown: {name!r}\n" for name in others[:_SHOWN]).encode()


def _again(run: Run, stage: Stage, found: Found) -> tuple[tuple[Observed, ...], str | None]:
    """Run the commands with the base's files; new tests stay, unless they need what has gone."""
    without = [item.path for item in found.files if item.base is None]
    reset = {item.path: item.base for item in found.files}
    seen, stopped = _observe(run, stage, reset)
    if stopped or not without or not found.new_tests or all(item.passed for item in seen):
        return seen, stopped
    return _observe(run, stage, reset | dict.fromkeys(found.new_tests))


def _observe(
    run: Run, stage: Stage, reset: Mapping[str, Leaf | None]
) -> tuple[tuple[Observed, ...], str | None]:
    folder = stage.checks / "base"
    remove.remove_tree(folder)
    folder.mkdir(parents=True)
    with _checked_out(run, _commit(run, stage, reset)) as commit_id:
        seen, stopped = Bench(run, commit_id).observe(folder)
    if not stopped:
        observe.write_summary(folder, seen)
    return seen, stopped


@contextmanager
def _checked_out(run: Run, commit_id: str) -> Iterator[str]:
    """Bring the workspace to a commit, if that is where commands run, and back."""
    if observe.in_clean_place(run):
        yield commit_id
        return
    workspace.restore(run.workspace, commit_id)
    try:
        yield commit_id
    finally:
        workspace.restore(run.workspace, run.head)


def _commit(run: Run, stage: Stage, reset: Mapping[str, Leaf | None]) -> str:
    """Commit the run's tree with some files as the base has them; no branch moves."""
    place = scratch.make(run.tools.repo, stage.scratch, run.workspace.runner)
    try:
        built = Built(trees.edited(place, run.tree, reset), place)
        author = commit.identity(run.workspace.config)
        return commit.commit(built, run.head, "the base's tests", run.tools.now(), author)
    finally:
        scratch.drop(place)
