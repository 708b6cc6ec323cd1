"""Hold a turn against the rules of its role, and look a second time at what passes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from treadle.agents.backend import AgentResult
from treadle.contract import EventType, NewEvent, StepError, VerdictWord, messages
from treadle.contract.messages import Observed, Verdict
from treadle.engine.checks import observe, protected
from treadle.engine.checks.observe import Observation
from treadle.engine.checks.protected import Found
from treadle.engine.run import confinement, step_folder
from treadle.engine.run.memory import PROTECTED_DIFF, SecondLook
from treadle.engine.run.order import Exceeded
from treadle.engine.run.run import Run, readable
from treadle.engine.run.run_files import Snapshot
from treadle.engine.run.step_folder import Stage
from treadle.errors import FormatError
from treadle.files import atomic, walk
from treadle.git import build, scratch, trees
from treadle.git.build import Built
from treadle.git.scratch import Scratch
from treadle.git.trees import Leaf
from treadle.layout import PATCH, SCORECARD, VERDICT_JSON
from treadle.sandbox import outside
from treadle.sandbox.outside import View
from treadle.text import name_some

_MAX_VERDICT = 8 << 20


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a turn amounts to: an error with its sentence, or a result, with a verdict in check.

    `after` is what the branch is to stand on, if not where it stands; `built_in` is where that was
    built, if out of the workspace's own files.
    """

    message: str
    error: StepError | None = None
    skipped: bool = False
    verdict: VerdictWord | None = None
    failing: tuple[str, ...] = ()
    refuted: tuple[str, ...] = ()
    keeps_files: bool = True
    over: Exceeded | None = None
    look: SecondLook | None = None
    after: Snapshot | None = None
    built_in: Scratch | None = None
    happened: tuple[NewEvent, ...] = ()

    def failed(self, error: StepError, message: str) -> "Finding":
        """Return this finding turned into a failure; an earlier failure stands."""
        return self if self.error else replace(self, error=error, message=readable(message))

    def noting(self, type_: EventType, message: str, **data: object) -> "Finding":
        """Return this finding with something for the timeline."""
        return replace(self, happened=(*self.happened, NewEvent(type_, message, data)))


def judge(
    run: Run, stage: Stage, result: AgentResult, observation: Observation, before: View | None
) -> Finding:
    """Return what this turn amounts to; `before` is how things outside were when it began."""
    finding = Finding(message=result.message, error=result.error, skipped=result.skipped)
    if closed := step_folder.open_up(stage.folder):
        text = f"the step folder: nobody may read {name_some(closed)}"
        finding = finding.failed(StepError.PROTOCOL_ERROR, text)
    finding = _by_role(run, stage, result, observation, finding)
    return _review(run, stage, _judge_outside(run, stage, before, finding))


def _by_role(
    run: Run, stage: Stage, result: AgentResult, observation: Observation, finding: Finding
) -> Finding:
    try:
        names = {entry.path for entry in walk.walk(stage.folder) if not entry.is_folder}
        if "files" in names:
            raise FormatError("`files` must be a folder")
    except FormatError as error:
        finding = replace(finding, keeps_files=False)
        return finding.failed(StepError.PROTOCOL_ERROR, f"the step folder: {error.message}")
    listed = result.response.files if result.response else ()
    missing = [name for name in listed if str(PurePosixPath(name)) not in names]
    if missing:
        text = f"files: {missing[0]!r} is not in the step folder"
        return finding.failed(StepError.PROTOCOL_ERROR, text)
    if finding.error:
        return finding
    if stage.role != "act" and PATCH in names:
        text = f"patch.diff from {stage.role} is ignored; only act proposes patches"
        finding = finding.noting(EventType.PATCH_IGNORED, text)
    return _check(run, stage, finding, observation) if stage.role == "check" else finding


