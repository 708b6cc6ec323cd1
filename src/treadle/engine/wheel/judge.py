"""Hold a turn against the rules of its role, and look a second time at what passes."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from treadle.agents.backend import AgentResult
from treadle.contract import EventType, StepError, VerdictWord, messages
from treadle.contract.messages import Observed, Verdict
from treadle.engine.checks import observe, protected
from treadle.engine.checks.observe import Bench, Observation
from treadle.engine.checks.protected import Found
from treadle.engine.run import confinement
from treadle.engine.run.memory import PROTECTED_DIFF, SecondLook
from treadle.engine.run.order import Exceeded
from treadle.engine.run.run import Run, name_some, readable
from treadle.engine.run.step_folder import Stage
from treadle.errors import FormatError
from treadle.files import atomic, beneath, walk
from treadle.git import build, scratch, trees, workspace
from treadle.git.build import Built
from treadle.git.trees import Leaf
from treadle.layout import PATCH, SCORECARD, VERDICT_JSON
from treadle.sandbox import outside
from treadle.sandbox.outside import View

_MAX_VERDICT = 8 << 20


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a turn amounts to: an error with its sentence, or a result, with a verdict in check."""

    message: str
    error: StepError | None = None
    skipped: bool = False
    verdict: VerdictWord | None = None
    failing: tuple[str, ...] = ()
    refuted: tuple[str, ...] = ()
    keeps_files: bool = True
    over: Exceeded | None = None
    look: SecondLook | None = None

    def with_message(self, message: str) -> "Finding":
        """Return this finding in other words."""
        return self if message == self.message else replace(self, message=message)

    def failed(self, error: StepError, message: str) -> "Finding":
        """Return this finding turned into a failure; an earlier failure stands."""
        return self if self.error else replace(self, error=error, message=readable(message))


def judge(
    run: Run,
    stage: Stage,
    result: AgentResult,
    observation: Observation,
    closed: Sequence[str] = (),
) -> Finding:
    """Return what this turn amounts to; `closed` names what the agent shut to its owner."""
    finding = Finding(message=result.message, error=result.error, skipped=result.skipped)
    if closed:
        text = f"the step folder: nobody may read {name_some(closed)}"
        finding = finding.failed(StepError.PROTOCOL_ERROR, text)
    try:
        names = {entry.path for entry in walk.walk(stage.folder) if not entry.is_folder}
        if "files" in names:
            raise FormatError("`files` must be a folder")
    except FormatError as error:
        finding = replace(finding, keeps_files=False)
        return finding.failed(StepError.PROTOCOL_ERROR, f"the step folder: {error.message}")
    missing = [name for name in _listed(result) if str(PurePosixPath(name)) not in names]
    if missing:
        text = f"files: {missing[0]!r} is not in the step folder"
        return finding.failed(StepError.PROTOCOL_ERROR, text)
    if finding.error:
        return finding
    if stage.role != "act" and PATCH in names:
        text = f"patch.diff from {stage.role} is ignored; only act proposes patches"
        run.timeline.add(EventType.PATCH_IGNORED, text)
    return _check(run, stage, finding, observation) if stage.role == "check" else finding


def _listed(result: AgentResult) -> tuple[str, ...]:
    return result.response.files if result.response else ()


def _check(run: Run, stage: Stage, finding: Finding, observation: Observation) -> Finding:
    try:
        claimed = _read_verdict(run, stage)
    except FormatError as error:
        return finding.failed(StepError.PROTOCOL_ERROR, error.message)
    word, failing = claimed.verdict, set(claimed.failing)
    refuted = tuple(id_ for id_ in observation.failing if id_ not in failing)
    if word == "PASS" and observation.failing:
        word = "FAIL"
        names = ", ".join(observation.failing)
        run.timeline.add(
            EventType.CLAIM_REFUTED,
            f"the agent claimed PASS but these commands failed: {names}",
            criteria=list(observation.failing),
        )
    everything = tuple(id_ for id_ in run.order.ids if id_ in failing | set(observation.failing))
    run.timeline.add(
        EventType.VERDICT,
        f"{word}" + (f": failing {', '.join(everything)}" if everything else ""),
        verdict=word,
        claimed=claimed.verdict,
        failing=list(everything),
    )
    return replace(finding, verdict=word, failing=everything, refuted=refuted)


def _read_verdict(run: Run, stage: Stage) -> Verdict:
    data = walk.read(stage.folder / VERDICT_JSON, max_bytes=_MAX_VERDICT)
    found = messages.parse_verdict(data, source=VERDICT_JSON, asked=run.order.ids)
    if not walk.read(stage.folder / SCORECARD, max_bytes=_MAX_VERDICT).strip():
        raise FormatError("scorecard.md is empty")
    return found


# What git itself changes in its folder all the time is no sign of anything.
_IN_GIT = ("hooks", "info")
_GIT_FILES = ("config", "config.worktree", "HEAD")


def look_outside(run: Run, stage: Stage) -> View | None:
    """Note how things are, where something can change: not in tier A, not if nobody asked."""
    script = run.order.script
    if run.order.sandbox.mode == "off" or confinement.tier(run) == "A":
        return None
    if script and script.in_project:
        return None
    git_dir, project = run.tools.repo.common_dir, run.tools.layout
    volatile = [path for path in _children(git_dir) if path.name not in (*_IN_GIT, *_GIT_FILES)]
    home = run.tools.env.get("HOME")
    changing = set(project.changing())
    secret = [path for path in confinement.hidden(run) if path not in changing]
    return outside.look(
        trees=(project.root, git_dir, *secret, *_last_step(run)),
        flat=(run.folder.steps, *([Path(home)] if home else [])),
        skip=(*volatile, *changing, stage.folder),
        busy=(*volatile, *changing),
    )


def _last_step(run: Run) -> list[Path]:
    """Return the step before; the digests of all others are looked at before they count again."""
    return [Path(folder) for folder in run.step_dirs[-1:]]


def judge_outside(run: Run, stage: Stage, before: View | None, finding: Finding) -> Finding:
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
        run.timeline.add(
            EventType.OUTSIDE_CHANGE,
            f"changed outside of the step meanwhile: {name_some(others)}",
            files=list(others[:20]),
        )
    if not changed:
        return finding
    return finding.failed(StepError.BOUNDARY_VIOLATION, f"{text}: {name_some(changed)}")


def _children(folder: Path) -> list[Path]:
    return [folder / name for name in walk.names(folder)]


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
    beneath.remove_tree(folder)
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
        author = build.author_of(run.workspace.config)
        return build.commit(built, run.head, "the base's tests", run.tools.now(), author)
    finally:
        scratch.drop(place)
