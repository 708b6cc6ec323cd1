"""See what changed outside of a step's reach while its agent worked."""

from pathlib import Path

from treadle.contract.event import EventType, StepError
from treadle.engine import surroundings
from treadle.engine.edits import name_some
from treadle.engine.rules import Finding
from treadle.engine.run import Run
from treadle.engine.stage import Stage
from treadle.files import walk
from treadle.sandbox import outside
from treadle.sandbox.outside import View

# What git itself changes in its folder all the time is no sign of anything.
_IN_GIT = ("hooks", "info")
_GIT_FILES = ("config", "config.worktree", "HEAD")


def look(run: Run, stage: Stage) -> View | None:
    """Note how things are, where something can change: not in tier A, not if nobody asked."""
    script = run.order.script
    if run.order.sandbox.mode == "off" or surroundings.tier(run) == "A":
        return None
    if script and script.in_project:
        return None
    git_dir, project = run.tools.repo.common_dir, run.tools.layout
    volatile = [path for path in _children(git_dir) if path.name not in (*_IN_GIT, *_GIT_FILES)]
    home = run.tools.env.get("HOME")
    changing = set(project.changing())
    secret = [path for path in surroundings.hidden(run) if path not in changing]
    return outside.look(
        trees=(project.root, git_dir, *secret, *_last_step(run)),
        flat=(run.folder.steps, *([Path(home)] if home else [])),
        skip=(*volatile, *changing, stage.folder),
        busy=(*volatile, *changing),
    )


def _last_step(run: Run) -> list[Path]:
    """Return the step before; the digests of all others are looked at before they count again."""
    return [Path(folder) for folder in run.step_dirs[-1:]]


def judge(run: Run, stage: Stage, before: View | None, finding: Finding) -> Finding:
    """Fail a step that reached out; what the user or another program did is only noted."""
    after = look(run, stage)
    if before is None or after is None:
        return finding
    found = outside.compare(before, after)
    if surroundings.tier(run) == "0":
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
