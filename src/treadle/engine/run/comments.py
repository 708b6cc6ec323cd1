"""What a person says about a step's change; the next act step is told."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from treadle.errors import BlockedError, NotFoundError
from treadle.files import atomic
from treadle.layout import RunLayout
from treadle.store.runs import RunRow
from treadle.store.store import Reader, Store
from treadle.text import line, quoted

_KEY = "comment."
_MAX = 8 << 10
_INTRODUCTION = "Comments of a person on earlier changes; answer each of them with this change:"


class Comment(NamedTuple):
    """One remark; without a path it is about the whole step."""

    at: str
    step_index: int
    text: str
    path: str | None = None
    line: int | None = None

    @property
    def place(self) -> str:
        """Say what it is about."""
        where = f", {self.path}" if self.path else ""
        return f"step {self.step_index}{where}{f' line {self.line}' if self.line else ''}"


def add(store: Store, folder: RunLayout, row: RunRow, comment: Comment) -> None:
    """Leave a comment for the next act step of a run that can still have one."""
    if row.status in ("passed", "failed"):
        raise BlockedError(
            f"run {row.run_id} has {row.status}: no further act step will read a comment",
            code="run_over",
            fix=["treadle run --goal GOAL"],
        )
    if not any(step.step_index == comment.step_index for step in store.steps(row.run_id)):
        raise NotFoundError(
            f"run {row.run_id} has no step {comment.step_index}",
            fix=[f"treadle runs show {row.run_id}"],
        )
    value = comment._replace(text=comment.text[:_MAX])._asdict()
    if folder.folder.is_dir():  # a run of the fleet may have none here
        atomic.append(folder.comments, json.dumps(value).encode() + b"\n")
        atomic.sync(folder.comments)
    store.leave(row.run_id, f"{_KEY}{comment.at}", value)


def kept(folder: RunLayout) -> dict[str, object]:
    """Return the comments as the run's folder has them, for a store that lost them."""
    try:
        lines = folder.comments.read_bytes().splitlines()
        found: list[dict[str, object]] = [json.loads(item) for item in lines]
    except (OSError, ValueError):
        return {}
    return {f"{_KEY}{item.get('at')}": item for item in found}


def comments(kv: Mapping[str, object]) -> list[Comment]:
    """Return what was said about a run's steps, in order."""
    found = [value for key, value in sorted(kv.items()) if key.startswith(_KEY)]
    return [Comment(**value) for value in found if isinstance(value, dict)]


def unheard(store: Reader, run_id: str) -> list[Comment]:
    """Return what was said since the last act step began."""
    acts = [step.started_at for step in store.steps(run_id) if step.role == "act"]
    return [item for item in comments(store.kv(run_id)) if item.at > max(acts, default="")]


def words(store: Reader, run_id: str) -> str:
    """Return what the next act step is told, or nothing."""
    found = [
        f"On {line(item.place)}:\n{quoted(item.text, _MAX)}" for item in unheard(store, run_id)
    ]
    return "\n\n".join([_INTRODUCTION, *found]) if found else ""
