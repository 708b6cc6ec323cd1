"""Hold a turn against the rules of its role, and look a second time at what passes."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from treadle.agents import table
from treadle.agents.backend import AgentResult
from treadle.contract import VerdictWord, messages
from treadle.contract.events import EventType, NewEvent, StepError
from treadle.contract.messages import Verdict
from treadle.engine.checks import looks
from treadle.engine.checks.observe import Observation
from treadle.engine.landing import move
from treadle.engine.run import confinement, step_folder
from treadle.engine.run.memory import Held, SecondLook
from treadle.engine.run.run import Run, readable
from treadle.engine.run.run_files import Snapshot
from treadle.engine.run.step_folder import Stage
from treadle.errors import FormatError
from treadle.files import walk
from treadle.git.scratch import Scratch
from treadle.layout import PATCH, SCORECARD, VERDICT_JSON, agent_states
from treadle.sandbox import outside
from treadle.sandbox.outside import View
from treadle.text import name_some

_MAX_VERDICT = 8 << 20


class Finding(Struct, frozen=True, kw_only=True):
    """What a turn amounts to: an error with its sentence, or a result, with a verdict in check.

    With `unread` only the form was wrong: a tool has worked, and its words cannot be read.
    `after` is what the branch is to stand on, if not where it stands; `built_in` is where that was
    built, if out of the workspace's own files.
    """

    message: str
    error: StepError | None = None
    unread: bool = False
    skipped: bool = False
    verdict: VerdictWord | None = None
    already_true: bool = False
    failing: tuple[str, ...] = ()
    refuted: tuple[str, ...] = ()
    keeps_files: bool = True
    held: Held | None = None
    look: SecondLook | None = None
    after: Snapshot | None = None
    built_in: Scratch | None = None
    happened: tuple[NewEvent, ...] = ()

    def failed(self, error: StepError, message: str) -> "Finding":
        """Return this finding turned into a failure; an earlier one stands, but for mere form."""
        if self.error and not self.unread:
            return self
        return replace(self, error=error, message=readable(message), unread=False)

    def noting(self, type_: EventType, message: str, **data: object) -> "Finding":
        """Return this finding with something for the timeline."""
        return replace(self, happened=(*self.happened, NewEvent(type_, message, data)))


def judge(
    run: Run, stage: Stage, result: AgentResult, observation: Observation, before: View | None
) -> Finding:
    """Return what this turn amounts to; `before` is how things outside were when it began."""
    finding = Finding(
        message=result.message,
        error=result.error,
        unread=result.error is StepError.PROTOCOL_ERROR
        and stage.role in ("do", "act")
        and _is_tool(run, stage),
        skipped=result.skipped,
    )
    if closed := step_folder.open_up(stage.folder):
        text = f"the step folder: nobody may read {name_some(closed)}"
        finding = finding.failed(StepError.PROTOCOL_ERROR, text)
    finding = _by_role(run, stage, result, observation, finding)
    if observation.foregone and not finding.error:
        finding = replace(finding, verdict="PASS", already_true=True)
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
    if missing and _is_tool(run, stage):
        text = f"named, but not in the step folder: {name_some(missing)}"
        finding = finding.noting(EventType.FILE_NOT_LEFT, text, files=missing[:20])
    elif missing:
        text = f"files: {missing[0]!r} is not in the step folder"
        return finding.failed(StepError.PROTOCOL_ERROR, text)
    if finding.error:
        return finding
    if stage.role != "act" and PATCH in names:
        text = f"patch.diff from {stage.role} is ignored; only act proposes patches"
        finding = finding.noting(EventType.PATCH_IGNORED, text)
    return _check(run, stage, finding, observation) if stage.role == "check" else finding


def _is_tool(run: Run, stage: Stage) -> bool:
    return table.is_prompted(run.order.agent(stage.role).config)


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
    """Note how things are, where something can change: not in tier A.

    With the sandbox off only the project counts: whoever wants that wants agents to reach the rest.
    """
    if run.order.in_project or confinement.tier(run) == "A":
        return None
    git_dir, project = run.tools.repo.common_dir, run.tools.layout
    volatile = [git_dir / name for name in walk.names(git_dir) if name not in _WATCHED_IN_GIT]
    changing = [path for it in (project, *run.tools.neighbours) for path in it.changing()]
    busy = (*volatile, *changing, agent_states(run.tools.env))  # the last one: tools of other runs
    trees, flat = [project.root, git_dir], list[Path]()
    if run.order.sandbox.mode != "off":
        # Of the steps, the one before: digests of all others are looked at before they count.
        secret = [path for path in confinement.hidden(run) if path not in busy]
        trees += [*secret, *map(Path, run.step_dirs[-1:])]
        flat += [Path(home)] if (home := run.tools.env.get("HOME")) else []
    return outside.look(trees, flat, (*busy, stage.folder), busy=busy, many=[run.folder.steps])


def _judge_outside(run: Run, stage: Stage, before: View | None, finding: Finding) -> Finding:
    """Fail a step that reached out; what the user or another program did is only noted."""
    after = look_outside(run, stage)
    if before is None or after is None:
        return finding
    found = outside.compare(before, after)
    if confinement.tier(run) == "0":
        changed = _in_project(run, stage, before, sum(found, ()))
        text = _UNTOLD
    else:
        changed = found.metadata
        text = "the agent changed rights, times or attributes of files outside its folder: {files}"
    others = tuple(path for path in sum(found, ()) if path not in changed)
    if others:
        note = f"changed outside of the step meanwhile: {name_some(others)}"
        finding = finding.noting(EventType.OUTSIDE_CHANGE, note, files=list(others[:20]))
    if not changed:
        return finding
    message = text.format(files=name_some(changed), run=run.id)
    return finding.failed(StepError.BOUNDARY_VIOLATION, message)


# Whoever did it: the agent, the user, or another program.
_UNTOLD = (
    "without a sandbox, nobody can say who changed files of the project while the agent worked:"
    " {files}; if you did, go on with treadle run --resume {run}"
)


def _in_project(run: Run, stage: Stage, before: View, paths: Sequence[str]) -> tuple[str, ...]:
    """Return what changed in the project, but for what treadle itself has landed there."""
    inside = f"{run.tools.layout.root}/"
    if not any(path.startswith(inside) for path in paths):
        return ()
    with run.tools.landing:  # whoever lands now has written half of it
        after, own = look_outside(run, stage), move.written(run.tools)
    found = sum(outside.compare(before, after), ()) if after else ()
    return tuple(path for path in found if path.startswith(inside) and path not in own)


def _review(run: Run, stage: Stage, finding: Finding) -> Finding:
    """Look a second time at a PASS: with the protected files as the base has them."""
    if finding.verdict != "PASS" or finding.error or run.order.in_project:
        return finding
    found = looks.look_again(run, stage)
    if found is None:
        return finding
    if found.stopped:
        return finding.failed(StepError.INTERRUPTED, found.stopped)
    finding = replace(finding, look=found.look, happened=(*finding.happened, *found.happened))
    if found.look.failing and run.order.checks.protect_mode == "fail":
        failing = found.look.failing
        return replace(finding, verdict="FAIL", failing=failing, refuted=failing)
    return finding
