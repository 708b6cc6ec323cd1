"""Dead letters: messages that could not be carried out, each with its reason beside it."""

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from treadle.contract import strictjson
from treadle.engine.run import Tools
from treadle.errors import BlockedError, FormatError, NotFoundError, TreadleError
from treadle.files import atomic, walk
from treadle.ids import nearest, utc
from treadle.inbox import box
from treadle.layout import Layout
from treadle.store.rows.message import MessageRow
from treadle.store.writer import Store
from treadle.tasks import questions
from treadle.tasks.claim import TREADLE
from treadle.tasks.questions import Question

REASON = ".reason.json"
_MAX_REASON = 1 << 20


class Letter(NamedTuple):
    """A dead letter's file name and what its reason file says."""

    name: str
    reason: dict[str, object]


def bury(tools: Tools, path: Path, error: TreadleError, row: MessageRow | None) -> str:
    """Move a message to the dead letters, say why beside it and on the desk; return its name."""
    target = box.move(path, tools.layout.inbox_dead)
    fix = [f"treadle dead show {target.name}", f"treadle dead retry {target.name}"]
    reason = {
        "code": error.code,
        "message": error.message,
        **error.details,
        "fix": [*error.fix, *fix],
        "at": utc(tools.now()),
        "file": box.show(path.name),
        "message_id": row.message_id if row else None,
        "spec": row.spec if row else None,
        "run_ids": list(row.run_ids) if row else [],
    }
    data = json.dumps(reason, indent=2, ensure_ascii=False).encode(errors="backslashreplace")
    atomic.write(target.with_name(target.name + REASON), data + b"\n")
    if row:
        saved = row._replace(status="dead", reason=error.code, updated_at=utc(tools.now()))
        tools.store.save_message(saved)
    if error.code == "not_approved":  # a human has said so already
        return target.name
    question = Question(
        kind="dead_letter",
        summary=f"{target.name}: {error.message}",
        options=("retry", "leave it"),
        fix=tuple(fix),
        run_id=row.run_ids[-1] if row and row.run_ids else None,
    )
    questions.ask(tools.store, question, tools.now())
    return target.name


def letters(layout: Layout) -> list[Letter]:
    """Return every dead letter, by name."""
    found = sorted(name for name in walk.names(layout.inbox_dead) if name.endswith(".md"))
    return [Letter(name, _reason(layout, name)) for name in found]


def document(found: Sequence[Letter]) -> dict[str, object]:
    """Return dead letters as programs get them."""
    return {"letters": [{"name": item.name, **item.reason} for item in found]}


def find(layout: Layout, text: str) -> Letter:
    """Return a dead letter by its file name, its message id or its spec."""
    found = letters(layout)
    for letter in found:
        known = (letter.name, letter.reason.get("message_id"), letter.reason.get("spec"))
        if text in known or f"{text}.md" == letter.name:
            return letter
    close = nearest(text, [letter.name for letter in found])
    hint = f"; did you mean {close}?" if close else ""
    raise NotFoundError(f"there is no dead letter {text!r}{hint}", fix=["treadle dead list"])


def text_of(layout: Layout, letter: Letter) -> str:
    """Return a dead letter's own words, if it is a plain text."""
    try:
        return box.read(layout.inbox_dead / letter.name).decode()
    except FormatError as error:
        return f"({error.message})"


def retry(layout: Layout, store: Store, letter: Letter, now: datetime) -> str:
    """Put a dead letter back into the inbox, its attempts forgotten; return its name there."""
    path = layout.inbox_dead / letter.name
    row = store.message(str(letter.reason.get("message_id")))
    name = f"{row.message_id}.md" if row else letter.name
    if row:
        last = row.run_ids[-1] if row.run_ids else row.after_run
        fresh = row._replace(status="waiting", run_ids=(), reason=None, after_run=last)
        store.save_message(fresh._replace(updated_at=utc(now)))
    try:
        atomic.rename_new(path, layout.inbox / name)
    except FileExistsError as error:
        raise BlockedError(
            f"{name} is already in the inbox", code="name_taken", fix=["treadle process"]
        ) from error
    path.with_name(path.name + REASON).unlink(missing_ok=True)
    for item in store.questions():
        if item.kind == "dead_letter" and item.summary.startswith(f"{letter.name}: "):
            store.answer(item.question_id, "retry", TREADLE, now)
    return name


def _reason(layout: Layout, name: str) -> dict[str, object]:
    path = layout.inbox_dead / f"{name}{REASON}"
    try:
        data = walk.read(path, max_bytes=_MAX_REASON)
        return strictjson.load_object(data, source=path.name)
    except FormatError as error:
        return {"code": "unknown", "message": error.message}
