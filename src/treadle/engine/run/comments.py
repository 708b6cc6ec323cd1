"""What people said to a run, and what its next steps are told of it."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from treadle.engine.run import memory
from treadle.errors import BlockedError, NotFoundError, UsageError
from treadle.files import atomic
from treadle.ids import HUMAN, utc
from treadle.layout import RunLayout
from treadle.store.runs import RunRow
from treadle.store.store import Reader, Store
from treadle.text import line, quoted

_KEY = "comment."
_LONGEST = 8 << 10
_PLACED = re.compile(r"(.+?):(-?[1-9]\d{0,8})=(.*\S.*)", re.DOTALL)
_NOTED = "What a person says to whoever works on this; follow it:"
_INTRODUCTION = "Comments of a person on earlier steps; do as each of them says:"


class Comment(NamedTuple):
    """One remark; without a path it is about the whole step, without a step about the run.

    A negative line is one of the file as it was before the run.
    """

    at: str
    step_index: int
    text: str
    path: str | None = None
    line: int | None = None

    @property
    def place(self) -> str:
        """Say what it is about."""
        if not self.step_index:
            return "the whole run"
        where = f", {self.path}" if self.path else ""
        old = " as it was before" if self.line and self.line < 0 else ""
        line = f" line {abs(self.line)}{old}" if self.line else ""
        return f"step {self.step_index}{where}{line}"


def add(store: Store, folder: RunLayout, row: RunRow, comment: Comment) -> None:
    """Leave a comment for the next act step of a run that can still have one.

    One about the whole run is for every step that is still to come, and is left once.
    """
    if row.status == "passed":
        text = f"run {row.run_id} has passed: no further act step will read a comment"
        raise BlockedError(
            f"{text}; `treadle review --back` sends it back with one",
            code="run_over",
            fix=[memory.again(row) or f"treadle why {row.run_id}"],
        )
    leave(store, folder, row, comment)


def leave(store: Store, folder: RunLayout, row: RunRow, comment: Comment) -> None:
    """Leave a comment for a run that goes on, or is about to."""
    known = read(memory.recall(store, row.run_id).others)
    if not comment.step_index and comment.text in (it.text for it in known if not it.step_index):
        return
    indexes = [0, *(step.step_index for step in store.steps(row.run_id))]
    if comment.step_index not in indexes:
        text = f"run {row.run_id} has no step {comment.step_index}"
        raise NotFoundError(text, fix=[f"treadle runs show {row.run_id}"])
    value = comment._replace(text=comment.text[:_LONGEST])._asdict()
    if folder.folder.is_dir():  # a run of the fleet may have none here
        atomic.append(folder.comments, json.dumps(value).encode() + b"\n")
        atomic.sync(folder.comments)
    store.leave(row.run_id, f"{_KEY}{comment.at}", value)


def review(step: int, text: str | None, on: Sequence[str], now: datetime) -> tuple[Comment, ...]:
    """Return what was said in one review: FILE:LINE=TEXT each, and a text about all of it."""
    places = [_PLACED.fullmatch(word) for word in on]
    if wrong := next((word for word, it in zip(on, places, strict=True) if not it), None):
        raise UsageError(
            f"--on {wrong!r}: write FILE:LINE=TEXT, for a removed line FILE:-LINE=TEXT"
        )
    found = [(text, None, None)] if text and text.strip() else []
    said = [*found, *((it[3], it[1], int(it[2])) for it in places if it)]
    if not said:
        raise UsageError("a review must say something: give it --text, or --on FILE:LINE=TEXT")
    # Comments are told apart by their moments.
    moments = (utc(now + timedelta(microseconds=number)) for number in range(len(said)))
    return tuple(Comment(at, step, *it) for at, it in zip(moments, said, strict=True))


def kept(folder: RunLayout) -> dict[str, object]:
    """Return the comments as the run's folder has them, for a store that lost them."""
    try:
        lines = folder.comments.read_bytes().splitlines()
        found: list[dict[str, object]] = [json.loads(item) for item in lines]
    except (OSError, ValueError):
        return {}
    return {f"{_KEY}{item.get('at')}": item for item in found}


def read(kv: Mapping[str, object]) -> list[Comment]:
    """Return what was said about a run's steps, in order."""
    found = [value for key, value in sorted(kv.items()) if key.startswith(_KEY)]
    return [Comment(**value) for value in found if isinstance(value, dict)]


def unheard(store: Reader, run_id: str) -> list[Comment]:
    """Return what was said since the last act step began; words on a plan are for the next one."""
    steps = store.steps(run_id)
    acts = [step.started_at for step in steps if step.role == "act"]
    plans = {it.step_index: it for it in steps if it.role == "plan" and it.status == "ok"}
    anew = [step.started_at for step in plans.values() if step.agent != HUMAN]
    found = (item for item in read(memory.recall(store, run_id).others) if item.step_index)
    since = ((item, acts + anew if item.step_index in plans else acts) for item in found)
    return [item for item, heard in since if item.at > max(heard, default="")]


def run_notes(store: Reader, run_id: str) -> str:
    """Return what every step is told that a person said about the whole run, or nothing."""
    found = [item for item in read(memory.recall(store, run_id).others) if not item.step_index]
    told = [quoted(item.text, _LONGEST) for item in found]
    return "\n\n".join([_NOTED, *told]) if told else ""


def act_notes(store: Reader, run_id: str) -> str:
    """Return what the next act step is told, or nothing."""
    found = [
        f"On {line(item.place)}:\n{quoted(item.text, _LONGEST)}" for item in unheard(store, run_id)
    ]
    return "\n\n".join([_INTRODUCTION, *found]) if found else ""