def _check(run: Run, stage: Stage, finding: Finding, observation: Observation) -> Finding:
    try:
        claimed = _read_verdict(run, stage)
    except FormatError as error:
        return finding.failed(StepError.PROTOCOL_ERROR, error.message)
    word, seen = claimed.verdict, observation.failing
    if word == "PASS" and seen:
        word = "FAIL"
        text = f"the agent claimed PASS but these commands failed: {', '.join(seen)}"
        finding = finding.noting(EventType.CLAIM_REFUTED, text, criteria=list(seen))
    failing = tuple(id_ for id_ in run.order.ids if id_ in (*claimed.failing, *seen))
    refuted = tuple(id_ for id_ in seen if id_ not in claimed.failing)
    text = f"{word}: failing {', '.join(failing)}" if failing else word
    told = {"verdict": word, "claimed": claimed.verdict, "failing": list(failing)}
    finding = finding.noting(EventType.VERDICT, text, **told)
    return replace(finding, verdict=word, failing=failing, refuted=refuted)


def _read_verdict(run: Run, stage: Stage) -> Verdict:
    data = walk.read(stage.folder / VERDICT_JSON, max_bytes=_MAX_VERDICT)
    found = messages.parse_verdict(data, source=VERDICT_JSON, asked=run.order.ids)
    if not walk.read(stage.folder / SCORECARD, max_bytes=_MAX_VERDICT).strip():
        raise FormatError("scorecard.md is empty")
    return found


# What git itself changes in its folder all the time is no sign of anything.
_WATCHED_IN_GIT = ("hooks", "info", "config", "config.worktree", "HEAD")


def look_outside(run: Run, stage: Stage) -> View | None:
    """Note how things are, where something can change: not in tier A, not if nobody asked."""
    if run.order.in_project or run.order.sandbox.mode == "off" or confinement.tier(run) == "A":
        return None
    git_dir, project = run.tools.repo.common_dir, run.tools.layout
    volatile = [git_dir / name for name in walk.names(git_dir) if name not in _WATCHED_IN_GIT]
    home = run.tools.env.get("HOME")
    changing = set(project.changing())
    secret = [path for path in confinement.hidden(run) if path not in changing]
    return outside.look(
        # Of the steps, the one before: digests of all others are looked at before they count.
        trees=(project.root, git_dir, *secret, *map(Path, run.step_dirs[-1:])),
        flat=(run.folder.steps, *([Path(home)] if home else [])),
        skip=(*volatile, *changing, stage.folder),
        busy=(*volatile, *changing),
    )


def _judge_outside(run: Run, stage: Stage, before: View | None, finding: Finding) -> Finding:
    """Fail a step that reached out; what the user or another program did is only noted."""
    after = look_outside(run, stage)
    if before is None or after is None:
        return finding
    found = outside.compare(before, after)
    if confinement.tier(run) == "0":
        inside = f"{run.tools.layout.root}/"
        changed = tuple(path for path in sum(found, ()) if path.startswith(inside))
        text = "without a sandbox, files of the project changed while the agent worked"
    else:
        changed = found.metadata
        text = "the agent changed rights, times or attributes of files outside its folder"
    others = tuple(path for path in sum(found, ()) if path not in changed)
    if others:
        note = f"changed outside of the step meanwhile: {name_some(others)}"
        finding = finding.noting(EventType.OUTSIDE_CHANGE, note, files=list(others[:20]))
    if not changed:
        return finding
    return finding.failed(StepError.BOUNDARY_VIOLATION, f"{text}: {name_some(changed)}")


_SHOWN = 200


def _review(run: Run, stage: Stage, finding: Finding) -> Finding:
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
    text, told = f"{names}: {look.sentence}", {"files": list(found.paths[:100])}
    finding = finding.noting(EventType.PROTECTED_CHANGED, text, **told, failing=list(failing))
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
    text = trees.diff_text(run.tools.repo, base, run.head, shown) if shown else b""
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
    seen, stopped = observe.observe_commit(run, _commit(run, stage, reset), folder)
    if not stopped:
        observe.write_summary(folder, seen)
    return seen, stopped


def _commit(run: Run, stage: Stage, reset: Mapping[str, Leaf | None]) -> str:
    """Commit the run's tree with some files as the base has them; no branch moves."""
    place = scratch.make(run.tools.repo, stage.scratch, run.workspace.runner)
    try:
        built = Built(trees.edited(place, run.tree, reset), place)
        author = build.author_of(run.workspace.config)
        return build.commit(built, run.head, "the base's tests", run.tools.now(), author)
    finally:
        scratch.drop(place)
