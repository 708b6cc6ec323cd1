"""Tell a run as markdown that is ready to be a pull request's body."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from treadle.engine.run import memory
from treadle.engine.run.memory import RunMemory
from treadle.engine.show import verdicts
from treadle.engine.show import view as show_view
from treadle.engine.show.verdicts import StepVerdict
from treadle.engine.show.view import CriterionView
from treadle.errors import GitError
from treadle.files import walk
from treadle.git import trees
from treadle.project.context import Context
from treadle.sandbox.mask import Mask
from treadle.store.runs import RunRow, UsageRow
from treadle.store.store import Reader
from treadle.text import block, plural

_TAIL = 20
_TAIL_BYTES = 4000
# Words of agents must not ping people, close issues or bring HTML into a pull request.
_ENTITIES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;", "#": "&#35;", "|": "\\|", "`": "\\`"}
)


def markdown(project: Context, store: Reader, row: RunRow) -> str:
    """Return goal, criteria with evidence, steps, changes and cost of a run."""
    known, steps = memory.recall(store, row.run_id), store.steps(row.run_id)
    views = show_view.criteria(project.layout, store, row)
    parts = [
        f"# {_text(row.goal)}",
        _summary(row, known, views),
        "## Criteria",
        _table(["criterion", "claimed", "observed", "command"], map(_criterion, views)),
        *_evidence(project, row, views),
        "## Steps",
        _table(
            ["step", "role", "agent", "status", "summary"],
            map(_step, verdicts.run_verdicts(project.layout, steps, store.checks(row.run_id))),
        ),
        "## Changes",
        _changes(project, row),
        _protected(known),
        "## Cost",
        _cost(known, store.usage(row.run_id)),
    ]
    return Mask(project.secrets).text(block("\n\n".join(part for part in parts if part))) + "\n"


def tail(path: Path) -> str:
    """Return the end of a command's output; nothing if there is none."""
    return "\n".join(walk.tail(path, _TAIL_BYTES).splitlines()[-_TAIL:])


def _summary(row: RunRow, known: RunMemory, views: list[CriterionView]) -> str:
    held, total = show_view.counts(views)
    steps = plural(row.current_step_index, "step")
    score = f"{held}/{total} criteria, iteration {row.iteration}, {steps}"
    lines = [f"Run `{row.run_id}` {memory.word(row, known)}: {score}."]
    if row.task_id:
        lines.append(f"Task `{row.task_id}`.")
    lines += [f"{_text(line[:1].upper() + line[1:])}." for line in known.landing_words]
    return " ".join(lines)


def _criterion(view: CriterionView) -> tuple[str, ...]:
    command = _code(view.verify) if view.verify else ""
    seen = "no (refuted)" if view.is_refuted else _yes(view.observed)
    return f"**{view.id}** {_text(view.words)}", _yes(view.claimed), seen, command


def _evidence(project: Context, row: RunRow, views: list[CriterionView]) -> list[str]:
    """Return the end of each command's output, folded away."""
    found = []
    steps = project.layout.run(row.run_id).steps
    for view in views:
        if view.note:
            found.append(f"{view.id}: {_text(view.note)}")
        if view.observed is None:
            if view.evidence:
                found.append(f"{view.id}: {_text(view.evidence)}")
            continue
        lines = tail(steps / (view.evidence or ""))
        if lines:
            head = f"<details><summary>{view.id}: {_text(view.verify or '')}</summary>"
            found.append(f"{head}\n\n{_fenced(lines)}\n\n</details>")
    return found


def _step(found: StepVerdict) -> tuple[str, ...]:
    step, summary = found.step, _text(found.step.summary or "")
    return str(step.step_index), step.role, _text(step.agent or ""), found.words, summary


def _changes(project: Context, row: RunRow) -> str:
    if not row.base_commit or not row.head_commit or row.base_commit == row.head_commit:
        return "No files changed."
    try:
        return _fenced(trees.diff_summary(project.repo, row.base_commit, row.head_commit))
    except GitError as error:
        return f"The changes cannot be read: {_text(error.message)}"


def _protected(known: RunMemory) -> str:
    told = known.protected_words
    return f"Changed files that decide the checks: {_text(told)}." if told else ""


def _cost(known: RunMemory, usage: Sequence[UsageRow]) -> str:
    minutes = known.spent.minutes if known.spent else 0.0
    if not usage:
        return f"{minutes:.1f} minutes; the agents reported no tokens."
    used = show_view.total_usage(usage)
    tokens = used["input_tokens"] + used["output_tokens"]
    return f"{minutes:.1f} minutes, {tokens} tokens, {used['cost_usd']:.2f} USD."


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text(text: str) -> str:
    return " ".join(text.split()).translate(_ENTITIES)


def _code(text: str) -> str:
    words = " ".join(text.split()).replace("|", "\\|")
    mark = "`" * (_longest(words) + 1)
    return f"{mark} {words} {mark}"


def _fenced(text: str) -> str:
    mark = "`" * max(3, _longest(text) + 1)
    return f"{mark}text\n{text}\n{mark}"


def _longest(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _yes(value: bool | None) -> str:
    return "–" if value is None else "yes" if value else "no"
