"""Build what an agent is told."""

from collections.abc import Sequence

from msgspec import UNSET

from treadle.contract.request import AgentRequest, Asked, Context, Observed, Paths, Step
from treadle.engine import budget, comments, letters, protection
from treadle.engine.run import Run
from treadle.engine.stage import Stage


def build(run: Run, stage: Stage, observed: Sequence[Observed]) -> AgentRequest:
    """Return the request of this step."""
    return AgentRequest(
        run_id=run.id,
        step=Step(index=stage.index, role=stage.role, iteration=stage.iteration),
        goal=run.order.goal,
        norma=Asked(
            acceptance_criteria=run.order.criteria,
            budgets=budget.as_request(run.order.budgets),
            observed=tuple(observed) if observed else UNSET,
        ),
        paths=Paths(
            repo_root=str(run.place),
            run_dir=str(run.folder.folder),
            step_dir=str(stage.folder),
        ),
        context=Context(
            previous_step_dirs=tuple(run.step_dirs),
            notes="\n\n".join(part for part in _notes(run, stage) if part),
        ),
    )


def _notes(run: Run, stage: Stage) -> Sequence[str]:
    """Pass on the full text, what the last check found, and what people and agents wrote."""
    parts = [run.order.text] if run.order.text != run.order.goal else []
    failing = run.kv.get("failing")
    if isinstance(failing, list) and failing:
        parts.append(f"Failing in the last check: {', '.join(map(str, failing))}")
    refuted = run.kv.get("refuted")
    if isinstance(refuted, list) and refuted:
        claimed = ", ".join(map(str, refuted))
        parts.append(f"Claimed to pass but observed to fail by their commands: {claimed}")
    parts.append(protection.note(run.kv))
    if stage.role == "act":
        parts.append(comments.words(run.tools.store, run.id))
    return [*parts, letters.unread(run, stage)]
