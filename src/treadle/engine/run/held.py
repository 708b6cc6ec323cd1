"""Hold what a person wants to see first: a change, kept as a commit of its own, or a plan."""

import hashlib

from treadle.engine.run.memory import HELD_DIFF, Held
from treadle.engine.run.run import Run, reach
from treadle.engine.run.step_folder import Stage
from treadle.files import atomic, walk
from treadle.git import build, refs
from treadle.git.build import Built
from treadle.layout import PLAN

_MAX_SHOWN = 1 << 20


def hold_change(run: Run, stage: Stage, built: Built, diff: bytes, why: str) -> Held:
    """Keep a change that was not taken, so that just this one can be approved."""
    new = build.commit(built, run.head, message_of(run, stage), run.tools.now(), author_of(run))
    refs.hold(run.tools.repo, run.id, new)
    reach("after_hold")
    atomic.write(stage.live / HELD_DIFF, diff)
    file = f"{run.tools.layout.shown(stage.final)}/files/{HELD_DIFF}"
    return Held("change", stage.role, file, built.tree, why, new, run.head)


def hold_plan(run: Run, stage: Stage, summary: str) -> Held | None:
    """Lay a run's first plan out for a person to read and edit, if one wants to see it."""
    if (stage.role, stage.iteration) != ("plan", 1) or "plan" not in run.order.approve:
        return None
    path, is_here = stage.folder / PLAN, run.tools.worker is None
    if not path.is_file():
        atomic.write(path, f"{summary}\n".encode())
    text = run.tools.mask.text(walk.read(path, max_bytes=_MAX_SHOWN).decode(errors="replace"))
    if is_here:
        atomic.write(run.folder.plan, text.encode())
    file = run.tools.layout.shown(run.folder.plan if is_here else stage.final / PLAN)
    return Held("plan", "plan", file, digest(text))


def digest(plan: str) -> str:
    """Return what tells one plan from another."""
    return hashlib.sha256(plan.encode()).hexdigest()


def message_of(run: Run, stage: Stage) -> str:
    """Return the message of a step's commit."""
    return f"{stage.role} {stage.iteration}: {run.order.goal}\n\nTreadle-Run: {run.id}\n"


def author_of(run: Run) -> build.Author:
    """Return who commits the steps of a run."""
    return build.author_of(run.workspace.config)
